#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 2
#define NUM_QPTS 9
#define NUM_COMP 1
#define NUM_ROWS 9
#define NUM_COORD_BASIS 4
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_w_offsets(cell, i) ((size_t)(cell) * 9 + (i))
#define AT_d_coord_offsets(cell, i) ((size_t)(cell) * 4 + (i))
#define AT_d_test0_offsets(cell, i) ((size_t)(cell) * 9 + (i))
#define ATOMIC_CAS64
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

#define DOT_SLOTS 1024
// What an action with slots adds to its result is scaled by the quotient of the two numbers behind them.
inline double dot_scale(__global const double *d_slots) {
  const double divisor = d_slots[DOT_SLOTS + 1];
  return divisor == 0.0 ? 0.0 : d_slots[DOT_SLOTS] / divisor;
}

// Adds an item's share of a sum to one of its slots; on NVIDIA the 32 items of a warp add up theirs first, if none has left.
inline void add_dot(__global double *d_slots, double share) {
  const int item = (int)get_global_id(0);
#ifdef ATOMIC_PTX64
  uint active;
  asm volatile("activemask.b32 %0;" : "=r"(active));
  if (active == 0xffffffffu) {
    for (int step = 16; step > 0; step /= 2) {
      double other;
      asm volatile("{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %1; shfl.sync.bfly.b32 lo, lo, %2, 31, 0xffffffff; "
                   "shfl.sync.bfly.b32 hi, hi, %2, 31, 0xffffffff; mov.b64 %0, {lo, hi}; }"
                   : "=d"(other) : "d"(share), "r"(step));
      share += other;
    }
    if (item % 32) return;
  }
#endif
  atomic_add_scalar(d_slots + item / 32 % DOT_SLOTS, share);
}

#define TABLE __constant
__constant real d_lines[45] = {R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4)};
#define LINE_W (d_lines + 0)
#define LINE_X (d_lines + 3)
#define LINE_D (d_lines + 6)
#define LINE_B0 (d_lines + 15)
#define LINE_D0 (d_lines + 24)
#define LINE_B1 (d_lines + 33)
#define LINE_D1 (d_lines + 39)
#define LATTICE_W(p) (LINE_W[(p) / 1 % 3] * LINE_W[(p) / 3 % 3])
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
  f0[0] = w[0];
  for (int i = 0; i < 2; ++i) f1[i] = w_x[i];
}

#define GROUP_SIZE 16
#define LANES 4
#define POINTS_UNROLL
// Schedule sumfact: LANES cells per work-item, everything private, no barrier. Coefficients become values and derivatives at the points
// one direction after the other, and what multiplies the test function there becomes its rows the same way back. Nodes and points
// stand in the order of the tensor product; all arrays hold vectors of LANES numbers, one for each cell.
// Index space: global id = (cell - first) / LANES, rounded up to the work-group. Lanes past the last cell repeat it and write nothing.
typedef double4 reals;
typedef double4 accums;
inline void evaluate(const int rows, const int columns, const int row_step, const int column_step, const int above, const int below,
                    __constant const real *matrix, const reals *source, reals *target, const int adds) {
  for (int r = 0; r < rows; ++r)
    for (int a = 0; a < above; ++a)
      for (int b = 0; b < below; ++b) {
        reals sum = adds ? target[(a * rows + r) * below + b] : (reals)(0);
        _Pragma("unroll")
        for (int c = 0; c < columns; ++c)
          sum += (real)matrix[r * row_step + c * column_step] * source[(a * columns + c) * below + b];
        target[(a * rows + r) * below + b] = sum;
      }
}

inline void integrate(const int rows, const int columns, const int row_step, const int column_step, const int above, const int below,
                    __constant const real *matrix, const accums *source, accums *target, const int adds) {
  for (int r = 0; r < rows; ++r)
    for (int a = 0; a < above; ++a)
      for (int b = 0; b < below; ++b) {
        accums sum = adds ? target[(a * rows + r) * below + b] : (accums)(0);
        _Pragma("unroll")
        for (int c = 0; c < columns; ++c)
          sum += (accum)matrix[r * row_step + c * column_step] * source[(a * columns + c) * below + b];
        target[(a * rows + r) * below + b] = sum;
      }
}

