#define REAL float
#define SCALAR double
#define ACCUM double
#define DIM 2
#define NUM_QPTS 4
#define NUM_COMP 2
#define NUM_ROWS 8
#define NUM_COORD_BASIS 4
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_w_offsets(cell, i) ((size_t)(cell) * 4 + (i))
#define AT_d_a0_offsets(cell, i) ((size_t)(cell) * 4 + (i))
#define AT_d_coord_offsets(cell, i) ((size_t)(cell) * 4 + (i))
#define AT_d_out0(cell, i) ((size_t)(cell) * 8 + (i))
// Types. REAL, SCALAR and ACCUM are set by the plan: arithmetic, storage of vectors, sums over points.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef REAL real;
typedef SCALAR scalar;
typedef ACCUM accum;
#define R(x) ((real)(x))

#ifdef UNROLLED
#define UNROLL _Pragma("unroll")
#elif defined(ROLLED)
#define UNROLL _Pragma("unroll 1")
#else
#define UNROLL
#endif

// Where word i of a cell stands in an array: AT_<array>(cell, i), defined above for every array.

// An offset ~o marks a node at o some of whose components are prescribed: d_prescribed[o + c] says which. Fields of one component
// need no such array.
#define NODE(mark) ((mark) < 0 ? ~(mark) : (mark))
#define IS_PRESCRIBED(mark, c) ((mark) < 0 && d_prescribed[~(mark) + (c)])

// Adds x to a number in global memory; how, and the type, say macros.
#if defined(ATOMIC_PTX64)
inline void atomic_add_scalar(__global double *p, double x) {
  asm volatile("red.global.add.f64 [%0], %1;" ::"l"(p), "d"(x) : "memory");
}
#elif defined(ATOMIC_PTX32)
inline void atomic_add_scalar(__global scalar *p, scalar x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(x) : "memory");
}
#elif defined(ATOMIC_CAS64)
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
inline void atomic_add_scalar(__global double *p, double x) {
  union { double value; ulong bits; } seen, next;
  do {
    seen.value = *(volatile __global double *)p;
    next.value = seen.value + x;
  } while (atom_cmpxchg((volatile __global ulong *)p, seen.bits, next.bits) != seen.bits);
}
#elif defined(ATOMIC_CAS32)
inline void atomic_add_scalar(__global scalar *p, scalar x) {
  union { scalar value; uint bits; } seen, next;
  do {
    seen.value = *(volatile __global scalar *)p;
    next.value = seen.value + x;
  } while (atomic_cmpxchg((volatile __global uint *)p, seen.bits, next.bits) != seen.bits);
}
#endif

#define TABLE __global
#define TABLE_W(q) d_tables[q]
#define TABLE_B0(q) (d_tables + 4 + (q) * 4)
#define TABLE_D0(q) (d_tables + 20 + (q) * 8)
#define TABLE_B(i, q) TABLE_B##i(q)
#define TABLE_D(i, q) TABLE_D##i(q)
#define TABLE_H(i, q) TABLE_H##i(q)
// Geometry of a cell: J[d * DIM + k] = dx_d / dX_k, its inverse J_inv[k * DIM + d] = dX_k / dx_d, its determinant.

// 1 / x for ordinary x. On NVIDIA an approximation of 20 bits, whose relative error a step of third order cubes, in single precision one
// of 23 bits and a step of second order: as exact as a division but for the last bit, without its branches.
inline real reciprocal(const real x) {
#ifdef RECIPROCAL_PTX64
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  const double error = fma(-x, y, 1.0);
  return fma(fma(error, error, error), y, y);
#elif defined(RECIPROCAL_PTX32)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fma(fma(-x, y, 1.0f), y, y);
#else
  return R(1) / x;
#endif
}

