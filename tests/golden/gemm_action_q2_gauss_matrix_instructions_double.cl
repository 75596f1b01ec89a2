#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 3
#define NUM_QPTS 64
#define NUM_COMP 1
#define NUM_ROWS 27
#define NUM_COORD_BASIS 8
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_w_offsets(cell, i) ((size_t)(cell) * 27 + (i))
#define AT_d_coord_offsets(cell, i) ((size_t)(cell) * 8 + (i))
#define AT_d_test0_offsets(cell, i) ((size_t)(cell) * 27 + (i))
#define UNROLLED
#define ATOMIC_PTX64
#define RECIPROCAL_PTX64
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
__constant real d_lines[64] = {R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.4000000000000p-3), R(0x1.6000000000000p-3), R(0x1.8000000000000p-3), R(0x1.a000000000000p-3), R(0x1.c000000000000p-3), R(0x1.e000000000000p-3), R(0x1.0000000000000p-2), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.4000000000000p-3), R(0x1.6000000000000p-3), R(0x1.8000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.2000000000000p-3), R(0x1.4000000000000p-3), R(0x1.6000000000000p-3), R(0x1.8000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.4000000000000p-4), R(0x1.8000000000000p-4), R(0x1.c000000000000p-4), R(0x1.0000000000000p-3)};
#define LINE_W (d_lines + 0)
#define LINE_X (d_lines + 4)
#define LINE_D (d_lines + 8)
#define LINE_B0 (d_lines + 24)
#define LINE_D0 (d_lines + 36)
#define LINE_B1 (d_lines + 48)
#define LINE_D1 (d_lines + 56)
#define LATTICE_W(p) (LINE_W[(p) / 1 % 4] * LINE_W[(p) / 4 % 4] * LINE_W[(p) / 16 % 4])
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
  for (int i = 0; i < 3; ++i) f1[i] = w_x[i];
}

#define GROUP_SIZE 128
#define CELLS 4
#define ITEMS 32
#define TILE 2
#define SLAB 48
#define CELL 144
#define STRIDE0 12
#define STRIDE1 3
#define STRIDE2 1
#define POINTS_UNROLL
// Schedule gemm: the lines of the lattices of CELLS cells along one direction are the columns of a matrix, which all items of the work-group
// multiply by the 1D matrices of values and derivatives; a barrier, then the next direction. Products along the last direction stay in
// registers for the pointwise function, which leaves there what is multiplied back. Line by line an item has the same numbers of
// what is multiplied, of products and in local memory, which so are read and written by one item between two barriers.
// Index space: local id = (cell, item) for what a cell has once. Past the last cell of the launch items repeat it and write nothing.
#define LATTICE
#define AT_POINT(slot, p) (slot)
// a + x b at a point of a line
#define ALONG(x, a, b) ((a) + (x) * (b))
#define SHORT _Pragma("unroll")
// Of a < 255 n, n < 256; compilers take more operations for a division of numbers that they know to be short.
#define QUOTIENT(a, n) ((a) * ((1u << 24) / (n) + 1) >> 24)
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
// Four items have a line; 32 have eight, or sixteen, which they multiply together.
#define NUMBER(j, n) (4 * (j) + quarter)
#define HAS(j, n) (NUMBER(j, n) < (n))
#define PLACE(start, j, n, step) (start[i] + 4 * (j) * (step))
#define LINE(turn, i) ((((turn) * (GROUP_SIZE / 32u) + id / 32u) * TILE + (i)) * 8u + id % 32u / 4u)
#define MULTIPLY(sums, numbers, entry)   {     double s0 = (sums)[0], s1 = (sums)[1], s2 = (sums)[2], s3 = (sums)[3];     asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"                  : "+d"(s0), "+d"(s2), "+d"(s1), "+d"(s3) : "d"((numbers)[0]), "d"((numbers)[1]), "d"(entry));     (sums)[0] = s0; (sums)[1] = s1; (sums)[2] = s2; (sums)[3] = s3;   }
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

