#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 3
#define NUM_QPTS 27
#define NUM_COMP 3
#define NUM_ROWS 24
#define NUM_COORD_BASIS 8
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_a0_offsets(cell, i) ((size_t)(cell) * 8 + (i))
#define AT_d_geometry(cell, i) ((size_t)(cell) * 270 + (i))
#define AT_d_out0(cell, i) ((size_t)(cell) * 24 + (i))
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
__constant real d_lines[45] = {R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.0000000000000p-12), R(0x1.0000000000000p-10), R(0x1.2000000000000p-9), R(0x1.0000000000000p-8), R(0x1.9000000000000p-8), R(0x1.2000000000000p-7), R(0x1.0000000000000p-12), R(0x1.0000000000000p-10), R(0x1.2000000000000p-9), R(0x1.0000000000000p-8), R(0x1.9000000000000p-8), R(0x1.2000000000000p-7), R(0x1.0000000000000p-12), R(0x1.0000000000000p-10), R(0x1.2000000000000p-9), R(0x1.0000000000000p-8), R(0x1.9000000000000p-8), R(0x1.2000000000000p-7)};
#define LINE_W (d_lines + 0)
#define LINE_X (d_lines + 3)
#define LINE_D (d_lines + 6)
#define LINE_B0 (d_lines + 15)
#define LINE_D0 (d_lines + 21)
#define LINE_BB0 (d_lines + 27)
#define LINE_BD0 (d_lines + 33)
#define LINE_DD0 (d_lines + 39)
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

// What multiplies second derivatives of a basis function, from physical to reference coordinates. J_inv[k * DIM + d] = dX_k / dx_d.

// out[k, l] = weight sum_ij J_inv[k, i] h[i, j] J_inv[l, j]
inline void pull_back_hessian(const real *J_inv, const real weight, const real *h, real *out) {
  for (int k = 0; k < DIM; ++k)
    for (int l = 0; l < DIM; ++l) {
      real sum = 0;
      for (int i = 0; i < DIM; ++i)
        for (int j = 0; j < DIM; ++j) sum += J_inv[k * DIM + i] * h[i * DIM + j] * J_inv[l * DIM + j];
      out[k * DIM + l] = weight * sum;
    }
}

// In cells whose map bends, what multiplies second derivatives, h, comes out at the gradient, too:
// out[k] -= sum_m J_inv[k, m] sum_ij h[i, j] d^2 x_m / dX_i dX_j
inline void pull_back_map(const real *J_inv, const real *h, const real *map_xx, real *out) {
  for (int m = 0; m < DIM; ++m) {
    real sum = 0;
    for (int i = 0; i < DIM * DIM; ++i) sum += h[i] * map_xx[m * DIM * DIM + i];
    for (int k = 0; k < DIM; ++k) out[k] -= J_inv[k * DIM + m] * sum;
  }
}

inline void pointwise(const real *u, const real *u_x, const real *u_xx, const real *w, const real *w_x, const real *w_xx, const real *a, const real *a_x, const real *a_xx, const real *x, const real *n, const real *s,
                      __global const real *constants, real *g0, real *g1, real *g2, real *g3) {
  const int dim = DIM;
  (void)dim;
  for (int i = 0; i < 9; i += 4) g0[i] = a[0];
  g1[0] = 1;
  for (int i = 0; i < 81; i += 40) g3[i] = 1;
}

