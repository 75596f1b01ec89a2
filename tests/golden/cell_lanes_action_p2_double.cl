#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 2
#define NUM_QPTS 3
#define NUM_COMP 2
#define NUM_ROWS 12
#define NUM_COORD_BASIS 6
#define NUM_STATE 0
#define NUM_CELL_STATE 1
#define AT_d_w_offsets(cell, i) ((size_t)(cell) * 6 + (i))
#define AT_d_geometry(cell, i) ((size_t)(cell) * 5 + (i))
#define AT_d_test0_offsets(cell, i) ((size_t)(cell) * 6 + (i))
#define AT_d_cell_state(cell, i) ((size_t)(cell) * 1 + (i))
#define UNROLLED
#define ATOMIC_CAS64
#define KNOWN_TABLES
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
__constant real d_tables[57] = {R(0x0.0p+0), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.4000000000000p-3), R(0x1.6000000000000p-3), R(0x1.8000000000000p-3), R(0x1.a000000000000p-3), R(0x1.c000000000000p-3), R(0x1.e000000000000p-3), R(0x1.0000000000000p-2), R(0x1.1000000000000p-2), R(0x1.2000000000000p-2), R(0x1.3000000000000p-2), R(0x1.4000000000000p-2), R(0x1.5000000000000p-2), R(0x1.6000000000000p-2), R(0x1.7000000000000p-2), R(0x1.8000000000000p-2), R(0x1.9000000000000p-2), R(0x1.a000000000000p-2), R(0x1.b000000000000p-2), R(0x1.c000000000000p-2), R(0x1.d000000000000p-2), R(0x1.e000000000000p-2), R(0x1.f000000000000p-2), R(0x1.0000000000000p-1), R(0x1.0800000000000p-1), R(0x1.1000000000000p-1), R(0x1.1800000000000p-1), R(0x1.2000000000000p-1), R(0x1.2800000000000p-1), R(0x1.3000000000000p-1), R(0x1.3800000000000p-1), R(0x1.4000000000000p-1), R(0x1.4800000000000p-1), R(0x1.5000000000000p-1), R(0x1.5800000000000p-1), R(0x1.6000000000000p-1), R(0x1.6800000000000p-1), R(0x1.7000000000000p-1), R(0x1.7800000000000p-1), R(0x1.8000000000000p-1), R(0x1.8800000000000p-1), R(0x1.9000000000000p-1), R(0x1.9800000000000p-1), R(0x1.a000000000000p-1), R(0x1.a800000000000p-1), R(0x1.b000000000000p-1), R(0x1.b800000000000p-1), R(0x1.c000000000000p-1)};
#define TABLE_W(q) d_tables[q]
#define TABLE_B0(q) (d_tables + 3 + (q) * 6)
#define TABLE_D0(q) (d_tables + 21 + (q) * 12)
#define TABLE_B(i, q) TABLE_B##i(q)
#define TABLE_D(i, q) TABLE_D##i(q)
#define TABLE_H(i, q) TABLE_H##i(q)
// Numbers of components are known where functions stand in place of their calls, and loops over them are unrolled there. Before, PoCL
// warns of each that it cannot.
#pragma clang diagnostic ignored "-Wpass-failed"
// Vectors are arguments only of functions that stand in place of their calls.
#pragma clang diagnostic ignored "-Wpsabi"

// Geometry of a cell: J[d * DIM + k] = dx_d / dX_k, its inverse J_inv[k * DIM + d] = dX_k / dx_d, its determinant.

// 1 / x for ordinary x. On NVIDIA an approximation of 20 bits, whose relative error a step of third order cubes, in single precision one
// of 23 bits and a step of second order: as exact as a division but for the last bit, without its branches.
inline double4 reciprocal(const double4 x) {
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
inline double4 adjugate(const double4 *J, double4 *out) {
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
inline double4 invert(const double4 *J, double4 *J_inv) {
  const double4 det = adjugate(J, J_inv), scale = reciprocal(det);
  _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM * DIM; ++i) J_inv[i] *= scale;
  return det;
}

// Outward unit normal n = J^-T N / |J^-T N| of a facet from that of the reference facet, N; returns |J^-T N|.
inline double4 facet_normal(TABLE const real *N, const double4 *J_inv, double4 *n) {
  double4 square = 0;
  _Pragma("clang loop unroll(full)") for (int d = 0; d < DIM; ++d) {
    n[d] = 0;
    _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) n[d] += J_inv[k * DIM + d] * N[k];
    square += n[d] * n[d];
  }
  const double4 length = sqrt(square);
  _Pragma("clang loop unroll(full)") for (int d = 0; d < DIM; ++d) n[d] /= length;
  return length;
}

