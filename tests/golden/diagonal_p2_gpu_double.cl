#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 2
#define NUM_QPTS 3
#define NUM_COMP 1
#define NUM_ROWS 6
#define NUM_COORD_BASIS 3
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_a0_offsets(cell, i) ((size_t)(cell) * 1 + (i))
#define AT_d_geometry(cell, i) ((size_t)((uint)(cell) / 32) * 160 + (i) * 32 + (uint)(cell) % 32)
#define AT_d_test0_offsets(cell, i) ((size_t)((uint)(cell) / 32) * 192 + (i) * 32 + (uint)(cell) % 32)
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

#define TABLE __constant
__constant real d_tables[66] = {R(0x0.0p+0), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.4000000000000p-3), R(0x1.6000000000000p-3), R(0x1.8000000000000p-3), R(0x1.a000000000000p-3), R(0x1.c000000000000p-3), R(0x1.e000000000000p-3), R(0x1.0000000000000p-2), R(0x1.1000000000000p-2), R(0x1.2000000000000p-2), R(0x1.3000000000000p-2), R(0x1.4000000000000p-2), R(0x1.5000000000000p-2), R(0x1.6000000000000p-2), R(0x1.7000000000000p-2), R(0x1.8000000000000p-2), R(0x1.9000000000000p-2), R(0x1.a000000000000p-2), R(0x1.b000000000000p-2), R(0x1.c000000000000p-2), R(0x1.d000000000000p-2), R(0x1.e000000000000p-2), R(0x1.f000000000000p-2), R(0x1.0000000000000p-1), R(0x1.0800000000000p-1), R(0x1.1000000000000p-1), R(0x1.1800000000000p-1), R(0x1.2000000000000p-1), R(0x1.2800000000000p-1), R(0x1.3000000000000p-1), R(0x1.3800000000000p-1), R(0x1.4000000000000p-1), R(0x1.4800000000000p-1), R(0x1.5000000000000p-1), R(0x1.5800000000000p-1), R(0x1.6000000000000p-1), R(0x1.6800000000000p-1), R(0x1.7000000000000p-1), R(0x1.7800000000000p-1), R(0x1.8000000000000p-1), R(0x1.8800000000000p-1), R(0x1.9000000000000p-1), R(0x1.9800000000000p-1), R(0x1.a000000000000p-1), R(0x1.a800000000000p-1), R(0x1.b000000000000p-1), R(0x1.b800000000000p-1), R(0x1.c000000000000p-1), R(0x1.c800000000000p-1), R(0x1.d000000000000p-1), R(0x1.d800000000000p-1), R(0x1.e000000000000p-1), R(0x1.e800000000000p-1), R(0x1.f000000000000p-1), R(0x1.f800000000000p-1), R(0x1.0000000000000p+0), R(0x1.0400000000000p+0)};
#define TABLE_W(q) d_tables[q]
#define TABLE_B0(q) (d_tables + 3 + (q) * 6)
#define TABLE_D0(q) (d_tables + 21 + (q) * 12)
#define TABLE_B1(q) (d_tables + 57 + (q) * 1)
#define TABLE_D1(q) (d_tables + 60 + (q) * 2)
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
                      __global const real *constants, real *g0, real *g1, real *g2, real *g3) {
  const int dim = DIM;
  (void)dim;
  g0[0] = constants[0];
  g3[0] = a[0];
  g3[3] = a[0];
}

#define GROUP_SIZE 128
#define UNROLL_POINTS 1
#define POINTS_UNROLL _Pragma("unroll")
// Schedule cell: one cell (or one facet of a cell) per work-item, everything private, no barrier.
// Index space: global id = cell - first, rounded up to the work-group; items past the last cell leave at once.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void diagonal(const int first, const int count, __global const scalar *restrict d_a0, __global const int *restrict d_a0_offsets, __global const real *restrict d_geometry, __global const real *restrict d_constants, __global const int *restrict d_test0_offsets, __global scalar *restrict d_out) {
  const int cell = first + (int)get_global_id(0);
  if (cell >= first + count) return;

  // gather
  real r_a0_e[1];
  UNROLL
  for (int b = 0; b < 1; ++b) {
    const int offset = d_a0_offsets ? d_a0_offsets[AT_d_a0_offsets(cell, b)] : 1 * cell;
    for (int c = 0; c < 1; ++c) r_a0_e[b * 1 + c] = (real)d_a0[offset + c];
  }

  real J_inv[DIM * DIM], det_J;
  for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, i)];
  det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];

  accum r_f0_e[6];
  UNROLL
  for (int i = 0; i < 6; ++i) r_f0_e[i] = 0;

  POINTS_UNROLL
  for (int q = 0; q < 3; ++q) {
    // tabulate

    real r_u[1];
    real r_u_x[1];
    real r_u_xx[1];
    real r_w[1];
    real r_w_x[1];
    real r_w_xx[1];
    real r_a[1];
    real r_a_x[2];
    real r_a_xx[1];
    real r_x[2];
    real r_n[2];
    real r_s[1];
    interpolate_value(1, 1, TABLE_B(1, q), r_a0_e, r_a + 0);
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real g0[1]; for (int i = 0; i < 1; ++i) g0[i] = 0;
    real g1[1]; for (int i = 0; i < 1; ++i) g1[i] = 0;
    real g2[1]; for (int i = 0; i < 1; ++i) g2[i] = 0;
    real g3[4]; for (int i = 0; i < 4; ++i) g3[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, g0, g1, g2, g3);

    // integrate

    UNROLL
    for (int b = 0; b < 6; ++b) {
      const real phi = TABLE_B(0, q)[b];
      real phi_x[DIM];
      basis_gradient(TABLE_D(0, q), b, J_inv, phi_x);
      for (int c = 0; c < 1; ++c) {
        const int cc = (0 + c) * NUM_COMP + 0 + c;
        real h0 = 0, h1[DIM];
        for (int j = 0; j < DIM; ++j) h1[j] = 0;
              h0 += phi * g0[cc];
      for (int i = 0; i < DIM; ++i) {
        for (int j = 0; j < DIM; ++j) h1[j] += phi_x[i] * g3[(cc * DIM + i) * DIM + j];
      }

        real sum = h0 * phi;
        for (int j = 0; j < DIM; ++j) sum += h1[j] * phi_x[j];
        r_f0_e[b * 1 + c] += (accum)(weight * sum);
      }
    }
  }

  // scatter
  UNROLL
  for (int b = 0; b < 6; ++b) {
    const int offset = d_test0_offsets[AT_d_test0_offsets(cell, b)];
    if (offset >= 0) atomic_add_scalar(d_out + offset, (scalar)r_f0_e[b]);
  }

}
