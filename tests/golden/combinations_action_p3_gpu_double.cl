#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 2
#define NUM_QPTS 10
#define NUM_COMP 1
#define NUM_ROWS 10
#define NUM_COORD_BASIS 3
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_w_offsets(cell, i) ((size_t)((uint)(cell) / 32) * 320 + (i) * 32 + (uint)(cell) % 32)
#define AT_d_geometry(cell, i) ((size_t)((uint)(cell) / 32) * 160 + (i) * 32 + (uint)(cell) % 32)
#define AT_d_test0_offsets(cell, i) ((size_t)((uint)(cell) / 32) * 320 + (i) * 32 + (uint)(cell) % 32)
#define UNROLLED
#define ATOMIC_PTX64
#define RECIPROCAL_PTX64
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
__constant real d_tables[310] = {R(0x0.0p+0), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.4000000000000p-3), R(0x1.6000000000000p-3), R(0x1.8000000000000p-3), R(0x1.a000000000000p-3), R(0x1.c000000000000p-3), R(0x1.e000000000000p-3), R(0x1.0000000000000p-2), R(0x1.1000000000000p-2), R(0x1.2000000000000p-2), R(0x1.3000000000000p-2), R(0x1.4000000000000p-2), R(0x1.5000000000000p-2), R(0x1.6000000000000p-2), R(0x1.7000000000000p-2), R(0x1.8000000000000p-2), R(0x1.9000000000000p-2), R(0x1.a000000000000p-2), R(0x1.b000000000000p-2), R(0x1.c000000000000p-2), R(0x1.d000000000000p-2), R(0x1.e000000000000p-2), R(0x1.f000000000000p-2), R(0x1.0000000000000p-1), R(0x1.0800000000000p-1), R(0x1.1000000000000p-1), R(0x1.1800000000000p-1), R(0x1.2000000000000p-1), R(0x1.2800000000000p-1), R(0x1.3000000000000p-1), R(0x1.3800000000000p-1), R(0x1.4000000000000p-1), R(0x1.4800000000000p-1), R(0x1.5000000000000p-1), R(0x1.5800000000000p-1), R(0x1.6000000000000p-1), R(0x1.6800000000000p-1), R(0x1.7000000000000p-1), R(0x1.7800000000000p-1), R(0x1.8000000000000p-1), R(0x1.8800000000000p-1), R(0x1.9000000000000p-1), R(0x1.9800000000000p-1), R(0x1.a000000000000p-1), R(0x1.a800000000000p-1), R(0x1.b000000000000p-1), R(0x1.b800000000000p-1), R(0x1.c000000000000p-1), R(0x1.c800000000000p-1), R(0x1.d000000000000p-1), R(0x1.d800000000000p-1), R(0x1.e000000000000p-1), R(0x1.e800000000000p-1), R(0x1.f000000000000p-1), R(0x1.f800000000000p-1), R(0x1.0000000000000p+0), R(0x1.0400000000000p+0), R(0x1.0800000000000p+0), R(0x1.0c00000000000p+0), R(0x1.1000000000000p+0), R(0x1.1400000000000p+0), R(0x1.1800000000000p+0), R(0x1.1c00000000000p+0), R(0x1.2000000000000p+0), R(0x1.2400000000000p+0), R(0x1.2800000000000p+0), R(0x1.2c00000000000p+0), R(0x1.3000000000000p+0), R(0x1.3400000000000p+0), R(0x1.3800000000000p+0), R(0x1.3c00000000000p+0), R(0x1.4000000000000p+0), R(0x1.4400000000000p+0), R(0x1.4800000000000p+0), R(0x1.4c00000000000p+0), R(0x1.5000000000000p+0), R(0x1.5400000000000p+0), R(0x1.5800000000000p+0), R(0x1.5c00000000000p+0), R(0x1.6000000000000p+0), R(0x1.6400000000000p+0), R(0x1.6800000000000p+0), R(0x1.6c00000000000p+0), R(0x1.7000000000000p+0), R(0x1.7400000000000p+0), R(0x1.7800000000000p+0), R(0x1.7c00000000000p+0), R(0x1.8000000000000p+0), R(0x1.8400000000000p+0), R(0x1.8800000000000p+0), R(0x1.8c00000000000p+0), R(0x1.9000000000000p+0), R(0x1.9400000000000p+0), R(0x1.9800000000000p+0), R(0x1.9c00000000000p+0), R(0x1.a000000000000p+0), R(0x1.a400000000000p+0), R(0x1.a800000000000p+0), R(0x1.ac00000000000p+0), R(0x1.b000000000000p+0), R(0x1.b400000000000p+0), R(0x1.b800000000000p+0), R(0x1.bc00000000000p+0), R(0x1.c000000000000p+0), R(0x1.c400000000000p+0), R(0x1.c800000000000p+0), R(0x1.cc00000000000p+0), R(0x1.d000000000000p+0), R(0x1.d400000000000p+0), R(0x1.d800000000000p+0), R(0x1.dc00000000000p+0), R(0x1.e000000000000p+0), R(0x1.e400000000000p+0), R(0x1.e800000000000p+0), R(0x1.ec00000000000p+0), R(0x1.f000000000000p+0), R(0x1.f400000000000p+0), R(0x1.f800000000000p+0), R(0x1.fc00000000000p+0), R(0x1.0000000000000p+1), R(0x1.0200000000000p+1), R(0x1.0400000000000p+1), R(0x1.0600000000000p+1), R(0x1.0800000000000p+1), R(0x1.0a00000000000p+1), R(0x1.0c00000000000p+1), R(0x1.0e00000000000p+1), R(0x1.1000000000000p+1), R(0x1.1200000000000p+1), R(0x1.1400000000000p+1), R(0x1.1600000000000p+1), R(0x1.1800000000000p+1), R(0x1.1a00000000000p+1), R(0x1.1c00000000000p+1), R(0x1.1e00000000000p+1), R(0x1.2000000000000p+1), R(0x1.2200000000000p+1), R(0x1.2400000000000p+1), R(0x1.2600000000000p+1), R(0x1.2800000000000p+1), R(0x1.2a00000000000p+1), R(0x1.2c00000000000p+1), R(0x1.2e00000000000p+1), R(0x1.3000000000000p+1), R(0x1.3200000000000p+1), R(0x1.3400000000000p+1), R(0x1.3600000000000p+1), R(0x1.3800000000000p+1), R(0x1.3a00000000000p+1), R(0x1.3c00000000000p+1), R(0x1.3e00000000000p+1), R(0x1.4000000000000p+1), R(0x1.4200000000000p+1), R(0x1.4400000000000p+1), R(0x1.4600000000000p+1), R(0x1.4800000000000p+1), R(0x1.4a00000000000p+1), R(0x1.4c00000000000p+1), R(0x1.4e00000000000p+1), R(0x1.5000000000000p+1), R(0x1.5200000000000p+1), R(0x1.5400000000000p+1), R(0x1.5600000000000p+1), R(0x1.5800000000000p+1), R(0x1.5a00000000000p+1), R(0x1.5c00000000000p+1), R(0x1.5e00000000000p+1), R(0x1.6000000000000p+1), R(0x1.6200000000000p+1), R(0x1.6400000000000p+1), R(0x1.6600000000000p+1), R(0x1.6800000000000p+1), R(0x1.6a00000000000p+1), R(0x1.6c00000000000p+1), R(0x1.6e00000000000p+1), R(0x1.7000000000000p+1), R(0x1.7200000000000p+1), R(0x1.7400000000000p+1), R(0x1.7600000000000p+1), R(0x1.7800000000000p+1), R(0x1.7a00000000000p+1), R(0x1.7c00000000000p+1), R(0x1.7e00000000000p+1), R(0x1.8000000000000p+1), R(0x1.8200000000000p+1), R(0x1.8400000000000p+1), R(0x1.8600000000000p+1), R(0x1.8800000000000p+1), R(0x1.8a00000000000p+1), R(0x1.8c00000000000p+1), R(0x1.8e00000000000p+1), R(0x1.9000000000000p+1), R(0x1.9200000000000p+1), R(0x1.9400000000000p+1), R(0x1.9600000000000p+1), R(0x1.9800000000000p+1), R(0x1.9a00000000000p+1), R(0x1.9c00000000000p+1), R(0x1.9e00000000000p+1), R(0x1.a000000000000p+1), R(0x1.a200000000000p+1), R(0x1.a400000000000p+1), R(0x1.a600000000000p+1), R(0x1.a800000000000p+1), R(0x1.aa00000000000p+1), R(0x1.ac00000000000p+1), R(0x1.ae00000000000p+1), R(0x1.b000000000000p+1), R(0x1.b200000000000p+1), R(0x1.b400000000000p+1), R(0x1.b600000000000p+1), R(0x1.b800000000000p+1), R(0x1.ba00000000000p+1), R(0x1.bc00000000000p+1), R(0x1.be00000000000p+1), R(0x1.c000000000000p+1), R(0x1.c200000000000p+1), R(0x1.c400000000000p+1), R(0x1.c600000000000p+1), R(0x1.c800000000000p+1), R(0x1.ca00000000000p+1), R(0x1.cc00000000000p+1), R(0x1.ce00000000000p+1), R(0x1.d000000000000p+1), R(0x1.d200000000000p+1), R(0x1.d400000000000p+1), R(0x1.d600000000000p+1), R(0x1.d800000000000p+1), R(0x1.da00000000000p+1), R(0x1.dc00000000000p+1), R(0x1.de00000000000p+1), R(0x1.e000000000000p+1), R(0x1.e200000000000p+1), R(0x1.e400000000000p+1), R(0x1.e600000000000p+1), R(0x1.e800000000000p+1), R(0x1.ea00000000000p+1), R(0x1.ec00000000000p+1), R(0x1.ee00000000000p+1), R(0x1.f000000000000p+1), R(0x1.f200000000000p+1), R(0x1.f400000000000p+1), R(0x1.f600000000000p+1), R(0x1.f800000000000p+1), R(0x1.fa00000000000p+1), R(0x1.fc00000000000p+1), R(0x1.fe00000000000p+1), R(0x1.0000000000000p+2), R(0x1.0100000000000p+2), R(0x1.0200000000000p+2), R(0x1.0300000000000p+2), R(0x1.0400000000000p+2), R(0x1.0500000000000p+2), R(0x1.0600000000000p+2), R(0x1.0700000000000p+2), R(0x1.0800000000000p+2), R(0x1.0900000000000p+2), R(0x1.0a00000000000p+2), R(0x1.0b00000000000p+2), R(0x1.0c00000000000p+2), R(0x1.0d00000000000p+2), R(0x1.0e00000000000p+2), R(0x1.0f00000000000p+2), R(0x1.1000000000000p+2), R(0x1.1100000000000p+2), R(0x1.1200000000000p+2), R(0x1.1300000000000p+2), R(0x1.1400000000000p+2), R(0x1.1500000000000p+2), R(0x1.1600000000000p+2), R(0x1.1700000000000p+2), R(0x1.1800000000000p+2), R(0x1.1900000000000p+2), R(0x1.1a00000000000p+2), R(0x1.1b00000000000p+2), R(0x1.1c00000000000p+2), R(0x1.1d00000000000p+2), R(0x1.1e00000000000p+2), R(0x1.1f00000000000p+2), R(0x1.2000000000000p+2), R(0x1.2100000000000p+2), R(0x1.2200000000000p+2), R(0x1.2300000000000p+2), R(0x1.2400000000000p+2), R(0x1.2500000000000p+2), R(0x1.2600000000000p+2), R(0x1.2700000000000p+2), R(0x1.2800000000000p+2), R(0x1.2900000000000p+2), R(0x1.2a00000000000p+2), R(0x1.2b00000000000p+2), R(0x1.2c00000000000p+2), R(0x1.2d00000000000p+2), R(0x1.2e00000000000p+2), R(0x1.2f00000000000p+2), R(0x1.3000000000000p+2), R(0x1.3100000000000p+2), R(0x1.3200000000000p+2), R(0x1.3300000000000p+2), R(0x1.3400000000000p+2), R(0x1.3500000000000p+2)};
#define TABLE_W(q) d_tables[q]
#define TABLE_B0(q) (d_tables + 10 + (q) * 10)
#define TABLE_D0(q) (d_tables + 110 + (q) * 20)
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