// out[k] = weight sum_d J_inv[k, d] f1[d]: the flux in reference coordinates, ready for D^T
inline void pull_back_flux(const double4 *J_inv, const double4 weight, const double4 *f1, double4 *out) {
  _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) {
    double4 sum = 0;
    _Pragma("clang loop unroll(full)") for (int d = 0; d < DIM; ++d) sum += J_inv[k * DIM + d] * f1[d];
    out[k] = weight * sum;
  }
}

// In cells whose map bends: out[c, k, l] -= sum_m gradient[c, m] d^2 x_m / dX_k dX_l
inline void subtract_map(const int num_comp, const double4 *gradient, const double4 *map_xx, double4 *out) {
  _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c)
    _Pragma("clang loop unroll(full)") for (int m = 0; m < DIM; ++m)
      _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM * DIM; ++i) out[c * DIM * DIM + i] -= gradient[c * DIM + m] * map_xx[m * DIM * DIM + i];
}

// out[i, j] = sum_kl J_inv[k, i] h[k, l] J_inv[l, j]
inline void push_hessian(const double4 *J_inv, const double4 *h, double4 *out) {
  _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM; ++i)
    _Pragma("clang loop unroll(full)") for (int j = 0; j < DIM; ++j) {
      double4 sum = 0;
      _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k)
        _Pragma("clang loop unroll(full)") for (int l = 0; l < DIM; ++l) sum += J_inv[k * DIM + i] * h[k * DIM + l] * J_inv[l * DIM + j];
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
inline void interpolate_value(const int num_basis, const int num_comp, TABLE const real *B, const double4 *e, double4 *value) {
  _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c) value[c] = 0;
  _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b)
    _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c) ADD_PRODUCT(value[c], B[b], e[b * num_comp + c])
}

// gradient[c, k] = sum_b D[b, k] e[b, c], in reference coordinates
inline void interpolate_reference_gradient(const int num_basis, const int num_comp, TABLE const real *D, const double4 *e,
                                           double4 *gradient) {
  _Pragma("clang loop unroll(full)") for (int i = 0; i < num_comp * DIM; ++i) gradient[i] = 0;
  _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b)
    _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c)
      _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) ADD_PRODUCT(gradient[c * DIM + k], D[b * DIM + k], e[b * num_comp + c])
}

// gradient[c, d] = sum_k (sum_b D[b, k] e[b, c]) J_inv[k, d]
inline void interpolate_gradient(const int num_basis, const int num_comp, TABLE const real *D, const double4 *e,
                                 const double4 *J_inv, double4 *gradient) {
  _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c) {
    double4 reference[DIM];
    _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) reference[k] = 0;
    _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b)
      _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) ADD_PRODUCT(reference[k], D[b * DIM + k], e[b * num_comp + c])
    _Pragma("clang loop unroll(full)") for (int d = 0; d < DIM; ++d) {
      gradient[c * DIM + d] = 0;
      _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) gradient[c * DIM + d] += reference[k] * J_inv[k * DIM + d];
    }
  }
}

// e[b, c] += weight B[b] f0[c]
inline void integrate_value(const int num_basis, const int num_comp, TABLE const real *B, const double4 weight, const double4 *f0,
                            double4 *e) {
  _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b)
    _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c) e[b * num_comp + c] += (double4)(B[b] * (weight * f0[c]));
}

