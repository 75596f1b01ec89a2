#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 2
#define NUM_QPTS 4
#define NUM_COMP 2
#define NUM_ROWS 8
#define NUM_COORD_BASIS 4
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_u_offsets(cell, i) ((size_t)(cell) * 4 + (i))
#define AT_d_geometry(cell, i) ((size_t)(cell) * 5 + (i))
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

#define TABLE __constant
__constant real d_lines[16] = {R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4), R(0x1.0000000000000p-6), R(0x1.0000000000000p-5), R(0x1.8000000000000p-5), R(0x1.0000000000000p-4)};
#define LINE_W (d_lines + 0)
#define LINE_X (d_lines + 2)
#define LINE_D (d_lines + 4)
#define LINE_B0 (d_lines + 8)
#define LINE_D0 (d_lines + 12)
#define LATTICE_W(p) (LINE_W[(p) / 1 % 2] * LINE_W[(p) / 2 % 2])
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
  for (int i = 0; i < 4; ++i) f1[i] = u_x[i];
}

#define GROUP_SIZE 8
#define CELLS 4
#define ITEMS 2
#define TILE 4
#define SLAB 8
#define CELL 32
#define STRIDE0 4
#define STRIDE1 1
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
#define SHORT
// Of a < 255 n, n < 256; compilers take more operations for a division of numbers that they know to be short.
#define QUOTIENT(a, n) ((a) * ((1u << 24) / (n) + 1) >> 24)
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
#define NUMBER(j, n) (j)
#define HAS(j, n) 1
#define PLACE(start, j, n, step) (start[i] + (j) * (step))
#define LINE(turn, i) (((turn) * TILE + (i)) * (uint)GROUP_SIZE + id)
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
void residual(const int first, const int count, __global const scalar *restrict d_u, __global const int *restrict d_u_offsets, __global const real *restrict d_geometry, __global const real *restrict d_constants, __global scalar *restrict d_out0) {
  const int id = (int)get_local_id(0), item = id % ITEMS, own = id / ITEMS;
  const int base = (int)get_group_id(0) * CELLS, cell = first + min(base + own, count - 1);
  __local accum s_lattices[128]; // 1024 bytes

  // gather, and tabulate along the first direction
  {
  for (int turn = 0; turn < 1; ++turn) {
    if (LINE(turn, 0) >= CELLS * 2) break;
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE], origin[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = min(LINE(turn, i), (uint)(CELLS * 2 - 1));
      inside[i] = LINE(turn, i) < CELLS * 2;
      owner[i] = line / 2;
      const uint own_line = line - owner[i] * 2;
      g[i] = own_line, h[i] = 0;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE1);
      origin[i] = (uint)(g[i] * 2);
    }
    int offsets[2 * TILE];
    SHORT for (int j = 0; j < 2; ++j)
      SHORT for (int i = 0; i < TILE; ++i) {
        const int cell = first + min(base + owner[i], count - 1);
        offsets[j * TILE + i] = HAS(j, 2) ? d_u_offsets[AT_d_u_offsets(cell, PLACE(origin, j, 2, 1))] : 0;
      }
    SHORT for (int c = 0; c < 2; ++c) {
      real numbers[2 * TILE];
      SHORT for (int j = 0; j < 2; ++j)
        SHORT for (int i = 0; i < TILE; ++i) {
          const int cell = first + min(base + owner[i], count - 1);
          numbers[j * TILE + i] = HAS(j, 2) ? (real)d_u[offsets[j * TILE + i] + c] : R(0);
        }
        {
          real products[2 * TILE];
          SHORT for (int j = 0; j < 2 * TILE; ++j) products[j] = 0;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (products)[r * TILE + i] += (real)LINE_B0[r * 2 + m] * numbers[m * TILE + i];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 2)) s_lattices[PLACE(at, j, 2, STRIDE0) + (0 + c * 2 + 0) * SLAB] = (accum)products[j * TILE + i];
        }
        {
          real products[2 * TILE];
          SHORT for (int j = 0; j < 2 * TILE; ++j) products[j] = 0;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (products)[r * TILE + i] += (real)LINE_D0[r * 2 + m] * numbers[m * TILE + i];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 2)) s_lattices[PLACE(at, j, 2, STRIDE0) + (0 + c * 2 + 1) * SLAB] = (accum)products[j * TILE + i];
        }
    }
  }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // tabulate along the others
  {
  for (int turn = 0; turn < 1; ++turn) {
    if (LINE(turn, 0) >= CELLS * 2) break;
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE], origin[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = min(LINE(turn, i), (uint)(CELLS * 2 - 1));
      inside[i] = LINE(turn, i) < CELLS * 2;
      owner[i] = line / 2;
      const uint own_line = line - owner[i] * 2;
      g[i] = own_line, h[i] = 0;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE0);
      origin[i] = (uint)(g[i] * 1);
    }
    real r_u_q[6 * 2 * TILE];
    SHORT for (int j = 0; j < 6 * 2 * TILE; ++j) r_u_q[j] = 0;
    SHORT for (int c = 0; c < 2; ++c) {
      {
        real numbers[2 * TILE];
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 2) ? (real)s_lattices[PLACE(at, j, 2, STRIDE1) + (0 + c * 2 + 0) * SLAB] : (real)0;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (r_u_q + c * 2 * TILE)[r * TILE + i] += (real)LINE_B0[r * 2 + m] * numbers[m * TILE + i];
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (r_u_q + (3 + c * DIM) * 2 * TILE)[r * TILE + i] += (real)LINE_D0[r * 2 + m] * numbers[m * TILE + i];
      }
      {
        real numbers[2 * TILE];
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 2) ? (real)s_lattices[PLACE(at, j, 2, STRIDE1) + (0 + c * 2 + 1) * SLAB] : (real)0;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (r_u_q + (2 + c * DIM) * 2 * TILE)[r * TILE + i] += (real)LINE_B0[r * 2 + m] * numbers[m * TILE + i];
      }
    }
    accum r_f0_q[6 * 2 * TILE];
    SHORT for (int j = 0; j < 6 * 2 * TILE; ++j) r_f0_q[j] = 0;
    SHORT for (int i = 0; i < TILE; ++i) {
      const int own = owner[i], cell = first + min(base + own, count - 1), row = g[i], plane = h[i];
      const int g = row, h = plane; // in place of the arrays
      const real plane_weight = LINE_W[g];
      SHORT for (int j = 0; j < 2; ++j)
        if (inside[i] && HAS(j, 2)) {
      const int n = NUMBER(j, 2);
      const size_t place = PLACE(origin, j, 2, 2), q = place;
      real r_u_e[6];
      SHORT for (int k = 0; k < 6; ++k) r_u_e[k] = r_u_q[(k * 2 + j) * TILE + i];
      accum r_f0_e[6];
      real J_inv[DIM * DIM], det_J;
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = d_geometry[AT_d_geometry(cell, k)];
      det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
    // tabulate

    real r_u[2];
    real r_u_x[4];
    real r_u_xx[1];
    real r_w[1];
    real r_w_x[1];
    real r_w_xx[1];
    real r_a[1];
    real r_a_x[1];
    real r_a_xx[1];
    real r_x[2];
    real r_n[2];
    real r_s[1];
    interpolate_value(4, 2, TABLE_B(0, q), r_u_e, r_u + 0);
    interpolate_gradient(4, 2, TABLE_D(0, q), r_u_e, J_inv, r_u_x + 0 * DIM);
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real f0[2]; for (int i = 0; i < 2; ++i) f0[i] = 0;
    real f1[4]; for (int i = 0; i < 4; ++i) f1[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, f0, f1);

    // integrate
    integrate_value(4, 2, TABLE_B(0, q), weight, f0 + 0, r_f0_e);
    integrate_gradient(4, 2, TABLE_D(0, q), weight, J_inv, f1 + 0 * DIM, r_f0_e);

      SHORT for (int k = 0; k < 6; ++k) r_f0_q[(k * 2 + j) * TILE + i] = r_f0_e[k];
        }
    }

    // integrate along the last direction
    SHORT for (int c = 0; c < 2; ++c) {
      {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          const accum *numbers = r_f0_q + c * 2 * TILE;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (sums)[r * TILE + i] += (accum)LINE_B0[m * 2 + r] * numbers[m * TILE + i];
        }
        {
          const accum *numbers = r_f0_q + (3 + c * DIM) * 2 * TILE;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (sums)[r * TILE + i] += (accum)LINE_D0[m * 2 + r] * numbers[m * TILE + i];
        }
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 2)) s_lattices[PLACE(at, j, 2, STRIDE1) + (0 + c * 2 + 0) * SLAB] = (accum)sums[j * TILE + i];
      }
      {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          const accum *numbers = r_f0_q + (2 + c * DIM) * 2 * TILE;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (sums)[r * TILE + i] += (accum)LINE_B0[m * 2 + r] * numbers[m * TILE + i];
        }
        SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, 2)) s_lattices[PLACE(at, j, 2, STRIDE1) + (0 + c * 2 + 1) * SLAB] = (accum)sums[j * TILE + i];
      }
    }
  }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // integrate along the others

  // integrate along the first direction, and scatter
  {
  for (int turn = 0; turn < 1; ++turn) {
    if (LINE(turn, 0) >= CELLS * 2) break;
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[1 * TILE], origin[1 * TILE];
    SHORT for (int i = 0; i < TILE; ++i) {
      const uint line = min(LINE(turn, i), (uint)(CELLS * 2 - 1));
      inside[i] = LINE(turn, i) < CELLS * 2;
      owner[i] = line / 2;
      const uint own_line = line - owner[i] * 2;
      g[i] = own_line, h[i] = 0;
      at[i] = (uint)(owner[i] * CELL + g[i] * STRIDE1);
      origin[i] = (uint)(g[i] * 2);
    }
    SHORT for (int c = 0; c < 2; ++c) {
        accum sums[2 * TILE];
        SHORT for (int j = 0; j < 2 * TILE; ++j) sums[j] = 0;
        {
          accum numbers[2 * TILE];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 2) ? (accum)s_lattices[PLACE(at, j, 2, STRIDE0) + (0 + c * 2 + 0) * SLAB] : (accum)0;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (sums)[r * TILE + i] += (accum)LINE_B0[m * 2 + r] * numbers[m * TILE + i];
        }
        {
          accum numbers[2 * TILE];
          SHORT for (int j = 0; j < 2; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            numbers[j * TILE + i] = inside[i] && HAS(j, 2) ? (accum)s_lattices[PLACE(at, j, 2, STRIDE0) + (0 + c * 2 + 1) * SLAB] : (accum)0;
        SHORT for (int r = 0; r < 2; ++r)
          SHORT for (int m = 0; m < 2; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (sums)[r * TILE + i] += (accum)LINE_D0[m * 2 + r] * numbers[m * TILE + i];
        }
      SHORT for (int i = 0; i < TILE; ++i)
        if (inside[i] && base + owner[i] < count) {
          const int cell = first + base + owner[i];
          SHORT for (int j = 0; j < 2; ++j) {
            if (HAS(j, 2)) {
              d_out0[AT_d_out0(cell, (PLACE(origin, j, 2, 1)) * 2 + c)] = (scalar)sums[j * TILE + i];
            }
          }
        }
    }
  }
  }
}
