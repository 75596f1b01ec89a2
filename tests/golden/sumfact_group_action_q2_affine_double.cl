#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 3
#define NUM_QPTS 27
#define NUM_COMP 1
#define NUM_ROWS 27
#define NUM_COORD_BASIS 8
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_w_offsets(cell, i) ((size_t)(cell) * 27 + (i))
#define AT_d_coord_offsets(cell, i) ((size_t)(cell) * 8 + (i))
#define AT_d_out0(cell, i) ((size_t)(cell) * 27 + (i))
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

#define TABLE __constant
__constant real d_lines[69] = {R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.0000000000000p-18), R(0x1.0000000000000p-18), R(0x1.0000000000000p-18), R(0x1.0000000000000p-17), R(0x1.0000000000000p-17), R(0x1.0000000000000p-17), R(0x1.0000000000000p-17), R(0x1.0000000000000p-17), R(0x1.0000000000000p-17), R(0x1.0000000000000p-16), R(0x1.0000000000000p-16), R(0x1.0000000000000p-16), R(0x1.0000000000000p-17), R(0x1.0000000000000p-17), R(0x1.0000000000000p-17), R(0x1.0000000000000p-16), R(0x1.0000000000000p-16), R(0x1.0000000000000p-16), R(0x1.0000000000000p-16), R(0x1.0000000000000p-16), R(0x1.0000000000000p-16), R(0x1.0000000000000p-15), R(0x1.0000000000000p-15), R(0x1.0000000000000p-15)};
#define LINE_W (d_lines + 0)
#define LINE_X (d_lines + 3)
#define LINE_D (d_lines + 6)
#define LINE_B0 (d_lines + 15)
#define LINE_D0 (d_lines + 24)
#define LINE_B1 (d_lines + 33)
#define LINE_D1 (d_lines + 39)
#define LINE_MAP (d_lines + 45)
#define LATTICE_W(p) (LINE_W[(p) / 1 % 3] * LINE_W[(p) / 3 % 3] * LINE_W[(p) / 9 % 3])
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

inline void pointwise(const real *u, const real *u_x, const real *u_xx, const real *w, const real *w_x, const real *w_xx, const real *a, const real *a_x, const real *a_xx, const real *x, const real *n, const real *s,
                      __global const real *constants, real *f0, real *f1) {
  const int dim = DIM;
  (void)dim;
  for (int i = 0; i < 3; ++i) f1[i] = w_x[i];
}

#define GROUP_SIZE 36
#define LANES 1
#define ITEMS 9
#define CELLS 4
#define LINE 3
#define POINTS_UNROLL
// Schedule sumfact, ITEMS work-items for each of the CELLS cells of a work-group, whose lattices stand in local memory. Between barriers
// items take lines of a lattice, whose contraction with a 1D matrix is private, and points.
// Index space: local id = (cell, item). Past the last cell of the launch items repeat it and write nothing.
#define LATTICE __local
// All items go round equally often: PoCL 3.1 computes something else where they do not, in some work-groups of odd size.
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
inline void evaluate(const int item, const int rows, const int columns, const int row_step, const int column_step, const int above,
                    const int below, __constant const real *matrix, __local const real *source, __local real *target,
                    const int adds) {
  EACH(line, above * below) {
    __local const real *in = source + line / below * columns * below + line % below;
    __local real *out = target + line / below * rows * below + line % below;
    real values[LINE];
    _Pragma("unroll")
    for (int c = 0; c < columns; ++c) values[c] = in[c * below];
    UNROLL
    for (int r = 0; r < rows; ++r) {
      real sum = adds ? out[r * below] : 0;
      _Pragma("unroll")
      for (int c = 0; c < columns; ++c) sum += (real)matrix[r * row_step + c * column_step] * values[c];
      out[r * below] = sum;
    }
  }
}

inline void integrate(const int item, const int rows, const int columns, const int row_step, const int column_step, const int above,
                    const int below, __constant const real *matrix, __local const accum *source, __local accum *target,
                    const int adds) {
  EACH(line, above * below) {
    __local const accum *in = source + line / below * columns * below + line % below;
    __local accum *out = target + line / below * rows * below + line % below;
    accum values[LINE];
    _Pragma("unroll")
    for (int c = 0; c < columns; ++c) values[c] = in[c * below];
    UNROLL
    for (int r = 0; r < rows; ++r) {
      accum sum = adds ? out[r * below] : 0;
      _Pragma("unroll")
      for (int c = 0; c < columns; ++c) sum += (accum)matrix[r * row_step + c * column_step] * values[c];
      out[r * below] = sum;
    }
  }
}

// What `basis.cl` computes from tables at a point is read and written here as sums over the lattice: word `slot` of place p of one cell
// is e[(slot * NUM_QPTS + p) * LANES]; slots as in `contractions.py`.
// LATTICE is the address space.
#ifndef AT_POINT
#define AT_POINT(slot, p) (((slot) * NUM_QPTS + (p)) * LANES)
#endif
#define TABLE_B(i, q) place
#define TABLE_D(i, q) place
#define TABLE_H(i, q) place
#define TABLE_W(q) LATTICE_W(place)