// The inverse of J times its determinant, which is returned.
inline real adjugate(const real *J, real *out) {
#if DIM == 1
  out[0] = 1;
  return J[0];
#elif DIM == 2
  out[0] = J[3];
  out[1] = -J[1];
  out[2] = -J[2];
  out[3] = J[0];
  return J[0] * J[3] - J[1] * J[2];
#else
  out[0] = J[4] * J[8] - J[5] * J[7];
  out[1] = J[2] * J[7] - J[1] * J[8];
  out[2] = J[1] * J[5] - J[2] * J[4];
  out[3] = J[5] * J[6] - J[3] * J[8];
  out[4] = J[0] * J[8] - J[2] * J[6];
  out[5] = J[2] * J[3] - J[0] * J[5];
  out[6] = J[3] * J[7] - J[4] * J[6];
  out[7] = J[1] * J[6] - J[0] * J[7];
  out[8] = J[0] * J[4] - J[1] * J[3];
  return J[0] * out[0] + J[1] * out[3] + J[2] * out[6];
#endif
}

// Inverts J; returns the determinant.
inline real invert(const real *J, real *J_inv) {
  const real det = adjugate(J, J_inv), scale = reciprocal(det);
  for (int i = 0; i < DIM * DIM; ++i) J_inv[i] *= scale;
  return det;
}

// Outward unit normal n = J^-T N / |J^-T N| of a facet from that of the reference facet, N; returns |J^-T N|.
inline real facet_normal(TABLE const real *N, const real *J_inv, real *n) {
  real square = 0;
  for (int d = 0; d < DIM; ++d) {
    n[d] = 0;
    for (int k = 0; k < DIM; ++k) n[d] += J_inv[k * DIM + d] * N[k];
    square += n[d] * n[d];
  }
  const real length = sqrt(square);
  for (int d = 0; d < DIM; ++d) n[d] /= length;
  return length;
}

// out[k] = weight sum_d J_inv[k, d] f1[d]: the flux in reference coordinates, ready for D^T
inline void pull_back_flux(const real *J_inv, const real weight, const real *f1, real *out) {
  for (int k = 0; k < DIM; ++k) {
    real sum = 0;
    for (int d = 0; d < DIM; ++d) sum += J_inv[k * DIM + d] * f1[d];
    out[k] = weight * sum;
  }
}

// In cells whose map bends: out[c, k, l] -= sum_m gradient[c, m] d^2 x_m / dX_k dX_l
inline void subtract_map(const int num_comp, const real *gradient, const real *map_xx, real *out) {
  for (int c = 0; c < num_comp; ++c)
    for (int m = 0; m < DIM; ++m)
      for (int i = 0; i < DIM * DIM; ++i) out[c * DIM * DIM + i] -= gradient[c * DIM + m] * map_xx[m * DIM * DIM + i];
}

// out[i, j] = sum_kl J_inv[k, i] h[k, l] J_inv[l, j]
inline void push_hessian(const real *J_inv, const real *h, real *out) {
  for (int i = 0; i < DIM; ++i)
    for (int j = 0; j < DIM; ++j) {
      real sum = 0;
      for (int k = 0; k < DIM; ++k)
        for (int l = 0; l < DIM; ++l) sum += J_inv[k * DIM + i] * h[k * DIM + l] * J_inv[l * DIM + j];
      out[i * DIM + j] = sum;
    }
}

// Actions of a tabulated basis at one point. Tables: B (num_basis), D (num_basis, DIM) of that point, in reference
// coordinates; coefficients e (num_basis, num_comp).

// sum += entry x, entry of a table: where entries are known as the program is built, those that are zero are left out, and
// what they would multiply, a NaN say.
#ifdef KNOWN_TABLES
#define ADD_PRODUCT(sum, entry, x) { if ((entry) != 0) sum += (entry) * (x); }
#else
#define ADD_PRODUCT(sum, entry, x) sum += (entry) * (x);
#endif

// value[c] = sum_b B[b] e[b, c]
inline void interpolate_value(const int num_basis, const int num_comp, TABLE const real *B, const real *e, real *value) {
  for (int c = 0; c < num_comp; ++c) value[c] = 0;
  UNROLL
  for (int b = 0; b < num_basis; ++b)
    for (int c = 0; c < num_comp; ++c) ADD_PRODUCT(value[c], B[b], e[b * num_comp + c])
}