// e[b, c] += sum_k D[b, k] f1[c, k], the flux in reference coordinates
inline void integrate_reference_gradient(const int num_basis, const int num_comp, TABLE const real *D, const double4 *f1, double4 *e) {
  _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c) {
    _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b) {
      double4 sum = 0;
      _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) ADD_PRODUCT(sum, D[b * DIM + k], f1[c * DIM + k])
      e[b * num_comp + c] += (double4)sum;
    }
  }
}

// e[b, c] += sum_k D[b, k] weight (J_inv f1[c])[k]
inline void integrate_gradient(const int num_basis, const int num_comp, TABLE const real *D, const double4 weight,
                               const double4 *J_inv, const double4 *f1, double4 *e) {
  _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c) {
    double4 flux[DIM];
    pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
    _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b) {
      double4 sum = 0;
      _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) ADD_PRODUCT(sum, D[b * DIM + k], flux[k])
      e[b * num_comp + c] += (double4)sum;
    }
  }
}

// e[b, c] += sum_kl H[b, k, l] f2[c, k, l], what multiplies second derivatives in reference coordinates
inline void integrate_reference_hessian(const int num_basis, const int num_comp, TABLE const real *H, const double4 *f2, double4 *e) {
  _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c)
    _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b) {
      double4 sum = 0;
      _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM * DIM; ++i) sum += H[b * DIM * DIM + i] * f2[c * DIM * DIM + i];
      e[b * num_comp + c] += (double4)sum;
    }
}

// gradient[d] of basis function b in physical coordinates
inline void basis_gradient(TABLE const real *D, const int b, const double4 *J_inv, double4 *gradient) {
  _Pragma("clang loop unroll(full)") for (int d = 0; d < DIM; ++d) {
    gradient[d] = 0;
    _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) gradient[d] += D[b * DIM + k] * J_inv[k * DIM + d];
  }
}

// reference second derivatives out[c, k, l] = sum_b H[b, k, l] e[b, c]
inline void reference_hessian(const int num_basis, const int num_comp, TABLE const real *H, const double4 *e, double4 *out) {
  _Pragma("clang loop unroll(full)") for (int i = 0; i < num_comp * DIM * DIM; ++i) out[i] = 0;
  _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b)
    _Pragma("clang loop unroll(full)") for (int c = 0; c < num_comp; ++c)
      _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM * DIM; ++i) out[c * DIM * DIM + i] += H[b * DIM * DIM + i] * e[b * num_comp + c];
}

// hessian[i, j] of basis function b in physical coordinates; gradient is its physical gradient, map_xx that of the cell's map
inline void basis_hessian(TABLE const real *H, const int b, const double4 *J_inv, const double4 *gradient, const double4 *map_xx,
                          const int bends, double4 *hessian) {
  double4 reference_xx[DIM * DIM];
  _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM * DIM; ++i) reference_xx[i] = H[b * DIM * DIM + i];
  if (bends) subtract_map(1, gradient, map_xx, reference_xx);
  push_hessian(J_inv, reference_xx, hessian);
}

// From the coordinates x_e (num_basis, DIM) and the gradients D (num_basis, DIM) of the coordinate basis at the point.
inline double4 rebuild(const int num_basis, TABLE const real *D, const double4 *x_e, double4 *J_inv) {
  double4 J[DIM * DIM];
  _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM * DIM; ++i) J[i] = 0;
  _Pragma("clang loop unroll(full)") for (int b = 0; b < num_basis; ++b)
    _Pragma("clang loop unroll(full)") for (int d = 0; d < DIM; ++d)
      _Pragma("clang loop unroll(full)") for (int k = 0; k < DIM; ++k) ADD_PRODUCT(J[d * DIM + k], D[b * DIM + k], x_e[b * DIM + d])
  return invert(J, J_inv);
}

inline void pointwise(const real *u, const real *u_x, const real *u_xx, const real *w, const real *w_x, const real *w_xx, const real *a, const real *a_x, const real *a_xx, const real *x, const real *n, const real *s, const real *c,
                      __global const real *constants, real *f0, real *f1) {
  const int dim = DIM;
  (void)dim;
  f0[0] = c[0] * w[0];
  for (int i = 0; i < 4; ++i) f1[i] = w_x[i];
}