#define GROUP_SIZE 27
#define LANES 1
#define ITEMS 9
#define CELLS 3
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
void diagonal(const int first, const int count, __global const scalar *restrict d_a0, __global const int *restrict d_a0_offsets, __global const real *restrict d_geometry, __global const real *restrict d_constants, __global const uchar *restrict d_prescribed, __global scalar *restrict d_out0) {
  const int item = (int)get_local_id(0) % ITEMS, own = (int)get_local_id(0) / ITEMS;
  const int past = (int)get_group_id(0) * CELLS + own, cell = first + min(past, count - 1);
  __local real s_a0_q[81]; // 648 bytes
  __local real s_a0_c[24]; // 192 bytes
  __local real s_a0_2[81]; // 648 bytes
  __local real s_a0_1[81]; // 648 bytes
  __local accum s_f0_q[2430]; // 19440 bytes
  __local accum s_f0_c[72]; // 576 bytes
  __local accum s_f0_2[243]; // 1944 bytes
  __local accum s_f0_1[243]; // 1944 bytes
  __local real *r_a0_q = s_a0_q + own * 27;
  __local real *r_a0_c = s_a0_c + own * 8;
  __local real *r_a0_2 = s_a0_2 + own * 27;
  __local real *r_a0_1 = s_a0_1 + own * 27;
  __local accum *r_f0_q = s_f0_q + own * 810;
  __local accum *r_f0_c = s_f0_c + own * 24;
  __local accum *r_f0_2 = s_f0_2 + own * 81;
  __local accum *r_f0_1 = s_f0_1 + own * 81;

  // gather
  {
    __local real *r_a0_e = r_a0_c;
  UNROLL
  EACH(b, 8) {
    const int offset = d_a0_offsets[AT_d_a0_offsets(cell, b)];
    for (int c = 0; c < 1; ++c) r_a0_e[(c * 8 + b) * LANES] = (real)d_a0[offset + c];
  }

  }

  // tabulate
  barrier(CLK_LOCAL_MEM_FENCE);
  evaluate(item, 3, 2, 2, 1, 1, 4, LINE_B0, r_a0_c + 0, r_a0_2 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  evaluate(item, 3, 2, 2, 1, 3, 2, LINE_B0, r_a0_2 + 0, r_a0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  evaluate(item, 3, 2, 2, 1, 9, 1, LINE_B0, r_a0_1 + 0, r_a0_q + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);

  EACH(place, NUM_QPTS) {
    const int q = place;
    __local real *r_a0_e = r_a0_q;
    __local accum *r_f0_e = r_f0_q;
    real J_inv[DIM * DIM], det_J;
    // tabulate
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, q * (DIM * DIM + 1) + i)];
    det_J = d_geometry[AT_d_geometry(cell, q * (DIM * DIM + 1) + DIM * DIM)];

    real r_u[1];
    real r_u_x[1];
    real r_u_xx[1];
    real r_w[1];
    real r_w_x[1];
    real r_w_xx[1];
    real r_a[1];
    real r_a_x[3];
    real r_a_xx[1];
    real r_x[3];
    real r_n[3];
    real r_s[1];
    interpolate_value(8, 1, TABLE_B(0, q), r_a0_e, r_a + 0);
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real g0[9]; for (int i = 0; i < 9; ++i) g0[i] = 0;
    real g1[27]; for (int i = 0; i < 27; ++i) g1[i] = 0;
    real g2[1]; for (int i = 0; i < 1; ++i) g2[i] = 0;
    real g3[81]; for (int i = 0; i < 81; ++i) g3[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, g0, g1, g2, g3);

    // integrate
    for (int c = 0; c < 3; ++c) {
      const int cc = (0 + c) * NUM_COMP + 0 + c;
      int slot = c;
      r_f0_e[AT_POINT(slot, place)] = (accum)(weight * g0[cc]);
      slot += 3;
      real sides[DIM], flux[DIM];
      for (int d = 0; d < DIM; ++d) sides[d] = g1[cc * DIM + d];
      pull_back_flux(J_inv, weight, sides, flux);
      for (int k = 0; k < DIM; ++k, slot += 3) r_f0_e[AT_POINT(slot, place)] = (accum)flux[k];
      real tensor[DIM * DIM];
      pull_back_hessian(J_inv, weight, g3 + cc * DIM * DIM, tensor);
      for (int k = 0; k < DIM; ++k)
        for (int l = k; l < DIM; ++l, slot += 3) {
          const real both = tensor[k * DIM + l] + (k < l ? tensor[l * DIM + k] : R(0));
          r_f0_e[AT_POINT(slot, place)] = (accum)both;
        }
    }

  }

  // integrate
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 783, r_f0_1 + 54, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 756, r_f0_1 + 27, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 729, r_f0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 54, r_f0_2 + 54, 0);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 27, r_f0_2 + 27, 0);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 0, r_f0_2 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_DD0, r_f0_2 + 54, r_f0_c + 16, 0);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_DD0, r_f0_2 + 27, r_f0_c + 8, 0);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_DD0, r_f0_2 + 0, r_f0_c + 0, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 702, r_f0_1 + 54, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 675, r_f0_1 + 27, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 648, r_f0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BD0, r_f0_1 + 54, r_f0_2 + 54, 0);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BD0, r_f0_1 + 27, r_f0_2 + 27, 0);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BD0, r_f0_1 + 0, r_f0_2 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 540, r_f0_1 + 54, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 513, r_f0_1 + 27, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 486, r_f0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 297, r_f0_1 + 54, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 270, r_f0_1 + 27, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 243, r_f0_1 + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 54, r_f0_2 + 54, 1);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 27, r_f0_2 + 27, 1);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 0, r_f0_2 + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_BD0, r_f0_2 + 54, r_f0_c + 16, 1);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_BD0, r_f0_2 + 27, r_f0_c + 8, 1);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_BD0, r_f0_2 + 0, r_f0_c + 0, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 621, r_f0_1 + 54, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 594, r_f0_1 + 27, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 567, r_f0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_DD0, r_f0_1 + 54, r_f0_2 + 54, 0);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_DD0, r_f0_1 + 27, r_f0_2 + 27, 0);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_DD0, r_f0_1 + 0, r_f0_2 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 459, r_f0_1 + 54, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 432, r_f0_1 + 27, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 405, r_f0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 216, r_f0_1 + 54, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 189, r_f0_1 + 27, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 162, r_f0_1 + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BD0, r_f0_1 + 54, r_f0_2 + 54, 1);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BD0, r_f0_1 + 27, r_f0_2 + 27, 1);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BD0, r_f0_1 + 0, r_f0_2 + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_DD0, r_f0_q + 378, r_f0_1 + 54, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_DD0, r_f0_q + 351, r_f0_1 + 27, 0);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_DD0, r_f0_q + 324, r_f0_1 + 0, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 135, r_f0_1 + 54, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 108, r_f0_1 + 27, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BD0, r_f0_q + 81, r_f0_1 + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 54, r_f0_1 + 54, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 27, r_f0_1 + 27, 1);
  integrate(item, 2, 3, 1, 2, 9, 1, LINE_BB0, r_f0_q + 0, r_f0_1 + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 54, r_f0_2 + 54, 1);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 27, r_f0_2 + 27, 1);
  integrate(item, 2, 3, 1, 2, 3, 2, LINE_BB0, r_f0_1 + 0, r_f0_2 + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_BB0, r_f0_2 + 54, r_f0_c + 16, 1);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_BB0, r_f0_2 + 27, r_f0_c + 8, 1);
  integrate(item, 2, 3, 1, 2, 1, 4, LINE_BB0, r_f0_2 + 0, r_f0_c + 0, 1);
  barrier(CLK_LOCAL_MEM_FENCE);

  if (past < count) {
    __local real *r_a0_e = r_a0_c;
    __local accum *r_f0_e = r_f0_c;
  // scatter
  UNROLL
  EACH(b, 8)
    for (int c = 0; c < 3; ++c) d_out0[AT_d_out0(cell, b * 3 + c)] = (scalar)r_f0_e[(c * 8 + b) * LANES];

  }
}