// gradient[c, k] = sum_b D[b, k] e[b, c], in reference coordinates
inline void interpolate_reference_gradient(const int num_basis, const int num_comp, TABLE const real *D, const real *e,
                                           real *gradient) {
  for (int i = 0; i < num_comp * DIM; ++i) gradient[i] = 0;
  UNROLL
  for (int b = 0; b < num_basis; ++b)
    for (int c = 0; c < num_comp; ++c)
      for (int k = 0; k < DIM; ++k) ADD_PRODUCT(gradient[c * DIM + k], D[b * DIM + k], e[b * num_comp + c])
}

// gradient[c, d] = sum_k (sum_b D[b, k] e[b, c]) J_inv[k, d]
inline void interpolate_gradient(const int num_basis, const int num_comp, TABLE const real *D, const real *e,
                                 const real *J_inv, real *gradient) {
  for (int c = 0; c < num_comp; ++c) {
    real reference[DIM];
    for (int k = 0; k < DIM; ++k) reference[k] = 0;
    UNROLL
    for (int b = 0; b < num_basis; ++b)
      for (int k = 0; k < DIM; ++k) ADD_PRODUCT(reference[k], D[b * DIM + k], e[b * num_comp + c])
    for (int d = 0; d < DIM; ++d) {
      gradient[c * DIM + d] = 0;
      for (int k = 0; k < DIM; ++k) gradient[c * DIM + d] += reference[k] * J_inv[k * DIM + d];
    }
  }
}

// e[b, c] += weight B[b] f0[c]
inline void integrate_value(const int num_basis, const int num_comp, TABLE const real *B, const real weight, const real *f0,
                            accum *e) {
  UNROLL
  for (int b = 0; b < num_basis; ++b)
    for (int c = 0; c < num_comp; ++c) e[b * num_comp + c] += (accum)(B[b] * (weight * f0[c]));
}

// e[b, c] += sum_k D[b, k] f1[c, k], the flux in reference coordinates
inline void integrate_reference_gradient(const int num_basis, const int num_comp, TABLE const real *D, const real *f1, accum *e) {
  for (int c = 0; c < num_comp; ++c) {
    UNROLL
    for (int b = 0; b < num_basis; ++b) {
      real sum = 0;
      for (int k = 0; k < DIM; ++k) ADD_PRODUCT(sum, D[b * DIM + k], f1[c * DIM + k])
      e[b * num_comp + c] += (accum)sum;
    }
  }
}

// e[b, c] += sum_k D[b, k] weight (J_inv f1[c])[k]
inline void integrate_gradient(const int num_basis, const int num_comp, TABLE const real *D, const real weight,
                               const real *J_inv, const real *f1, accum *e) {
  for (int c = 0; c < num_comp; ++c) {
    real flux[DIM];
    pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
    UNROLL
    for (int b = 0; b < num_basis; ++b) {
      real sum = 0;
      for (int k = 0; k < DIM; ++k) ADD_PRODUCT(sum, D[b * DIM + k], flux[k])
      e[b * num_comp + c] += (accum)sum;
    }
  }
}

// e[b, c] += sum_kl H[b, k, l] f2[c, k, l], what multiplies second derivatives in reference coordinates
inline void integrate_reference_hessian(const int num_basis, const int num_comp, TABLE const real *H, const real *f2, accum *e) {
  for (int c = 0; c < num_comp; ++c)
    for (int b = 0; b < num_basis; ++b) {
      real sum = 0;
      for (int i = 0; i < DIM * DIM; ++i) sum += H[b * DIM * DIM + i] * f2[c * DIM * DIM + i];
      e[b * num_comp + c] += (accum)sum;
    }
}

// gradient[d] of basis function b in physical coordinates
inline void basis_gradient(TABLE const real *D, const int b, const real *J_inv, real *gradient) {
  for (int d = 0; d < DIM; ++d) {
    gradient[d] = 0;
    for (int k = 0; k < DIM; ++k) gradient[d] += D[b * DIM + k] * J_inv[k * DIM + d];
  }
}

// reference second derivatives out[c, k, l] = sum_b H[b, k, l] e[b, c]
inline void reference_hessian(const int num_basis, const int num_comp, TABLE const real *H, const real *e, real *out) {
  for (int i = 0; i < num_comp * DIM * DIM; ++i) out[i] = 0;
  for (int b = 0; b < num_basis; ++b)
    for (int c = 0; c < num_comp; ++c)
      for (int i = 0; i < DIM * DIM; ++i) out[c * DIM * DIM + i] += H[b * DIM * DIM + i] * e[b * num_comp + c];
}