#define GROUP_SIZE 4
#define LANES 4
#define UNROLL_POINTS 1
#define POINTS_UNROLL _Pragma("unroll")
// Schedule cell with LANES cells per work-item, side by side in vectors, everything private, no barrier.
// Index space: global id = (cell - first) / LANES, rounded up to the work-group. Lanes past the last cell repeat it and write nothing.
// The pointwise function of each of them.
inline void pointwise_lanes(const double4 *v_u, const double4 *v_u_x, const double4 *v_u_xx, const double4 *v_w, const double4 *v_w_x, const double4 *v_w_xx, const double4 *v_a, const double4 *v_a_x, const double4 *v_a_xx, const double4 *v_x, const double4 *v_n, const double4 *v_s, const double4 *v_c, __global const real *constants, double4 *v_f0, double4 *v_f1) {
  for (int lane = 0; lane < LANES; ++lane) {
    real u[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) u[i] = ((const real *)v_u)[i * LANES + lane];
    real u_x[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) u_x[i] = ((const real *)v_u_x)[i * LANES + lane];
    real u_xx[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) u_xx[i] = ((const real *)v_u_xx)[i * LANES + lane];
    real w[2];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 2; ++i) w[i] = ((const real *)v_w)[i * LANES + lane];
    real w_x[4];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 4; ++i) w_x[i] = ((const real *)v_w_x)[i * LANES + lane];
    real w_xx[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) w_xx[i] = ((const real *)v_w_xx)[i * LANES + lane];
    real a[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) a[i] = ((const real *)v_a)[i * LANES + lane];
    real a_x[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) a_x[i] = ((const real *)v_a_x)[i * LANES + lane];
    real a_xx[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) a_xx[i] = ((const real *)v_a_xx)[i * LANES + lane];
    real x[2];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 2; ++i) x[i] = ((const real *)v_x)[i * LANES + lane];
    real n[2];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 2; ++i) n[i] = ((const real *)v_n)[i * LANES + lane];
    real s[1];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 1; ++i) s[i] = ((const real *)v_s)[i * LANES + lane];
    real c[NUM_CELL_STATE];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < NUM_CELL_STATE; ++i) c[i] = ((const real *)v_c)[i * LANES + lane];
    real f0[2]; _Pragma("clang loop unroll(full)") for (int i = 0; i < 2; ++i) f0[i] = 0;
    real f1[4]; _Pragma("clang loop unroll(full)") for (int i = 0; i < 4; ++i) f1[i] = 0;
    pointwise(u, u_x, u_xx, w, w_x, w_xx, a, a_x, a_xx, x, n, s, c, constants, f0, f1);
    _Pragma("clang loop unroll(full)") for (int i = 0; i < (int)(sizeof(f0) / sizeof(real)); ++i) ((real *)v_f0)[i * LANES + lane] = f0[i];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < (int)(sizeof(f1) / sizeof(real)); ++i) ((real *)v_f1)[i * LANES + lane] = f1[i];
  }
}

