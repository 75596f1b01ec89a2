#define REAL double
#define SCALAR double
#define ACCUM double
#define DIM 3
#define NUM_QPTS 14
#define NUM_COMP 2
#define NUM_ROWS 40
#define NUM_COORD_BASIS 4
#define NUM_STATE 0
#define NUM_CELL_STATE 0
#define AT_d_coord_offsets(cell, i) ((size_t)((uint)(cell) / 32) * 128 + (i) * 32 + (uint)(cell) % 32)
#define AT_d_test0_offsets(cell, i) ((size_t)((uint)(cell) / 32) * 640 + (i) * 32 + (uint)(cell) % 32)
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

#define TABLE __global
#define TILE_WEIGHTS 0
#define TILE_MAP 14
#define TILE_f0 26
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
  for (int i = 0; i < 4; ++i) g0[i] = R(1);
  for (int i = 0; i < 36; ++i) g3[i] = R(1);
}

#define GROUP_SIZE 64
#define CELLS 32
#define LANES 1
#define VECTORS 1
#define PARTS 2
#define POINTS 2
#define PASSES 4
#define ABREAST 32
#define WORDS 90
#define ROW 32
#define WIDE 2
#define POINTS_UNROLL
// Schedule tiled: a work-group of CELLS cells. An item stands for LANES * VECTORS of them and belongs to one of PARTS parts. First a part
// interpolates the fields to its POINTS points of a pass, from coefficients in local memory and tiles of the tabulations; then, after a
// barrier, it multiplies what all parts left there with its share of the test functions.
// Index space: local id = part * ABREAST + lane. Past the last cell of the launch items repeat it and write nothing.
// Neighbouring items read neighbouring cells from global memory, word w of cell c from s_words[w * ROW + PLACE(c)], neighbouring banks.
typedef double reals;
typedef double accums;
#define TO_accums(x) (x)
#define LANE(array, i, lane) (((const real *)((array) + (i)))[lane])
// Words of a table into registers, 16 bytes at a time where items run in step.
#if WIDE == 1
#define READ_TABLE(n, from, to) for (int i = 0; i < (n); ++i) (to)[i] = (from)[i];
#elif WIDE == 2
#define READ_TABLE(n, from, to)                                                                     _Pragma("unroll") for (int i = 0; i < (n) / 2; ++i) {                                                        const double2 pair = ((TABLE const double2 *)(from))[i];                                          (to)[2 * i] = pair.x; (to)[2 * i + 1] = pair.y;                                                 }
#else
#define READ_TABLE(n, from, to)                                                                     _Pragma("unroll") for (int i = 0; i < (n) / 4; ++i) {                                                        const double4 four = ((TABLE const double4 *)(from))[i];                                          (to)[4 * i] = four.x; (to)[4 * i + 1] = four.y; (to)[4 * i + 2] = four.z; (to)[4 * i + 3] = four.w;   }
#endif
#define BASIS(size, r) (part * (size) + (r))
// Cell c of the group in the mesh; where its words stand: vector v of item `own` holds the cells (v * LANES + lane) * ABREAST + own.
#define CELL(c) (first + min(base + (c), count - 1))
#define PLACE(c) (((c) / ABREAST / LANES * ABREAST + (c) % ABREAST) * LANES + (c) / ABREAST % LANES)
#define LATTICE
#define AT_POINT(slot, p) (slot)
#define LATTICE_W(p) (d_tables + TILE_WEIGHTS)[p]
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
void diagonal(const int first, const int count, __global const real *restrict d_coords, __global const int *restrict d_coord_offsets, __global const real *restrict d_constants, __global const real *restrict d_tables, __global const int *restrict d_test0_offsets, __global scalar *restrict d_out) {
  const int item = (int)get_local_id(0), part = item / ABREAST, own = item % ABREAST;
  const int base = (int)get_group_id(0) * CELLS;
  __local reals s_all[WORDS * ROW / LANES]; // 23040 bytes
  __local real *s_words = (__local real *)s_all;
  __local reals *s_own = s_all + own;

  // Asked for early, for it is needed late.
  int corners[NUM_COORD_BASIS];
  _Pragma("unroll") for (int b = 0; b < NUM_COORD_BASIS; ++b) corners[b] = d_coord_offsets[AT_d_coord_offsets(CELL(item % CELLS), b)];

  // gather
  for (int turn = 0; turn < CELLS; turn += GROUP_SIZE) {
    const int i = turn + item;
    if (i < CELLS) {
      const int cell = CELL(i);
      {
        __local real *s_kept = s_words + 0 * ROW + PLACE(i);
        real J[DIM * DIM], inverse[DIM * DIM];
        for (int k = 0; k < DIM * DIM; ++k) J[k] = 0;
        _Pragma("unroll") for (int b = 0; b < NUM_COORD_BASIS; ++b) {
          const int offset = turn == 0 ? corners[b] : d_coord_offsets[AT_d_coord_offsets(cell, b)];
          for (int d = 0; d < DIM; ++d)
            for (int k = 0; k < DIM; ++k) J[d * DIM + k] += d_coords[offset + d] * (d_tables + TILE_MAP)[b * DIM + k];
        }
        s_kept[DIM * DIM * ROW] = invert(J, inverse);
        for (int k = 0; k < DIM * DIM; ++k) s_kept[k * ROW] = inverse[k];
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  accums r_f0_b[20 * VECTORS];
  _Pragma("unroll") for (int i = 0; i < 20 * VECTORS; ++i) r_f0_b[i] = (accums)(0);

  for (int pass = 0; pass < PASSES; ++pass) {
    // tabulate: word (kind * components + c) * POINTS + m, of each vector

    // pointwise
    _Pragma("unroll") for (int m = 0; m < POINTS; ++m)
      _Pragma("unroll") for (int v = 0; v < VECTORS; ++v)
        _Pragma("unroll") for (int lane = 0; lane < LANES; ++lane) {
    const int q = (pass * PARTS + part) * POINTS + m, place = q;
    const int inside = (v * ABREAST + own) * LANES + lane, cell = CELL((v * LANES + lane) * ABREAST + own);
    __local real *s_point = s_words + (10 + (part * POINTS + m) * 20) * ROW + inside;
    if (q < NUM_QPTS) {
    accum r_f0_e[20];
    real J_inv[DIM * DIM], det_J;
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = s_words[(0 + i) * ROW + inside];
    det_J = s_words[(0 + DIM * DIM) * ROW + inside];
    // tabulate

    real r_u[1];
    real r_u_x[1];
    real r_u_xx[1];
    real r_w[1];
    real r_w_x[1];
    real r_w_xx[1];
    real r_a[1];
    real r_a_x[1];
    real r_a_xx[1];
    real r_x[3];
    real r_n[3];
    real r_s[1];
    const real measure = det_J;
    const real weight = TABLE_W(q) * measure;


    // pointwise
    real g0[4]; for (int i = 0; i < 4; ++i) g0[i] = 0;
    real g1[1]; for (int i = 0; i < 1; ++i) g1[i] = 0;
    real g2[12]; for (int i = 0; i < 12; ++i) g2[i] = 0;
    real g3[36]; for (int i = 0; i < 36; ++i) g3[i] = 0;
    pointwise(r_u, r_u_x, r_u_xx, r_w, r_w_x, r_w_xx, r_a, r_a_x, r_a_xx, r_x, r_n, r_s, d_constants, g0, g1, g2, g3);

    // integrate
    for (int c = 0; c < 2; ++c) {
      const int cc = (0 + c) * NUM_COMP + 0 + (c + 1) % 2;
      int slot = c;
      r_f0_e[AT_POINT(slot, place)] = (accum)(weight * g0[cc]);
      slot += 2;
      real sides[DIM], flux[DIM];
      for (int d = 0; d < DIM; ++d) sides[d] = g2[cc * DIM + d];
      pull_back_flux(J_inv, weight, sides, flux);
      for (int k = 0; k < DIM; ++k, slot += 2) r_f0_e[AT_POINT(slot, place)] = (accum)flux[k];
      real tensor[DIM * DIM];
      pull_back_hessian(J_inv, weight, g3 + cc * DIM * DIM, tensor);
      for (int k = 0; k < DIM; ++k)
        for (int l = k; l < DIM; ++l, slot += 2) {
          const real both = tensor[k * DIM + l] + (k < l ? tensor[l * DIM + k] : R(0));
          r_f0_e[AT_POINT(slot, place)] = (accum)both;
        }
    }

    s_point[0 * ROW] = (real)r_f0_e[0];
    s_point[1 * ROW] = (real)r_f0_e[1];
    s_point[2 * ROW] = (real)r_f0_e[2];
    s_point[3 * ROW] = (real)r_f0_e[3];
    s_point[4 * ROW] = (real)r_f0_e[4];
    s_point[5 * ROW] = (real)r_f0_e[5];
    s_point[6 * ROW] = (real)r_f0_e[6];
    s_point[7 * ROW] = (real)r_f0_e[7];
    s_point[8 * ROW] = (real)r_f0_e[8];
    s_point[9 * ROW] = (real)r_f0_e[9];
    s_point[10 * ROW] = (real)r_f0_e[10];
    s_point[11 * ROW] = (real)r_f0_e[11];
    s_point[12 * ROW] = (real)r_f0_e[12];
    s_point[13 * ROW] = (real)r_f0_e[13];
    s_point[14 * ROW] = (real)r_f0_e[14];
    s_point[15 * ROW] = (real)r_f0_e[15];
    s_point[16 * ROW] = (real)r_f0_e[16];
    s_point[17 * ROW] = (real)r_f0_e[17];
    s_point[18 * ROW] = (real)r_f0_e[18];
    s_point[19 * ROW] = (real)r_f0_e[19];
    }
        }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integrate: word r * components + c of each vector
    {
      const int begin = pass * PARTS * POINTS, points = min(PARTS * POINTS, NUM_QPTS - begin);
      TABLE const real *from_f0 = (d_tables + TILE_f0) + part * 1400 + begin * 100;
      _Pragma("unroll 1") for (int p = 0; p < points; ++p)
        _Pragma("unroll") for (int k = 0; k < 10; ++k) {
          real entries[10];
          READ_TABLE(10, from_f0 + (p * 10 + k) * 10, entries)
          _Pragma("unroll") for (int c = 0; c < 2; ++c)
            _Pragma("unroll") for (int v = 0; v < VECTORS; ++v) {
              const reals flux = s_own[(10 + p * 20 + 0 + k * 2 + c) * (ROW / LANES) + v * ABREAST];
              _Pragma("unroll") for (int r = 0; r < 10; ++r)
                r_f0_b[(r * 2 + c) * VECTORS + v] += TO_accums(entries[r] * flux);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  // scatter
  int offsets0[10 * VECTORS * LANES];
  _Pragma("unroll") for (int r = 0; r < 10; ++r)
    _Pragma("unroll") for (int v = 0; v < VECTORS * LANES; ++v) {
      const int cell = CELL(v * ABREAST + own);
      offsets0[r * VECTORS * LANES + v] = d_test0_offsets[AT_d_test0_offsets(cell, min(BASIS(10, r), 19))];
    }
  _Pragma("unroll") for (int r = 0; r < 10; ++r) {
    const int b = BASIS(10, r);
    _Pragma("unroll") for (int v = 0; v < VECTORS * LANES; ++v) {
      const int past = base + v * ABREAST + own, cell = first + past;
      if (b < 20 && past < count)
        _Pragma("unroll") for (int c = 0; c < 2; ++c) {
          const accum sum = ((const accum *)(r_f0_b + (r * 2 + c) * VECTORS + v / LANES))[v % LANES];
          atomic_add_scalar(d_out + offsets0[r * VECTORS * LANES + v] + c, (scalar)sum);
        }
    }
  }
}