// hessian[i, j] of basis function b in physical coordinates; gradient is its physical gradient, map_xx that of the cell's map
inline void basis_hessian(TABLE const real *H, const int b, const real *J_inv, const real *gradient, const real *map_xx,
                          const int bends, real *hessian) {
  real reference_xx[DIM * DIM];
  for (int i = 0; i < DIM * DIM; ++i) reference_xx[i] = H[b * DIM * DIM + i];
  if (bends) subtract_map(1, gradient, map_xx, reference_xx);
  push_hessian(J_inv, reference_xx, hessian);
}

// From the coordinates x_e (num_basis, DIM) and the gradients D (num_basis, DIM) of the coordinate basis at the point.
inline real rebuild(const int num_basis, TABLE const real *D, const real *x_e, real *J_inv) {
  real J[DIM * DIM];
  for (int i = 0; i < DIM * DIM; ++i) J[i] = 0;
  UNROLL
  for (int b = 0; b < num_basis; ++b)
    for (int d = 0; d < DIM; ++d)
      for (int k = 0; k < DIM; ++k) ADD_PRODUCT(J[d * DIM + k], D[b * DIM + k], x_e[b * DIM + d])
  return invert(J, J_inv);
}

inline void pointwise(const real *u, const real *u_x, const real *u_xx, const real *w, const real *w_x, const real *w_xx, const real *a, const real *a_x, const real *a_xx, const real *x, const real *n, const real *s,
                      __global const real *constants, real *f0, real *f1) {
  const int dim = DIM;
  (void)dim;
  f0[0] = w[0] * constants[0];
  f0[1] = w[1];
  for (int i = 0; i < 4; ++i) f1[i] = a[0] * w_x[i];
}