// Derivatives along the reference coordinates from those that are even or odd, as `mirrored_derivatives` has them, and the transpose
// for fluxes.
#if DIM == 2
inline void from_parts(const real *parts, real *reference) {
  reference[0] = parts[1] + parts[0];
  reference[1] = parts[1] - parts[0];
}
inline void to_parts(const real *flux, real *parts) {
  parts[0] = flux[0] - flux[1];
  parts[1] = flux[0] + flux[1];
}
#else
inline void from_parts(const real *parts, real *reference) {
  const real even = parts[1] + parts[2];
  reference[0] = even + parts[0];
  reference[1] = even - parts[0];
  reference[2] = 2 * parts[2];
}
inline void to_parts(const real *flux, real *parts) {
  parts[0] = flux[0] - flux[1];
  parts[1] = flux[0] + flux[1];
  parts[2] = parts[1] + 2 * flux[2];
}
#endif

inline void pointwise(const real *u, const real *u_x, const real *u_xx, const real *w, const real *w_x, const real *w_xx, const real *a, const real *a_x, const real *a_xx, const real *x, const real *n, const real *s,
                      __global const real *constants, real *f0, real *f1) {
  const int dim = DIM;
  (void)dim;
  f0[0] = w[0];
  for (int i = 0; i < 2; ++i) f1[i] = w_x[i];
}

