#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 2
#define NUM_QPTS 1
#define NUM_COMP 2
#define NUM_ROWS 6
#define NUM_COORD_BASIS 3
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_geometry(cell, i) ((size_t)((uint)(cell) / 32) * 160 + (i) * 32 + (uint)(cell) % 32)
#define AT_d_test0_offsets(cell, i) ((size_t)((uint)(cell) / 32) * 96 + (i) * 32 + (uint)(cell) % 32)
#define AT_d_test1_offsets(cell, i) ((size_t)((uint)(cell) / 32) * 96 + (i) * 32 + (uint)(cell) % 32)
#define AT_d_places_0_0(cell, i) ((size_t)(cell) * 9 + (i))
#define AT_d_places_0_1(cell, i) ((size_t)(cell) * 9 + (i))
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

#define PLACE ushort
// Where entries of element matrices go in a sparse matrix. A place is where the columns of a group (dofs on one point of the mesh)
// begin in their part of a row; its highest bit marks pairs of groups that no other cell has. A dof has an int4: where the two parts
// of its row begin among all values, -1 where it is prescribed; its number among the columns of its group, ~number where another
// rank owns it.
#define OWN ((PLACE)((PLACE)1 << (8 * sizeof(PLACE) - 1)))
#define PLACE_OF(place) ((int)((place) & (PLACE)~OWN))
// The position of the value of a row and a column, neither of them prescribed.
#define AT_VALUE(row, column, place) \
  (PLACE_OF(place) + ((column).z < 0 ? (row).y + ~(column).z : (row).x + (column).z))

#define TABLE __global
#define TABLE_W(q) d_tables[q]
#define TABLE_B0(q) (d_tables + 1 + (q) * 3)
#define TABLE_D0(q) (d_tables + 4 + (q) * 6)
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
  g0[0] = 1;
  g0[1] = 1;
}