#define GROUP_SIZE 64
#define CELLS 8
#define NUM_BATCHES 4
#define CHUNKS 4
#define ITEMS 16
#define HAS_F0 1
#define HAS_F1 1
#define HAS_F2 0
#define UNROLL_POINTS 0
#define POINTS_UNROLL
// Schedule transposed: a work-group serves NUM_BATCHES batches of CELLS cells in sequence. In the evaluation phase an item
// stands for (cell, point), after the barrier for (cell, basis row), and walks over the batch (cells of one point are as many as
// items). As ITEMS is a multiple of
// the points and of the rows (unless the device is too small for a block), an item keeps its point and its row. The last
// batch is masked by first + count.
// Index space: a group holds CHUNKS chunks of ITEMS = num_blocks * block_size items; local id = chunk * ITEMS + item.
// All arrays hold the words of a cell together, so that AT_<array>(cell, i) runs on into the following cells.
#define WORDS (HAS_F0 + DIM * HAS_F1 + DIM * DIM * HAS_F2)
#define FLUX_STRIDE 6
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void action(const int first, const int count, __global const scalar *restrict d_w, __global const int *restrict d_w_offsets, __global const scalar *restrict d_a0, __global const int *restrict d_a0_offsets, __global const real *restrict d_coords, __global const int *restrict d_coord_offsets, __global const real *restrict d_constants, __global const real *restrict d_tables, __global const uchar *restrict d_prescribed, __global scalar *restrict d_out0) {
  const int item = (int)get_local_id(0) % ITEMS;
  const int chunk = (int)get_local_id(0) / ITEMS;
  __local real s_all_w[CHUNKS * CELLS * 8];
  __local real *s_w = s_all_w + chunk * CELLS * 8;
  __local real s_all_a0[CHUNKS * CELLS * 4];
  __local real *s_a0 = s_all_a0 + chunk * CELLS * 4;
  __local real s_all_x[CHUNKS * CELLS * NUM_COORD_BASIS * DIM];
  __local real *s_x = s_all_x + chunk * CELLS * NUM_COORD_BASIS * DIM;
  __local real s_all_f[1 * CHUNKS * CELLS * NUM_QPTS * FLUX_STRIDE];

  for (int batch = 0; batch < NUM_BATCHES; ++batch) {
    // The mask does not look at `first`: with it in both, an H200 takes 8 registers more and up to 8 % more time.
    const int past = (((int)get_group_id(0) * CHUNKS + chunk) * NUM_BATCHES + batch) * CELLS;
    const int begin = first + past, cells = clamp(count - past, 0, CELLS);
    __local real *s_f = s_all_f + (batch % 1 * CHUNKS + chunk) * CELLS * NUM_QPTS * FLUX_STRIDE;

    // gather: consecutive items read consecutive words
    for (int i = item; i < cells * 8; i += ITEMS)
      s_w[i] = IS_PRESCRIBED(d_w_offsets[AT_d_w_offsets(begin, i / 2)], i % 2) ? R(0) : (real)d_w[NODE(d_w_offsets[AT_d_w_offsets(begin, i / 2)]) + i % 2];
    for (int i = item; i < cells * 4; i += ITEMS)
      s_a0[i] = (real)d_a0[d_a0_offsets[AT_d_a0_offsets(begin, i)]];
    for (int i = item; i < cells * NUM_COORD_BASIS * DIM; i += ITEMS)
      s_x[i] = d_coords[d_coord_offsets[AT_d_coord_offsets(begin, i / DIM)] + i % DIM];
    barrier(CLK_LOCAL_MEM_FENCE);

    // evaluation phase: tabulate and pointwise
    for (int i = item; i < cells * NUM_QPTS; i += ITEMS) {
      const int cell = i / NUM_QPTS, q = i % NUM_QPTS;
      real r_w_e[8];
      UNROLL
      for (int k = 0; k < 8; ++k) r_w_e[k] = s_w[cell * 8 + k];
      real r_a0_e[4];
      UNROLL
      for (int k = 0; k < 4; ++k) r_a0_e[k] = s_a0[cell * 4 + k];
      real r_x_e[NUM_COORD_BASIS * DIM];
      UNROLL
      for (int k = 0; k < NUM_COORD_BASIS * DIM; ++k) r_x_e[k] = s_x[cell * NUM_COORD_BASIS * DIM + k];
      real J_inv[DIM * DIM];
      const real det_J = rebuild(NUM_COORD_BASIS, TABLE_D(0, q), r_x_e, J_inv);
    real r_u[1];
    real r_u_x[1];
    real r_u_xx[1];
    real r_w[2];
    real r_w_x[4];
    real r_w_xx[1];
    real r_a[1];
    real r_a_x[2];
    real r_a_xx[1];
    real r_x[2];
    real r_n[2];
    real r_s[1];
    interpolate_value(4, 2, TABLE_B(0, q), r_w_e, r_w + 0);
    interpolate_gradient(4, 2, TABLE_D(0, q), r_w_e, J_inv, r_w_x + 0 * DIM);
    interpolate_value(4, 1, TABLE_B(0, q), r_a0_e, r_a + 0);
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;

      real f0[2]; for (int i = 0; i < 2; ++i) f0[i] = 0;
    real f1[4]; for (int i = 0; i < 4; ++i) f1[i] = 0;
      pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, f0, f1);
      for (int c = 0; c < NUM_COMP; ++c) {
        __local real *s_out = s_f + (cell * NUM_QPTS + q) * FLUX_STRIDE + c * WORDS;
        s_out[0] = weight * f0[c];
        real flux[DIM];
        pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
        for (int k = 0; k < DIM; ++k) s_out[HAS_F0 + k] = flux[k];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integration phase and scatter
    for (int i = item; i < cells * 8; i += ITEMS) {
      const int cell = i / 8, row = i % 8;
      const int b = row / 2, c = row % 2;
      accum sum = 0;
      for (int p = 0; p < NUM_QPTS; ++p) {
        __local const real *s_in = s_f + (cell * NUM_QPTS + p) * FLUX_STRIDE + (0 + c) * WORDS;
        sum += TABLE_B(0, p)[b] * s_in[0];
        for (int k = 0; k < DIM; ++k) sum += TABLE_D(0, p)[b * DIM + k] * s_in[HAS_F0 + k];
      }
      d_out0[AT_d_out0(begin + cell, row)] = (scalar)sum;
    }
  }
}