// value[c]
inline void interpolate_value(const int num_basis, const int num_comp, const int p, LATTICE const real *e, real *value) {
  for (int c = 0; c < num_comp; ++c) value[c] = e[AT_POINT(c, p)];
}

// gradient[c, k], in reference coordinates
inline void interpolate_reference_gradient(const int num_basis, const int num_comp, const int p, LATTICE const real *e, real *gradient) {
  for (int i = 0; i < num_comp * DIM; ++i) gradient[i] = e[AT_POINT(num_comp + i, p)];
}

// gradient[c, d] = sum_k reference[c, k] J_inv[k, d]
inline void interpolate_gradient(const int num_basis, const int num_comp, const int p, LATTICE const real *e, const real *J_inv,
                                 real *gradient) {
  for (int c = 0; c < num_comp; ++c) {
    real reference[DIM];
    for (int k = 0; k < DIM; ++k) reference[k] = e[AT_POINT(num_comp + c * DIM + k, p)];
    for (int d = 0; d < DIM; ++d) {
      gradient[c * DIM + d] = 0;
      for (int k = 0; k < DIM; ++k) gradient[c * DIM + d] += reference[k] * J_inv[k * DIM + d];
    }
  }
}

// reference second derivatives out[c, k, l], which stand there for k <= l
inline void reference_hessian(const int num_basis, const int num_comp, const int p, LATTICE const real *e, real *out) {
  for (int c = 0; c < num_comp; ++c)
    for (int k = 0; k < DIM; ++k)
      for (int l = 0; l < DIM; ++l)
        out[(c * DIM + k) * DIM + l] = e[AT_POINT(num_comp * (1 + DIM) + (c * DIM + min(k, l)) * DIM + max(k, l), p)];
}

// The inverse Jacobian and, returned, the determinant from the gradients of the coordinates.
inline real rebuild(const int num_basis, const int p, LATTICE const real *x_e, real *J_inv) {
  real J[DIM * DIM];
  interpolate_reference_gradient(num_basis, DIM, p, x_e, J);
  return invert(J, J_inv);
}

// The inverse Jacobian times the determinant in its place.
inline real rebuild_adjugate(const int num_basis, const int p, LATTICE const real *x_e, real *out) {
  real J[DIM * DIM];
  interpolate_reference_gradient(num_basis, DIM, p, x_e, J);
  return adjugate(J, out);
}

// What multiplies the test function's values: weight f0[c]
inline void integrate_value(const int num_basis, const int num_comp, const int p, const real weight, const real *f0, LATTICE accum *e) {
  for (int c = 0; c < num_comp; ++c) e[AT_POINT(c, p)] = (accum)(weight * f0[c]);
}

// ... its gradients: the flux in reference coordinates
inline void integrate_reference_gradient(const int num_basis, const int num_comp, const int p, const real *f1, LATTICE accum *e) {
  for (int i = 0; i < num_comp * DIM; ++i) e[AT_POINT(num_comp + i, p)] = (accum)f1[i];
}

// ... weight J_inv f1[c]
inline void integrate_gradient(const int num_basis, const int num_comp, const int p, const real weight, const real *J_inv,
                               const real *f1, LATTICE accum *e) {
  for (int c = 0; c < num_comp; ++c) {
    real flux[DIM];
    pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
    for (int k = 0; k < DIM; ++k) e[AT_POINT(num_comp + c * DIM + k, p)] = (accum)flux[k];
  }
}

// ... its second derivatives in reference coordinates, which stand there for k <= l
inline void integrate_reference_hessian(const int num_basis, const int num_comp, const int p, const real *f2, LATTICE accum *e) {
  for (int c = 0; c < num_comp; ++c)
    for (int k = 0; k < DIM; ++k)
      for (int l = k; l < DIM; ++l) {
        const real both = f2[(c * DIM + k) * DIM + l] + (k < l ? f2[(c * DIM + l) * DIM + k] : R(0));
        e[AT_POINT(num_comp * (1 + DIM) + (c * DIM + k) * DIM + l, p)] = (accum)both;
      }
}