#undef TABLE_W
#define TABLE_W(q) (plane_weight * LINE_W[n])
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void action(const int first, const int count, __global const scalar *restrict d_w, __global const int *restrict d_w_offsets, __global const real *restrict d_coords, __global const int *restrict d_coord_offsets, __global const real *restrict d_constants, __global const int *restrict d_test0_offsets, __global scalar *restrict d_out, __global double *restrict d_dots, __global const uchar *restrict d_stores, __global const real *restrict d_fragments) {
  const int id = (int)get_local_id(0), item = id % ITEMS, own = id / ITEMS;
  const int quarter = id % 4u;
  const int base = (int)get_group_id(0) * CELLS, cell = first + min(base + own, count - 1);
  __local accum s_lattices[576]; // 4608 bytes
  __local real s_x[96]; // 768 bytes
  __local real *l_x = s_x + own * (NUM_COORD_BASIS * DIM);
  int x_offsets[1];
  SHORT for (int turn = 0; turn < 1; ++turn)
    x_offsets[turn] = d_coord_offsets[AT_d_coord_offsets(cell, min(item + turn * ITEMS, NUM_COORD_BASIS - 1))];
  real x_values[1 * DIM];
  SHORT for (int turn = 0; turn < 1; ++turn)
    SHORT for (int d = 0; d < DIM; ++d) x_values[turn * DIM + d] = d_coords[x_offsets[turn] + d];
  SHORT for (int turn = 0; turn < 1; ++turn)
    if (item + turn * ITEMS < NUM_COORD_BASIS)
      SHORT for (int d = 0; d < DIM; ++d) l_x[d * NUM_COORD_BASIS + item + turn * ITEMS] = x_values[turn * DIM + d];

  // gather, and tabulate along the first direction
  {
  double B0[1];
  SHORT for (int k = 0; k < 1; ++k) B0[k] = d_fragments[(size_t)(id % 32u) + 0 + k * 32];
  double D0[1];
  SHORT for (int k = 0; k < 1; ++k) D0[k] = d_fragments[(size_t)(id % 32u) + 32 + k * 32];
  for (int turn = 0; turn < 1; ++turn) {
    if (LINE(turn, 0) / 8 * 8 >= CELLS * 9) break; // no line for any of 32 items
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE], origin[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = min(LINE(turn, i), (uint)(CELLS * 9 - 1));
      inside[i] = LINE(turn, i) < CELLS * 9;
      owner[i] = line / 9;
      const uint own_line = line - owner[i] * 9;
      h[i] = QUOTIENT(own_line, 3), g[i] = own_line - h[i] * 3;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE1 + h[i] * STRIDE2 + quarter * STRIDE0);
      origin[i] = (uint)(g[i] * 3 + h[i] * 9 + quarter * 1);
    }
    int offsets[2 * TILE];
    SHORT for (int j = 0; j < 2; ++j)
      SHORT for (int i = 0; i < TILE; ++i) {
        const int cell = first + min(base + owner[i], count - 1);
        offsets[j * TILE + i] = HAS(j, 3) ? d_w_offsets[AT_d_w_offsets(cell, PLACE(origin, j, 3, 1))] : 0;
      }
    SHORT for (int c = 0; c < 1; ++c) {
      real numbers[2 * TILE];
      SHORT for (int j = 0; j < 2; ++j)
        SHORT for (int i = 0; i < TILE; ++i) {
          const int cell = first + min(base + owner[i], count - 1);
          numbers[j * TILE + i] = HAS(j, 3) ? (real)d_w[offsets[j * TILE + i] + c] : R(0);
        }
        {
          real products[2 * TILE];
          SHORT for (int j = 0; j < 2 * TILE; ++j) products[j] = 0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(products + 2 * n * TILE, numbers + s * TILE, B0[0 + n * 1 + s])
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 4)) s_lattices[PLACE(at, j, 4, STRIDE0) + (0 + c * 3 + 0) * SLAB] = (accum)products[j * TILE + i];
        }
        {
          real products[2 * TILE];
          SHORT for (int j = 0; j < 2 * TILE; ++j) products[j] = 0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(products + 2 * n * TILE, numbers + s * TILE, D0[0 + n * 1 + s])
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 4)) s_lattices[PLACE(at, j, 4, STRIDE0) + (0 + c * 3 + 1) * SLAB] = (accum)products[j * TILE + i];
        }
    }
  }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // tabulate along the others
  {
  double B0[1];
  SHORT for (int k = 0; k < 1; ++k) B0[k] = d_fragments[(size_t)(id % 32u) + 0 + k * 32];
  double D0[1];
  SHORT for (int k = 0; k < 1; ++k) D0[k] = d_fragments[(size_t)(id % 32u) + 32 + k * 32];
  for (int turn = 0; turn < 1; ++turn) {
    if (LINE(turn, 0) / 8 * 8 >= CELLS * 12) break; // no line for any of 32 items
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = min(LINE(turn, i), (uint)(CELLS * 12 - 1));
      inside[i] = LINE(turn, i) < CELLS * 12;
      owner[i] = line / 12;
      const uint own_line = line - owner[i] * 12;
      h[i] = QUOTIENT(own_line, 4), g[i] = own_line - h[i] * 4;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE0 + h[i] * STRIDE2 + quarter * STRIDE1);
    }
    SHORT for (int c = 0; c < 1; ++c) {
      {
        real numbers[2 * TILE];
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 3) ? (real)s_lattices[PLACE(at, j, 3, STRIDE1) + (0 + c * 3 + 0) * SLAB] : (real)0;
        {
          real products[2 * TILE];
          SHORT for (int j = 0; j < 2 * TILE; ++j) products[j] = 0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(products + 2 * n * TILE, numbers + s * TILE, B0[0 + n * 1 + s])
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 4)) s_lattices[PLACE(at, j, 4, STRIDE1) + (0 + c * 3 + 0) * SLAB] = (accum)products[j * TILE + i];
        }
        {
          real products[2 * TILE];
          SHORT for (int j = 0; j < 2 * TILE; ++j) products[j] = 0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(products + 2 * n * TILE, numbers + s * TILE, D0[0 + n * 1 + s])
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 4)) s_lattices[PLACE(at, j, 4, STRIDE1) + (0 + c * 3 + 2) * SLAB] = (accum)products[j * TILE + i];
        }
      }
      {
        real numbers[2 * TILE];
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 3) ? (real)s_lattices[PLACE(at, j, 3, STRIDE1) + (0 + c * 3 + 1) * SLAB] : (real)0;
        {
          real products[2 * TILE];
          SHORT for (int j = 0; j < 2 * TILE; ++j) products[j] = 0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(products + 2 * n * TILE, numbers + s * TILE, B0[0 + n * 1 + s])
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 4)) s_lattices[PLACE(at, j, 4, STRIDE1) + (0 + c * 3 + 1) * SLAB] = (accum)products[j * TILE + i];
        }
      }
    }
  }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  {
  double B0[1];
  SHORT for (int k = 0; k < 1; ++k) B0[k] = d_fragments[(size_t)(id % 32u) + 0 + k * 32];
  double D0[1];
  SHORT for (int k = 0; k < 1; ++k) D0[k] = d_fragments[(size_t)(id % 32u) + 32 + k * 32];
  double B0_back[1];
  SHORT for (int k = 0; k < 1; ++k) B0_back[k] = d_fragments[(size_t)(id % 32u) + 64 + k * 32];
  double D0_back[1];
  SHORT for (int k = 0; k < 1; ++k) D0_back[k] = d_fragments[(size_t)(id % 32u) + 96 + k * 32];
  for (int turn = 0; turn < 1; ++turn) {
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE], origin[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = LINE(turn, i);
      inside[i] = 1;
      owner[i] = line / 16;
      const uint own_line = line - owner[i] * 16;
      h[i] = QUOTIENT(own_line, 4), g[i] = own_line - h[i] * 4;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE0 + h[i] * STRIDE1 + quarter * STRIDE2);
      origin[i] = (uint)(g[i] * 1 + h[i] * 4 + quarter * 16);
    }
    real r_w_q[4 * 2 * TILE];
    SHORT for (int j = 0; j < 4 * 2 * TILE; ++j) r_w_q[j] = 0;
    SHORT for (int c = 0; c < 1; ++c) {
      {
        real numbers[2 * TILE];
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 3) ? (real)s_lattices[PLACE(at, j, 3, STRIDE2) + (0 + c * 3 + 0) * SLAB] : (real)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(r_w_q + c * 2 * TILE + 2 * n * TILE, numbers + s * TILE, B0[0 + n * 1 + s])
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(r_w_q + (3 + c * DIM) * 2 * TILE + 2 * n * TILE, numbers + s * TILE, D0[0 + n * 1 + s])
      }
      {
        real numbers[2 * TILE];
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 3) ? (real)s_lattices[PLACE(at, j, 3, STRIDE2) + (0 + c * 3 + 2) * SLAB] : (real)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(r_w_q + (2 + c * DIM) * 2 * TILE + 2 * n * TILE, numbers + s * TILE, B0[0 + n * 1 + s])
      }
      {
        real numbers[2 * TILE];
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 3) ? (real)s_lattices[PLACE(at, j, 3, STRIDE2) + (0 + c * 3 + 1) * SLAB] : (real)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(r_w_q + (1 + c * DIM) * 2 * TILE + 2 * n * TILE, numbers + s * TILE, B0[0 + n * 1 + s])
      }
    }
    accum r_f0_q[4 * 2 * TILE];
    SHORT for (int j = 0; j < 4 * 2 * TILE; ++j) r_f0_q[j] = 0;
    SHORT for (int i = 0; i < TILE; ++i) {
      const int own = owner[i], cell = first + min(base + own, count - 1), row = g[i], plane = h[i];
      const int g = row, h = plane; // in place of the arrays
      const __local real *l_x = s_x + own * (NUM_COORD_BASIS * DIM);
      const real plane_weight = LINE_W[g] * LINE_W[h];
    // The coordinates and their derivatives along the other directions, contracted but for the last.
    real r_x_line[3 * DIM * 2];
    SHORT for (int d = 0; d < DIM; ++d)
      SHORT for (int n = 0; n < 2; ++n) {
        const __local real *nodes = l_x + (d * 2 + n) * 4;
        real sum0 = 0, sum1 = 0, sum2 = 0;
        SHORT for (int l = 0; l < 2; ++l) {
          real slope = 0, value = 0;
          SHORT for (int m = 0; m < 2; ++m) {
            slope += LINE_D1[g * 2 + m] * nodes[l * 2 + m];
            value += LINE_B1[g * 2 + m] * nodes[l * 2 + m];
          }
          sum0 += LINE_B1[h * 2 + l] * slope;
          sum1 += LINE_D1[h * 2 + l] * value;
          sum2 += LINE_B1[h * 2 + l] * value;
        }
        r_x_line[(0 * DIM + d) * 2 + n] = sum0;
        r_x_line[(1 * DIM + d) * 2 + n] = sum1;
        r_x_line[(2 * DIM + d) * 2 + n] = sum2;
      }
      SHORT for (int j = 0; j < 2; ++j)
        if (inside[i] && HAS(j, 4)) {
      const int n = NUMBER(j, 4);
      const size_t place = PLACE(origin, j, 4, 16), q = place;
      real r_w_e[4];
      SHORT for (int k = 0; k < 4; ++k) r_w_e[k] = r_w_q[(k * 2 + j) * TILE + i];
      real r_x_e[DIM * (1 + DIM)];
      SHORT for (int d = 0; d < DIM; ++d) {
        real sum0 = 0;
        real sum1 = 0;
        real sum2 = 0;
        real sum3 = 0;
        SHORT for (int m = 0; m < 2; ++m) {
          sum0 += LINE_B1[n * 2 + m] * r_x_line[(0 * DIM + d) * 2 + m];
          sum1 += LINE_B1[n * 2 + m] * r_x_line[(1 * DIM + d) * 2 + m];
          sum2 += LINE_D1[n * 2 + m] * r_x_line[(2 * DIM + d) * 2 + m];
          sum3 += LINE_B1[n * 2 + m] * r_x_line[(2 * DIM + d) * 2 + m];
        }
        r_x_e[d] = sum3;
        r_x_e[DIM + d * DIM + 0] = sum0;
        r_x_e[DIM + d * DIM + 1] = sum1;
        r_x_e[DIM + d * DIM + 2] = sum2;
      }
      accum r_f0_e[4];
      real J_inv[DIM * DIM], det_J;
    // tabulate
    // J_inv times det_J stands in place of J_inv: derivatives are divided, and in fluxes det_J cancels.
    det_J = rebuild_adjugate(NUM_COORD_BASIS, TABLE_D(1, q), r_x_e, J_inv);
    const real inverse_det = reciprocal(det_J);

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
    interpolate_value(27, 1, TABLE_B(0, q), r_w_e, r_w + 0);
    interpolate_gradient(27, 1, TABLE_D(0, q), r_w_e, J_inv, r_w_x + 0 * DIM);
    for (int i = 0; i < 1 * DIM; ++i) r_w_x[0 * DIM + i] *= inverse_det;
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real f0[1]; for (int i = 0; i < 1; ++i) f0[i] = 0;
    real f1[3]; for (int i = 0; i < 3; ++i) f1[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, f0, f1);

    // integrate
    integrate_value(27, 1, TABLE_B(0, q), weight, f0 + 0, r_f0_e);
    integrate_gradient(27, 1, TABLE_D(0, q), TABLE_W(q), J_inv, f1 + 0 * DIM, r_f0_e);

      SHORT for (int k = 0; k < 4; ++k) r_f0_q[(k * 2 + j) * TILE + i] = r_f0_e[k];
        }
    }

    // integrate along the last direction
    SHORT for (int c = 0; c < 1; ++c) {
      {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          const accum *numbers = r_f0_q + c * 2 * TILE;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, B0_back[0 + n * 1 + s])
        }
        {
          const accum *numbers = r_f0_q + (3 + c * DIM) * 2 * TILE;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, D0_back[0 + n * 1 + s])
        }
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 3)) s_lattices[PLACE(at, j, 3, STRIDE2) + (0 + c * 3 + 0) * SLAB] = (accum)sums[j * TILE + i];
      }
      {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          const accum *numbers = r_f0_q + (2 + c * DIM) * 2 * TILE;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, B0_back[0 + n * 1 + s])
        }
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 3)) s_lattices[PLACE(at, j, 3, STRIDE2) + (0 + c * 3 + 2) * SLAB] = (accum)sums[j * TILE + i];
      }
      {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          const accum *numbers = r_f0_q + (1 + c * DIM) * 2 * TILE;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, B0_back[0 + n * 1 + s])
        }
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 3)) s_lattices[PLACE(at, j, 3, STRIDE2) + (0 + c * 3 + 1) * SLAB] = (accum)sums[j * TILE + i];
      }
    }
  }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // integrate along the others
  {
  double B0_back[1];
  SHORT for (int k = 0; k < 1; ++k) B0_back[k] = d_fragments[(size_t)(id % 32u) + 64 + k * 32];
  double D0_back[1];
  SHORT for (int k = 0; k < 1; ++k) D0_back[k] = d_fragments[(size_t)(id % 32u) + 96 + k * 32];
  for (int turn = 0; turn < 1; ++turn) {
    if (LINE(turn, 0) / 8 * 8 >= CELLS * 12) break; // no line for any of 32 items
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = min(LINE(turn, i), (uint)(CELLS * 12 - 1));
      inside[i] = LINE(turn, i) < CELLS * 12;
      owner[i] = line / 12;
      const uint own_line = line - owner[i] * 12;
      h[i] = QUOTIENT(own_line, 4), g[i] = own_line - h[i] * 4;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE0 + h[i] * STRIDE2 + quarter * STRIDE1);
    }
    SHORT for (int c = 0; c < 1; ++c) {
      {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          accum numbers[2 * TILE];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 4) ? (accum)s_lattices[PLACE(at, j, 4, STRIDE1) + (0 + c * 3 + 0) * SLAB] : (accum)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, B0_back[0 + n * 1 + s])
        }
        {
          accum numbers[2 * TILE];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 4) ? (accum)s_lattices[PLACE(at, j, 4, STRIDE1) + (0 + c * 3 + 2) * SLAB] : (accum)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, D0_back[0 + n * 1 + s])
        }
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 3)) s_lattices[PLACE(at, j, 3, STRIDE1) + (0 + c * 3 + 0) * SLAB] = (accum)sums[j * TILE + i];
      }
      {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          accum numbers[2 * TILE];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 4) ? (accum)s_lattices[PLACE(at, j, 4, STRIDE1) + (0 + c * 3 + 1) * SLAB] : (accum)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, B0_back[0 + n * 1 + s])
        }
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 3)) s_lattices[PLACE(at, j, 3, STRIDE1) + (0 + c * 3 + 1) * SLAB] = (accum)sums[j * TILE + i];
      }
    }
  }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // integrate along the first direction, and scatter
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
  {
  double B0_back[1];
  SHORT for (int k = 0; k < 1; ++k) B0_back[k] = d_fragments[(size_t)(id % 32u) + 64 + k * 32];
  double D0_back[1];
  SHORT for (int k = 0; k < 1; ++k) D0_back[k] = d_fragments[(size_t)(id % 32u) + 96 + k * 32];
  for (int turn = 0; turn < 1; ++turn) {
    if (LINE(turn, 0) / 8 * 8 >= CELLS * 9) break; // no line for any of 32 items
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE], origin[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = min(LINE(turn, i), (uint)(CELLS * 9 - 1));
      inside[i] = LINE(turn, i) < CELLS * 9;
      owner[i] = line / 9;
      const uint own_line = line - owner[i] * 9;
      h[i] = QUOTIENT(own_line, 3), g[i] = own_line - h[i] * 3;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE1 + h[i] * STRIDE2 + quarter * STRIDE0);
      origin[i] = (uint)(g[i] * 3 + h[i] * 9 + quarter * 1);
    }
    int offsets[2 * TILE];
    SHORT for (int j = 0; j < 2; ++j)
      SHORT for (int i = 0; i < TILE; ++i) {
        const int cell = first + min(base + owner[i], count - 1);
        offsets[j * TILE + i] = HAS(j, 3) ? d_test0_offsets[AT_d_test0_offsets(cell, PLACE(origin, j, 3, 1))] : 0;
      }
    SHORT for (int c = 0; c < 1; ++c) {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          accum numbers[2 * TILE];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 4) ? (accum)s_lattices[PLACE(at, j, 4, STRIDE0) + (0 + c * 3 + 0) * SLAB] : (accum)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, B0_back[0 + n * 1 + s])
        }
        {
          accum numbers[2 * TILE];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 4) ? (accum)s_lattices[PLACE(at, j, 4, STRIDE0) + (0 + c * 3 + 1) * SLAB] : (accum)0;
        SHORT for (int n = 0; n < 1; ++n)
          SHORT for (int s = 0; s < 1; ++s)
            MULTIPLY(sums + 2 * n * TILE, numbers + s * TILE, D0_back[0 + n * 1 + s])
        }
      SHORT for (int i = 0; i < TILE; ++i)
        if (inside[i] && base + owner[i] < count) {
          const int cell = first + base + owner[i];
          if (d_dots)
            SHORT for (int j = 0; j < 2; ++j) {
              if (HAS(j, 3)) r_dot += (double)sums[j * TILE + i] * ((real)d_w[offsets[j * TILE + i] + c]);
            }
          const int stores = d_stores && g[i] > 0 && g[i] < 2 && h[i] > 0 && h[i] < 2;
          SHORT for (int j = 0; j < 2; ++j) {
            if (HAS(j, 3)) {
              if (stores && NUMBER(j, 3) > 0 && NUMBER(j, 3) < 2) { d_out[offsets[j * TILE + i] + c] = (scalar)sums[j * TILE + i] * r_scale; }
        else atomic_add_scalar(d_out + offsets[j * TILE + i] + c, (scalar)sums[j * TILE + i] * r_scale);
            }
          }
        }
    }
  }
  }
  if (d_dots) add_dot(d_dots, r_dot);
}