#define GROUP_SIZE 6
#define CELLS 1
#define POINTS 1
#define ROWS 3
#define COLUMNS 1
#define COMPS 1
#define ROW_TILES 1
#define COLUMN_TILES 6
#define TILES 6
#define TILE_PARTS 1
#define PARTS 2
#define BLOCK_WORDS 5
#define POINT_WORDS 11
#define TABLE_WORDS 10
#define AHEAD 3
#define POINTS_UNROLL
// Schedule matrix: element matrices. In the evaluation phase an item stands for (cell, point) and writes what multiplies the basis
// functions there, in reference coordinates; after the barrier for a tile: ROWS basis functions of one component of the test
// function times COLUMNS of one component of the direction, whose entries are private and written at the end. A pass takes POINTS
// points. Where points are summed beforehand, a word of the block multiplies that word's table of products of basis functions.
// Where the matrix is sparse, entries are added to its values: first the group brings what it needs to know of its cells' dofs.
// Index space: a group serves CELLS cells, or one of PARTS parts of a cell; local id = (cell, component, tile of rows, tile of
// columns), the last running fastest. Rows and columns are ordered by field, basis function, component.
#define TILE_UNROLL _Pragma("unroll")
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void entries(const int first, const int count, __global const real *restrict d_geometry, __global const real *restrict d_constants, __global const real *restrict d_tables, __global const int *restrict d_test0_offsets, __global const int *restrict d_parts0, __global const int *restrict d_test1_offsets, __global const int *restrict d_parts1, __global const int *restrict d_cells, __global const ushort *restrict d_places_0_0, __global const ushort *restrict d_places_0_1, __global const int4 *restrict d_dofs, __global double *restrict d_values) {
  const int item = (int)get_local_id(0);
  const int part = (int)get_group_id(0) % PARTS, past = (int)get_group_id(0) / PARTS * CELLS;
  const int begin = first + past, cells = min(CELLS, count - past);
  __local real s_blocks[CELLS * POINTS * POINT_WORDS];

  // where the rows and columns of the cells are in the sparse matrix; the last number is the part of the cell that the node is on
  __local int4 s_dofs[CELLS * NUM_ROWS];
  for (int i = item; i < cells * NUM_ROWS; i += GROUP_SIZE) {
    const int cell = begin + i / NUM_ROWS, word = i % NUM_ROWS;
    int4 dof = (int4)(-1);
    if (word >= 0 && word < 3) {
      const int node = (word - 0) / 1, c = (word - 0) % 1;
      dof = d_dofs[d_test0_offsets[AT_d_test0_offsets(cell, node)] + c];
      dof.w = d_parts0[node];
    }
    if (word >= 3 && word < 6) {
      const int node = (word - 3) / 1, c = (word - 3) % 1;
      dof = d_dofs[d_test1_offsets[AT_d_test1_offsets(cell, node)] + c];
      dof.w = d_parts1[node];
    }
    s_dofs[i] = dof;
  }

  // the item's tile: of cell `own` of the group; none where that is past the last
  const int first_comp = part / TILE_PARTS * COMPS;
  const int tile = part % TILE_PARTS * GROUP_SIZE + item, own = tile / TILES;
  const int comp = tile % TILES / (COLUMN_TILES * ROW_TILES), test_comp = first_comp + comp;
  const int test_b = tile / COLUMN_TILES % ROW_TILES * ROWS, column_tile = tile % COLUMN_TILES;
  int num_test = 0, row = 0, row_step = 0, num_trial = 0, trial_b = 0, trial_step = 0, trial_comp = 0, column = 0, column_step = 0;
  {
    num_test = 3;
    row_step = 1;
    row = 0 + test_comp;
  }
  {
    const int place = column_tile - 0;
    num_trial = 3;
    trial_b = place / 1;
    trial_step = 3;
    trial_comp = 0 + place % 1;
    column_step = 1;
    column = 0 + place % 1;
  }
  if (test_comp >= 1) {
    num_test = 3;
    row_step = 1;
    row = 2 + test_comp;
  }
  if (column_tile >= 3) {
    const int place = column_tile - 3;
    num_trial = 3;
    trial_b = place / 1;
    trial_step = 3;
    trial_comp = 1 + place % 1;
    column_step = 1;
    column = 3 + place % 1;
  }
  accum r_tile[ROWS * COLUMNS];
  TILE_UNROLL
  for (int i = 0; i < ROWS * COLUMNS; ++i) r_tile[i] = 0;

  {
    const int start = 0, points = NUM_QPTS;

    // evaluation phase
    for (int i = item; i < cells * points; i += GROUP_SIZE) {
      const int cell = begin + i / points, q = start + i % points;

  real J_inv[DIM * DIM], det_J;
  for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, i)];
  det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];


    real r_u[1];
    real r_u_x[1];
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
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;

    real g0[4]; for (int i = 0; i < 4; ++i) g0[i] = 0;
    real g1[1]; for (int i = 0; i < 1; ++i) g1[i] = 0;
    real g2[1]; for (int i = 0; i < 1; ++i) g2[i] = 0;
    real g3[16]; for (int i = 0; i < 16; ++i) g3[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, g0, g1, g2, g3);
      UNROLL
      for (int pair = 0; pair < COMPS * NUM_COMP; ++pair) {
        const int block = first_comp * NUM_COMP + pair;
        __local real *s_out = s_blocks + i * POINT_WORDS + pair * BLOCK_WORDS;
        {
          real words[1];
          words[0] = weight * g0[block];
          for (int j = 0; j < 1; ++j) s_out[j] = words[j];
        }
        {
          real sums[DIM * 2];
          for (int j = 0; j < DIM * 2; ++j) sums[j] = 0;
          for (int d = 0; d < DIM; ++d) {
            real words[2];
          pull_back_flux(J_inv, weight, g3 + (block * DIM + d) * DIM, words + 0);
            for (int k = 0; k < DIM; ++k)
              for (int j = 0; j < 2; ++j) sums[k * 2 + j] += J_inv[k * DIM + d] * words[j];
          }
          for (int j = 0; j < DIM * 2; ++j) s_out[1 + j] = sums[j];
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integration phase
    if (own < cells) {
      for (int p = 0; p < points; ++p) {
        const int q = start + p;
        __local const real *s_in = s_blocks + (own * points + p) * POINT_WORDS + (comp * NUM_COMP + trial_comp) * BLOCK_WORDS;
        TABLE const real *v_B = TABLE_B(0, q), *t_B = v_B;
        if (test_comp >= 1) v_B = TABLE_B(0, q);
        if (column_tile >= 3) t_B = TABLE_B(0, q);
        TABLE const real *v_D = TABLE_D(0, q), *t_D = v_D;
        if (test_comp >= 1) v_D = TABLE_D(0, q);
        if (column_tile >= 3) t_D = TABLE_D(0, q);
        // what multiplies the value (h0), the gradient (h1) and the second derivatives (h2) of the test function
        real h0[COLUMNS], h1[DIM * COLUMNS];
        TILE_UNROLL
        for (int n = 0; n < COLUMNS; ++n) {
          const int b = min(trial_b + n * trial_step, num_trial - 1);
          real sum = 0;
          sum += t_B[b] * s_in[0];
          h0[n] = sum;
          for (int k = 0; k < DIM; ++k) {
            __local const real *s_k = s_in + 1 + k * 2;
            real sum = 0;
          for (int j = 0; j < DIM; ++j) sum += t_D[b * DIM + j] * s_k[0 + j];
            h1[k * COLUMNS + n] = sum;
          }
        }
        TILE_UNROLL
        for (int m = 0; m < ROWS; ++m) {
          const int b = min(test_b + m, num_test - 1);
          TILE_UNROLL
          for (int n = 0; n < COLUMNS; ++n) {
            real sum = v_B[b] * h0[n];
            for (int k = 0; k < DIM; ++k) sum += v_D[b * DIM + k] * h1[k * COLUMNS + n];
            r_tile[m * COLUMNS + n] += (accum)sum;
          }
        }
      }
    }
  }

  // scatter
  if (own >= cells) return;
  const size_t at = d_cells ? d_cells[begin + own] : begin + own;
  __global const PLACE *places = 0;
  int stride = 0;
  if (test_comp >= 0 && test_comp < 1 && trial_comp >= 0 && trial_comp < 1) {
    places = d_places_0_0 + AT_d_places_0_0(at, 0);
    stride = 3;
  }
  if (test_comp >= 0 && test_comp < 1 && trial_comp >= 1 && trial_comp < 2) {
    places = d_places_0_1 + AT_d_places_0_1(at, 0);
    stride = 3;
  }
  if (!places) return;
  __local const int4 *dofs = s_dofs + own * NUM_ROWS;
  TILE_UNROLL
  for (int start = 0; start < ROWS; start += AHEAD) {
    // the places of some rows at once: adds do not wait for global memory one by one
    PLACE r_places[AHEAD * COLUMNS];
    TILE_UNROLL
    for (int m = 0; m < AHEAD; ++m)
      TILE_UNROLL
      for (int n = 0; n < COLUMNS; ++n) {
        const int v = min(test_b + start + m, num_test - 1), t = min(trial_b + n * trial_step, num_trial - 1);
        r_places[m * COLUMNS + n] = places[dofs[row + v * row_step].w * stride + dofs[column + t * column_step].w];
      }
    TILE_UNROLL
    for (int m = 0; m < AHEAD; ++m) {
      const int v = test_b + start + m;
      if (start + m >= ROWS || v >= num_test) continue;
      const int4 test = dofs[row + v * row_step];
      if (test.x < 0) continue;
      TILE_UNROLL
      for (int n = 0; n < COLUMNS; ++n) {
        const int t = trial_b + n * trial_step;
        if (t >= num_trial) continue;
        const int4 trial = dofs[column + t * column_step];
        if (trial.x < 0) continue;
        const PLACE place = r_places[m * COLUMNS + n];
        __global double *value = d_values + AT_VALUE(test, trial, place);
        if (place & OWN)
          *value = (double)r_tile[(start + m) * COLUMNS + n];
        else
          atomic_add_scalar(value, (double)r_tile[(start + m) * COLUMNS + n]);
      }
    }
  }
}