__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void action(const int first, const int count, __global const scalar *restrict d_w, __global const int *restrict d_w_offsets, __global const real *restrict d_coords, __global const int *restrict d_coord_offsets, __global const real *restrict d_constants, __global scalar *restrict d_out0) {
  const int item = (int)get_local_id(0) % ITEMS, own = (int)get_local_id(0) / ITEMS;
  const int past = (int)get_group_id(0) * CELLS + own, cell = first + min(past, count - 1);
  __local real s_w_q[432]; // 3456 bytes
  __local real s_w_c[108]; // 864 bytes
  __local real s_w_2[108]; // 864 bytes
  __local real s_w_1[108]; // 864 bytes
  __local real s_x_q[324]; // 2592 bytes
  __local real s_x_c[96]; // 768 bytes
  __local accum s_f0_q[432]; // 3456 bytes
  __local accum s_f0_c[108]; // 864 bytes
  __local accum s_f0_2[108]; // 864 bytes
  __local accum s_f0_1[108]; // 864 bytes
  __local real s_map[40]; // 320 bytes
  __local real *r_w_q = s_w_q + own * 108;
  __local real *r_w_c = s_w_c + own * 27;
  __local real *r_w_2 = s_w_2 + own * 27;
  __local real *r_w_1 = s_w_1 + own * 27;
  __local real *r_x_q = s_x_q + own * 81;
  __local real *r_x_c = s_x_c + own * 24;
  __local accum *r_f0_q = s_f0_q + own * 108;
  __local accum *r_f0_c = s_f0_c + own * 27;
  __local accum *r_f0_2 = s_f0_2 + own * 27;
  __local accum *r_f0_1 = s_f0_1 + own * 27;
  __local real *r_map = s_map + own * 10;

  // gather
  {
    __local real *r_w_e = r_w_c;
    __local real *r_x_e = r_x_c;
  UNROLL
  EACH(b, 27) {
    const int offset = d_w_offsets[AT_d_w_offsets(cell, b)];
    for (int c = 0; c < 1; ++c) r_w_e[(c * 27 + b) * LANES] = (real)d_w[offset + c];
  }
  UNROLL
  EACH(b, NUM_COORD_BASIS)
    for (int d = 0; d < DIM; ++d) r_x_e[(d * 8 + b) * LANES] = d_coords[d_coord_offsets[AT_d_coord_offsets(cell, b)] + d];

  }

  // tabulate
  barrier(CLK_LOCAL_MEM_FENCE);
  evaluate(item, 3, 3, 3, 1, 1, 9, LINE_B0, r_w_c + 0, r_w_2 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  evaluate(item, 3, 3, 3, 1, 3, 3, LINE_B0, r_w_2 + 0, r_w_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  evaluate(item, 3, 3, 3, 1, 9, 1, LINE_B0, r_w_1 + 0, r_w_q + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  evaluate(item, 3, 3, 3, 1, 1, 9, LINE_D, r_w_q + 0, r_w_q + 81, 0);
  evaluate(item, 3, 3, 3, 1, 3, 3, LINE_D, r_w_q + 0, r_w_q + 54, 0);
  evaluate(item, 3, 3, 3, 1, 9, 1, LINE_D, r_w_q + 0, r_w_q + 27, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    real J[DIM * DIM], inverse[DIM * DIM];
    for (int d = 0; d < DIM; ++d)
      for (int k = 0; k < DIM; ++k) {
        real sum = 0;
        for (int b = 0; b < NUM_COORD_BASIS; ++b) sum += LINE_MAP[b * DIM + k] * r_x_c[d * NUM_COORD_BASIS + b];
        J[d * DIM + k] = sum;
      }
    r_map[DIM * DIM] = invert(J, inverse);
    for (int i = 0; i < DIM * DIM; ++i) r_map[i] = inverse[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  EACH(place, NUM_QPTS) {
    const int q = place;
    __local real *r_w_e = r_w_q;
    __local real *r_x_e = r_x_q;
    __local accum *r_f0_e = r_f0_q;
    real J_inv[DIM * DIM], det_J;
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = r_map[i];
    det_J = r_map[DIM * DIM];
    // tabulate

    real r_u[1];
    real r_u_x[1];
    real r_u_xx[1];
    real r_w[1];
    real r_w_x[3];
    real r_w_xx[1];
    real r_a[1];
    real r_a_x[1];
    real r_a_xx[1];
    real r_x[3];
    real r_n[3];
    real r_s[1];
    interpolate_gradient(27, 1, TABLE_D(0, q), r_w_e, J_inv, r_w_x + 0 * DIM);
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real f0[1]; for (int i = 0; i < 1; ++i) f0[i] = 0;
    real f1[3]; for (int i = 0; i < 3; ++i) f1[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, f0, f1);

    // integrate
    integrate_gradient(27, 1, TABLE_D(0, q), weight, J_inv, f1 + 0 * DIM, r_f0_e);

  }

  // integrate
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 3, 3, 1, 3, 9, 1, LINE_D, r_f0_q + 27, r_f0_q + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 3, 3, 1, 3, 3, 3, LINE_D, r_f0_q + 54, r_f0_q + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 3, 3, 1, 3, 1, 9, LINE_D, r_f0_q + 81, r_f0_q + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 3, 3, 1, 3, 9, 1, LINE_B0, r_f0_q + 0, r_f0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 3, 3, 1, 3, 3, 3, LINE_B0, r_f0_1 + 0, r_f0_2 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 3, 3, 1, 3, 1, 9, LINE_B0, r_f0_2 + 0, r_f0_c + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);

  if (past < count) {
    __local real *r_w_e = r_w_c;
    __local real *r_x_e = r_x_c;
    __local accum *r_f0_e = r_f0_c;
  // scatter
  UNROLL
  EACH(b, 27)
    for (int c = 0; c < 1; ++c) d_out0[AT_d_out0(cell, b * 1 + c)] = (scalar)r_f0_e[(0 * 27 + b) * LANES];

  }
}