#define LATTICE
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
void action(const int first, const int count, __global const scalar *restrict d_w, __global const int *restrict d_w_offsets, __global const real *restrict d_coords, __global const int *restrict d_coord_offsets, __global const real *restrict d_constants, __global const int *restrict d_test0_offsets, __global scalar *restrict d_out, __global double *restrict d_dots) {
  const int begin = first + (int)get_global_id(0) * LANES, last = first + count - 1;
  if (begin > last) return;
  reals r_real_1[9];
  accums r_accum_1[9];
  reals r_w_q[27];
  reals r_w_c[9];
  reals r_x_q[54];
  reals r_x_c[8];
  accums r_f0_q[27];
  accums r_f0_c[9];

  // gather
  for (int lane = 0; lane < LANES; ++lane) {
    const int cell = min(begin + lane, last);
    real *r_w_e = (real *)r_w_c + lane;
    real *r_x_e = (real *)r_x_c + lane;
  UNROLL
  for (int b = 0; b < 9; ++b) {
    const int offset = d_w_offsets[AT_d_w_offsets(cell, b)];
    r_w_e[(0 * 9 + b) * LANES] = offset < 0 ? R(0) : (real)d_w[offset];
  }
  UNROLL
  for (int b = 0; b < NUM_COORD_BASIS; ++b)
    for (int d = 0; d < DIM; ++d) r_x_e[(d * 4 + b) * LANES] = d_coords[d_coord_offsets[AT_d_coord_offsets(cell, b)] + d];

  }

  // tabulate
  evaluate(3, 3, 3, 1, 1, 3, LINE_B0, r_w_c + 0, r_real_1 + 0, 0);
  evaluate(3, 3, 3, 1, 3, 1, LINE_B0, r_real_1 + 0, r_w_q + 0, 0);
  evaluate(3, 3, 3, 1, 1, 3, LINE_D, r_w_q + 0, r_w_q + 18, 0);
  evaluate(3, 3, 3, 1, 3, 1, LINE_D, r_w_q + 0, r_w_q + 9, 0);
  evaluate(3, 2, 2, 1, 1, 2, LINE_B1, r_x_c + 0, r_real_1 + 0, 0);
  evaluate(3, 2, 2, 1, 3, 1, LINE_D1, r_real_1 + 0, r_x_q + 18, 0);
  evaluate(3, 2, 2, 1, 1, 2, LINE_D1, r_x_c + 0, r_real_1 + 0, 0);
  evaluate(3, 2, 2, 1, 3, 1, LINE_B1, r_real_1 + 0, r_x_q + 27, 0);
  evaluate(3, 2, 2, 1, 1, 2, LINE_B1, r_x_c + 4, r_real_1 + 0, 0);
  evaluate(3, 2, 2, 1, 3, 1, LINE_D1, r_real_1 + 0, r_x_q + 36, 0);
  evaluate(3, 2, 2, 1, 1, 2, LINE_D1, r_x_c + 4, r_real_1 + 0, 0);
  evaluate(3, 2, 2, 1, 3, 1, LINE_B1, r_real_1 + 0, r_x_q + 45, 0);

  for (int place = 0; place < NUM_QPTS; ++place) {
    const int q = place;
    for (int lane = 0; lane < LANES; ++lane) {
      const int cell = min(begin + lane, last);
      const real *r_w_e = (const real *)r_w_q + lane;
      const real *r_x_e = (const real *)r_x_q + lane;
      accum *r_f0_e = (accum *)r_f0_q + lane;
      real J_inv[DIM * DIM], det_J;
    // tabulate
    // J_inv times det_J stands in place of J_inv: derivatives are divided, and in fluxes det_J cancels.
    det_J = rebuild_adjugate(NUM_COORD_BASIS, TABLE_D(1, q), r_x_e, J_inv);
    const real inverse_det = reciprocal(det_J);

    real r_u[1];
    real r_u_x[1];
    real r_u_xx[1];
    real r_w[1];
    real r_w_x[2];
    real r_w_xx[1];
    real r_a[1];
    real r_a_x[1];
    real r_a_xx[1];
    real r_x[2];
    real r_n[2];
    real r_s[1];
    interpolate_value(9, 1, TABLE_B(0, q), r_w_e, r_w + 0);
    interpolate_gradient(9, 1, TABLE_D(0, q), r_w_e, J_inv, r_w_x + 0 * DIM);
    for (int i = 0; i < 1 * DIM; ++i) r_w_x[0 * DIM + i] *= inverse_det;
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real f0[1]; for (int i = 0; i < 1; ++i) f0[i] = 0;
    real f1[2]; for (int i = 0; i < 2; ++i) f1[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, f0, f1);

    // integrate
    integrate_value(9, 1, TABLE_B(0, q), weight, f0 + 0, r_f0_e);
    integrate_gradient(9, 1, TABLE_D(0, q), TABLE_W(q), J_inv, f1 + 0 * DIM, r_f0_e);

    }
  }

  // integrate
  integrate(3, 3, 1, 3, 3, 1, LINE_D, r_f0_q + 9, r_f0_q + 0, 1);
  integrate(3, 3, 1, 3, 1, 3, LINE_D, r_f0_q + 18, r_f0_q + 0, 1);
  integrate(3, 3, 1, 3, 3, 1, LINE_B0, r_f0_q + 0, r_accum_1 + 0, 0);
  integrate(3, 3, 1, 3, 1, 3, LINE_B0, r_accum_1 + 0, r_f0_c + 0, 0);

  for (int lane = 0; lane < LANES && begin + lane <= last; ++lane) {
    const int cell = begin + lane;
    const real *r_w_e = (const real *)r_w_c + lane;
    const real *r_x_e = (const real *)r_x_c + lane;
    const accum *r_f0_e = (const accum *)r_f0_c + lane;
  // scatter
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  UNROLL
  for (int b = 0; b < 9; ++b) {
    const int offset = d_test0_offsets[AT_d_test0_offsets(cell, b)];
    if (offset >= 0) atomic_add_scalar(d_out + offset, (scalar)r_f0_e[(0 * 9 + b) * LANES] * r_scale);
  }
  if (d_dots) {
    double r_dot = 0;
    UNROLL
    for (int b = 0; b < 9; ++b)
      for (int c = 0; c < 1; ++c)
        r_dot += (double)r_f0_e[(c * 9 + b) * LANES] * (r_w_e[(c * 9 + b) * LANES]);
    add_dot(d_dots, r_dot);
  }

  }
}