__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void action(const int first, const int count, __global const scalar *restrict d_w, __global const int *restrict d_w_offsets, __global const real *restrict d_geometry, __global const real *restrict d_constants, __global const int *restrict d_test0_offsets, __global const uchar *restrict d_prescribed, __global const real *restrict d_cell_state, __global scalar *restrict d_out, __global double *restrict d_dots) {
  const int begin = first + (int)get_global_id(0) * LANES, last = first + count - 1;
  if (begin > last) return;
  const int cell0 = min(begin + 0, last);
  const int cell1 = min(begin + 1, last);
  const int cell2 = min(begin + 2, last);
  const int cell3 = min(begin + 3, last);
  double4 v_w_e[12];
  double4 v_f0_e[12];

  // gather
  for (int lane = 0; lane < LANES; ++lane) {
    const int cell = min(begin + lane, last);
    real *r_w_e = (real *)v_w_e + lane;
  _Pragma("clang loop unroll(full)") for (int b = 0; b < 6; ++b) {
    const int offset = d_w_offsets[AT_d_w_offsets(cell, b)];
    _Pragma("clang loop unroll(full)") for (int c = 0; c < 2; ++c)
      r_w_e[(b * 2 + c) * LANES] = IS_PRESCRIBED(offset, c) ? R(0) : (real)d_w[NODE(offset) + c];
  }

  }

  {
    const double4 *r_w_e = v_w_e;
    double4 *r_f0_e = v_f0_e;
    _Pragma("clang loop unroll(full)") for (int i = 0; i < 12; ++i) r_f0_e[i] = 0;
    double4 r_c[NUM_CELL_STATE];
    _Pragma("clang loop unroll(full)") for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = (double4)(d_cell_state[AT_d_cell_state(cell0, i)], d_cell_state[AT_d_cell_state(cell1, i)], d_cell_state[AT_d_cell_state(cell2, i)], d_cell_state[AT_d_cell_state(cell3, i)]);
    double4 J_inv[DIM * DIM], det_J;
    _Pragma("clang loop unroll(full)") for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = (double4)(d_geometry[AT_d_geometry(cell0, i)], d_geometry[AT_d_geometry(cell1, i)], d_geometry[AT_d_geometry(cell2, i)], d_geometry[AT_d_geometry(cell3, i)]);
    det_J = (double4)(d_geometry[AT_d_geometry(cell0, DIM * DIM)], d_geometry[AT_d_geometry(cell1, DIM * DIM)], d_geometry[AT_d_geometry(cell2, DIM * DIM)], d_geometry[AT_d_geometry(cell3, DIM * DIM)]);
  _Pragma("clang loop unroll(full)") for (int q = 0; q < 3; ++q) {
    // tabulate

    double4 r_u[1];
    double4 r_u_x[1];
    double4 r_u_xx[1];
    double4 r_w[2];
    double4 r_w_x[4];
    double4 r_w_xx[1];
    double4 r_a[1];
    double4 r_a_x[1];
    double4 r_a_xx[1];
    double4 r_x[2];
    double4 r_n[2];
    double4 r_s[1];
    interpolate_value(6, 2, TABLE_B(0, q), r_w_e, r_w + 0);
    interpolate_gradient(6, 2, TABLE_D(0, q), r_w_e, J_inv, r_w_x + 0 * DIM);
    const double4 measure = det_J;
    const double4 weight = TABLE_W(q) * measure;


    // pointwise
    double4 f0[2]; _Pragma("clang loop unroll(full)") for (int i = 0; i < 2; ++i) f0[i] = 0;
    double4 f1[4]; _Pragma("clang loop unroll(full)") for (int i = 0; i < 4; ++i) f1[i] = 0;
    pointwise_lanes(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, r_c, d_constants, f0, f1);

    // integrate
    integrate_value(6, 2, TABLE_B(0, q), weight, f0 + 0, r_f0_e);
    integrate_gradient(6, 2, TABLE_D(0, q), weight, J_inv, f1 + 0 * DIM, r_f0_e);

  }
  }

  for (int lane = 0; lane < LANES && begin + lane <= last; ++lane) {
    const int cell = begin + lane;
    const real *r_w_e = (const real *)v_w_e + lane;
    const accum *r_f0_e = (const accum *)v_f0_e + lane;
  // scatter
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  _Pragma("clang loop unroll(full)") for (int b = 0; b < 6; ++b) {
    const int offset = d_test0_offsets[AT_d_test0_offsets(cell, b)];
    _Pragma("clang loop unroll(full)") for (int c = 0; c < 2; ++c)
      if (!IS_PRESCRIBED(offset, c)) atomic_add_scalar(d_out + NODE(offset) + c, (scalar)r_f0_e[(b * 2 + c) * LANES] * r_scale);
  }
  if (d_dots) {
    double r_dot = 0;
    _Pragma("clang loop unroll(full)") for (int b = 0; b < 6; ++b)
      _Pragma("clang loop unroll(full)") for (int c = 0; c < 2; ++c)
        r_dot += (double)r_f0_e[(b * 2 + c) * LANES] * (r_w_e[(b * 2 + c) * LANES]);
    add_dot(d_dots, r_dot);
  }

  }
}