#define GROUP_SIZE 64
#define UNROLL_POINTS 1
#define POINTS_UNROLL _Pragma("unroll")
// Schedule cell: one cell (or one facet of a cell) per work-item, everything private, no barrier.
// Index space: global id = cell - first, rounded up to the work-group; items past the last cell leave at once.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void action(const int first, const int count, __global const scalar *restrict d_w, __global const int *restrict d_w_offsets, __global const real *restrict d_geometry, __global const real *restrict d_constants, __global const int *restrict d_test0_offsets, __global scalar *restrict d_out, __global double *restrict d_dots) {
  const int cell = first + (int)get_global_id(0);
  if (cell >= first + count) return;

  // gather
  real r_w_e[10];
  UNROLL
  for (int b = 0; b < 10; ++b) {
    const int offset = d_w_offsets[AT_d_w_offsets(cell, b)];
    for (int c = 0; c < 1; ++c) r_w_e[b * 1 + c] = (real)d_w[offset + c];
  }

  real J_inv[DIM * DIM], det_J;
  for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, i)];
  det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];

  accum r_f0_e[10];
  UNROLL
  for (int i = 0; i < 10; ++i) r_f0_e[i] = 0;
  real r_w_m[10];
  { const int b = 0, place = 0; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 1, place = 1; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 2, place = 2; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 3, place = 3; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 4, place = 7; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 5, place = 8; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 6, place = 4; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 7, place = 5; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 8, place = 6; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int b = 9, place = 9; for (int c = 0; c < 1; ++c) r_w_m[b * 1 + c] = r_w_e[place * 1 + c]; }
  { const int i = 1, j = 8;
    for (int c = 0; c < 1; ++c) {
      const real one = r_w_m[i * 1 + c], other = r_w_m[j * 1 + c];
      r_w_m[i * 1 + c] = one + other;
      r_w_m[j * 1 + c] = one - other;
    }
  }
  { const int i = 2, j = 7;
    for (int c = 0; c < 1; ++c) {
      const real one = r_w_m[i * 1 + c], other = r_w_m[j * 1 + c];
      r_w_m[i * 1 + c] = one + other;
      r_w_m[j * 1 + c] = one - other;
    }
  }
  { const int i = 3, j = 6;
    for (int c = 0; c < 1; ++c) {
      const real one = r_w_m[i * 1 + c], other = r_w_m[j * 1 + c];
      r_w_m[i * 1 + c] = one + other;
      r_w_m[j * 1 + c] = one - other;
    }
  }
  { const int i = 5, j = 9;
    for (int c = 0; c < 1; ++c) {
      const real one = r_w_m[i * 1 + c], other = r_w_m[j * 1 + c];
      r_w_m[i * 1 + c] = one + other;
      r_w_m[j * 1 + c] = one - other;
    }
  }
  accum r_f0_m[10];
  UNROLL
  for (int i = 0; i < 10; ++i) r_f0_m[i] = 0;

  POINTS_UNROLL
  for (int q = 0; q < 6; ++q) {
    // tabulate

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
    for (int c = 0; c < 1; ++c) r_w[0 + c] = 0;
    UNROLL for (int b = 0; b < 6; ++b)
      for (int c = 0; c < 1; ++c) r_w[0 + c] += TABLE_B(0, q)[b] * r_w_m[b * 1 + c];
    {
      real parts[1 * DIM];
      for (int i = 0; i < 1 * DIM; ++i) parts[i] = 0;
    UNROLL for (int b = 6; b < 10; ++b)
      for (int c = 0; c < 1; ++c) parts[c * DIM + 0] += TABLE_D(0, q)[b * DIM + 0] * r_w_m[b * 1 + c];
    UNROLL for (int b = 0; b < 6; ++b)
      for (int c = 0; c < 1; ++c) parts[c * DIM + 1] += TABLE_D(0, q)[b * DIM + 1] * r_w_m[b * 1 + c];
      for (int c = 0; c < 1; ++c) {
        real reference[DIM];
        from_parts(parts + c * DIM, reference);
        for (int d = 0; d < DIM; ++d) {
          real sum = 0;
          for (int k = 0; k < DIM; ++k) sum += reference[k] * J_inv[k * DIM + d];
          r_w_x[(0 + c) * DIM + d] = sum;
        }
      }
    }
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real f0[1]; for (int i = 0; i < 1; ++i) f0[i] = 0;
    real f1[2]; for (int i = 0; i < 2; ++i) f1[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, f0, f1);

    // integrate
    UNROLL for (int b = 0; b < 6; ++b)
      for (int c = 0; c < 1; ++c) r_f0_m[b * 1 + c] += (accum)(TABLE_B(0, q)[b] * (weight * f0[0 + c]));
    {
      real parts[1 * DIM];
      for (int c = 0; c < 1; ++c) {
        real flux[DIM];
        pull_back_flux(J_inv, weight, f1 + (0 + c) * DIM, flux);
        to_parts(flux, parts + c * DIM);
      }
    UNROLL for (int b = 6; b < 10; ++b)
      for (int c = 0; c < 1; ++c) r_f0_m[b * 1 + c] += (accum)(TABLE_D(0, q)[b * DIM + 0] * parts[c * DIM + 0]);
    UNROLL for (int b = 0; b < 6; ++b)
      for (int c = 0; c < 1; ++c) r_f0_m[b * 1 + c] += (accum)(TABLE_D(0, q)[b * DIM + 1] * parts[c * DIM + 1]);
    }

  }
  POINTS_UNROLL
  for (int q = 6; q < 10; ++q) {
    // tabulate

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
    for (int c = 0; c < 1; ++c) r_w[0 + c] = 0;
    UNROLL for (int b = 6; b < 10; ++b)
      for (int c = 0; c < 1; ++c) r_w[0 + c] += TABLE_B(0, q)[b] * r_w_m[b * 1 + c];
    {
      real parts[1 * DIM];
      for (int i = 0; i < 1 * DIM; ++i) parts[i] = 0;
    UNROLL for (int b = 0; b < 6; ++b)
      for (int c = 0; c < 1; ++c) parts[c * DIM + 0] += TABLE_D(0, q)[b * DIM + 0] * r_w_m[b * 1 + c];
    UNROLL for (int b = 6; b < 10; ++b)
      for (int c = 0; c < 1; ++c) parts[c * DIM + 1] += TABLE_D(0, q)[b * DIM + 1] * r_w_m[b * 1 + c];
      for (int c = 0; c < 1; ++c) {
        real reference[DIM];
        from_parts(parts + c * DIM, reference);
        for (int d = 0; d < DIM; ++d) {
          real sum = 0;
          for (int k = 0; k < DIM; ++k) sum += reference[k] * J_inv[k * DIM + d];
          r_w_x[(0 + c) * DIM + d] = sum;
        }
      }
    }
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real f0[1]; for (int i = 0; i < 1; ++i) f0[i] = 0;
    real f1[2]; for (int i = 0; i < 2; ++i) f1[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, f0, f1);

    // integrate
    UNROLL for (int b = 6; b < 10; ++b)
      for (int c = 0; c < 1; ++c) r_f0_m[b * 1 + c] += (accum)(TABLE_B(0, q)[b] * (weight * f0[0 + c]));
    {
      real parts[1 * DIM];
      for (int c = 0; c < 1; ++c) {
        real flux[DIM];
        pull_back_flux(J_inv, weight, f1 + (0 + c) * DIM, flux);
        to_parts(flux, parts + c * DIM);
      }
    UNROLL for (int b = 0; b < 6; ++b)
      for (int c = 0; c < 1; ++c) r_f0_m[b * 1 + c] += (accum)(TABLE_D(0, q)[b * DIM + 0] * parts[c * DIM + 0]);
    UNROLL for (int b = 6; b < 10; ++b)
      for (int c = 0; c < 1; ++c) r_f0_m[b * 1 + c] += (accum)(TABLE_D(0, q)[b * DIM + 1] * parts[c * DIM + 1]);
    }

  }
  double r_folded = 0;
  if (d_dots) {
    UNROLL for (int i = 0; i < 10; ++i) r_folded += (double)r_f0_m[i] * r_w_m[i];
  }
  { const int i = 1, j = 8;
    for (int c = 0; c < 1; ++c) {
      const accum one = r_f0_m[i * 1 + c], other = r_f0_m[j * 1 + c];
      r_f0_m[i * 1 + c] = one + other;
      r_f0_m[j * 1 + c] = one - other;
    }
  }
  { const int i = 2, j = 7;
    for (int c = 0; c < 1; ++c) {
      const accum one = r_f0_m[i * 1 + c], other = r_f0_m[j * 1 + c];
      r_f0_m[i * 1 + c] = one + other;
      r_f0_m[j * 1 + c] = one - other;
    }
  }
  { const int i = 3, j = 6;
    for (int c = 0; c < 1; ++c) {
      const accum one = r_f0_m[i * 1 + c], other = r_f0_m[j * 1 + c];
      r_f0_m[i * 1 + c] = one + other;
      r_f0_m[j * 1 + c] = one - other;
    }
  }
  { const int i = 5, j = 9;
    for (int c = 0; c < 1; ++c) {
      const accum one = r_f0_m[i * 1 + c], other = r_f0_m[j * 1 + c];
      r_f0_m[i * 1 + c] = one + other;
      r_f0_m[j * 1 + c] = one - other;
    }
  }
  { const int b = 0, place = 0; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 1, place = 1; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 2, place = 2; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 3, place = 3; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 4, place = 7; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 5, place = 8; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 6, place = 4; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 7, place = 5; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 8, place = 6; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }
  { const int b = 9, place = 9; for (int c = 0; c < 1; ++c) r_f0_e[place * 1 + c] = r_f0_m[b * 1 + c]; }

  // scatter
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  UNROLL
  for (int b = 0; b < 10; ++b) {
    const int offset = d_test0_offsets[AT_d_test0_offsets(cell, b)];
    for (int c = 0; c < 1; ++c) atomic_add_scalar(d_out + offset + c, (scalar)r_f0_e[b] * r_scale);
  }
  if (d_dots) {
    double r_dot = r_folded;
    add_dot(d_dots, r_dot);
  }

}
