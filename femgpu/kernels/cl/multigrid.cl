// What a V-cycle does on a level between two products q = A p. The residual r is kept, not computed anew: each step subtracts the
// product of what was added to x. Vectors of a level are `real`, what comes from outside and goes there is double. M is the inverse of
// the diagonal, or of blocks of BLOCK_SIZE rows on it: d_m has one after the other, column by column.

// What a step does before it adds p = omega M r to x:
#define SUBTRACT 1   // r -= q
#define START 2      // x = 0
#define CORRECTED 4  // x += p, the correction of the coarser level

// What an entry of q must hold before A p is added to it: s p where a dof is prescribed, elsewhere nothing.
inline real prepared(const int i, __global const uchar *d_mask, __global const double *d_s, const real p) {
  return d_mask && d_mask[i] ? (real)(d_s[0] * p) : (real)0;
}

// The sum r . r of a vector from outside.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void square(const int n, __global const double *restrict d_r, __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double sum = 0;
  FOR_EACH(i, n) sum += d_r[i] * d_r[i];
  write_part(d_parts, 0, sum, s_sums);
}

// The norm of what the cycle is for, by which all of it is scaled so that single precision has room; 1 without its square.
inline double norm_of(__global const double *d_parts, __local double *s_sums) {
  return d_parts ? sqrt(total(d_parts, 0, s_sums)) : 1.0;
}

// r = given / norm
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void take(const int n, __global const double *d_parts, __global const double *restrict d_given, __global real *restrict d_r) {
  __local double s_sums[GROUP_SIZE];
  const double factor = ratio(1.0, norm_of(d_parts, s_sums));
  FOR_EACH(i, n) d_r[i] = (real)(factor * d_given[i]);
}

// found = norm x
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void give(const int n, __global const double *d_parts, __global const real *restrict d_x, __global double *restrict d_found) {
  __local double s_sums[GROUP_SIZE];
  const double norm = norm_of(d_parts, s_sums);
  FOR_EACH(i, n) d_found[i] = norm * d_x[i];
}

// p = row c of block b of M times the block's entries r, for numbers of type T
#define MULTIPLY(T, b, c, r, p)                                                                              \
  {                                                                                                          \
    __global const T *m = (__global const T *)d_m + (size_t)(b) * (BLOCK_SIZE * BLOCK_SIZE) + c;             \
    p = m[0] * r[0];                                                                                         \
    for (int k = 1; k < BLOCK_SIZE; ++k) p += m[k * BLOCK_SIZE] * r[k];                                      \
  }

// `take` and the first step of the finest level.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void enter(const int n, __global const double *d_parts, __global const double *restrict d_given, __global const real *restrict d_m,
           __global const uchar *d_mask, __global const double *d_s, __global const double *d_omega, __global real *restrict d_r,
           __global real *restrict d_x, __global real *restrict d_p, __global real *restrict d_q) {
  __local double s_sums[GROUP_SIZE];
  const double factor = ratio(1.0, norm_of(d_parts, s_sums));
  const real omega = (real)d_omega[0];
  FOR_EACH(b, n / BLOCK_SIZE) {
    const int first = b * BLOCK_SIZE;
    real r[BLOCK_SIZE];
    for (int k = 0; k < BLOCK_SIZE; ++k) d_r[first + k] = r[k] = (real)(factor * d_given[first + k]);
    for (int c = 0; c < BLOCK_SIZE; ++c) {
      real p;
      MULTIPLY(real, b, c, r, p)
      d_x[first + c] = d_p[first + c] = p *= omega;
      d_q[first + c] = prepared(first + c, d_mask, d_s, p);
    }
  }
}

// One step of the smoother on a block, or on WIDTH blocks of one number at once: 16 bytes per load keep the memory busy.
#define SMOOTH(T, MASK, b)                                                                                   \
  {                                                                                                          \
    __global T *r_b = (__global T *)d_r + (b) * BLOCK_SIZE, *x_b = (__global T *)d_x + (b) * BLOCK_SIZE;     \
    __global T *p_b = (__global T *)d_p + (b) * BLOCK_SIZE, *q_b = (__global T *)d_q + (b) * BLOCK_SIZE;     \
    T r[BLOCK_SIZE];                                                                                         \
    for (int k = 0; k < BLOCK_SIZE; ++k) {                                                                   \
      r[k] = r_b[k];                                                                                         \
      if (what & SUBTRACT) r_b[k] = r[k] -= q_b[k];                                                          \
    }                                                                                                        \
    for (int c = 0; c < BLOCK_SIZE; ++c) {                                                                   \
      T x = what & START ? (T)0 : x_b[c], p, q = 0;                                                          \
      if (what & CORRECTED) x += p_b[c];                                                                     \
      MULTIPLY(T, b, c, r, p)                                                                                \
      p *= omega;                                                                                            \
      x_b[c] = x + p;                                                                                        \
      p_b[c] = p;                                                                                            \
      if (d_mask) q = s * p * CONVERT(T)(((__global const MASK *)d_mask)[(b) * BLOCK_SIZE + c]);             \
      q_b[c] = q;                                                                                            \
    }                                                                                                        \
  }
#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)
#define CONVERT(T) JOIN(convert_, T)

__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void smooth(const int n, __global const real *restrict d_m, __global const uchar *d_mask, __global const double *d_s,
            __global const double *d_omega, const int step, const int what, __global real *restrict d_r,
            __global real *restrict d_x, __global real *restrict d_p, __global real *restrict d_q) {
  const real omega = (real)d_omega[step], s = d_mask ? (real)d_s[0] : (real)0;
#if BLOCK_SIZE == 1
  FOR_EACH(i, n / WIDTH) SMOOTH(JOIN(real, WIDTH), JOIN(uchar, WIDTH), i)
  FOR_EACH(i, n % WIDTH) SMOOTH(real, uchar, n / WIDTH * WIDTH + i)
#else
  FOR_EACH(b, n / BLOCK_SIZE) SMOOTH(real, uchar, b)
#endif
}

// r -= q, and q is prepared for corrections, which are zero where dofs are prescribed.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void subtract(const int n, __global real *restrict d_r, __global real *restrict d_q) {
  FOR_EACH(i, n) {
    d_r[i] -= d_q[i];
    d_q[i] = 0;
  }
}

// The last step of the finest level, and `give`.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void leave(const int n, __global const double *d_parts, __global const real *restrict d_m, __global const double *d_omega,
           const int step, const int what, __global const real *restrict d_r, __global const real *restrict d_x,
           __global const real *restrict d_p, __global const real *restrict d_q, __global double *restrict d_found) {
  __local double s_sums[GROUP_SIZE];
  const double norm = norm_of(d_parts, s_sums);
  const real omega = (real)d_omega[step];
  FOR_EACH(b, n / BLOCK_SIZE) {
    const int first = b * BLOCK_SIZE;
    real r[BLOCK_SIZE];
    for (int k = 0; k < BLOCK_SIZE; ++k) r[k] = d_r[first + k] - d_q[first + k];
    for (int c = 0; c < BLOCK_SIZE; ++c) {
      const int i = first + c;
      real x = what & CORRECTED ? d_x[i] + d_p[i] : d_x[i], p;
      MULTIPLY(real, b, c, r, p)
      d_found[i] = norm * (x + omega * p);
    }
  }
}

// What is left of a pivot, of what stood there, where the rest is rounding.
#define SINGULAR (sizeof(real) == 4 ? 1e-6 : 1e-14)

// M from the diagonal, and what stands 1, 2, ... columns further in its blocks, in turns: vectors of `stride` numbers. By elimination
// without exchanges, which blocks of elliptic operators do not need; rows that are zero, or depend on those before, are left out. And
// the number of rows that changed by more than a fifth of their entries' sum.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void take_diagonal(const int n, const int stride, __global const real *restrict d_diagonals, __global real *restrict d_m,
                   __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double changed = 0;
  FOR_EACH(b, n / BLOCK_SIZE) {
    __global const real *d_block = d_diagonals + b * BLOCK_SIZE;
    double a[BLOCK_SIZE][BLOCK_SIZE];
    for (int i = 0; i < BLOCK_SIZE; ++i)
      for (int k = 0; k < BLOCK_SIZE; ++k) a[i][(i + k) % BLOCK_SIZE] = d_block[(size_t)k * stride + i];
    for (int k = 0; k < BLOCK_SIZE; ++k) {
      const double inverse = fabs(a[k][k]) <= SINGULAR * fabs(d_block[k]) ? 0 : 1 / a[k][k];
      a[k][k] = 1;
      for (int j = 0; j < BLOCK_SIZE; ++j) a[k][j] *= inverse;
      for (int i = 0; i < BLOCK_SIZE; ++i) {
        if (i == k) continue;
        const double factor = a[i][k];
        a[i][k] = 0;
        for (int j = 0; j < BLOCK_SIZE; ++j) a[i][j] -= factor * a[k][j];
      }
    }
    for (int i = 0; i < BLOCK_SIZE; ++i) {
      double difference = 0, size = 0;
      for (int k = 0; k < BLOCK_SIZE; ++k) {
        const size_t at = (size_t)b * (BLOCK_SIZE * BLOCK_SIZE) + k * BLOCK_SIZE + i;
        difference += fabs(a[i][k] - d_m[at]);
        size += fabs(a[i][k]);
        d_m[at] = (real)a[i][k];
      }
      changed += !(difference <= 0.2 * size);
    }
  }
  write_part(d_parts, 0, changed, s_sums);
}

// The sums |given - x|^2 and |given|^2.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void compare(const int n, __global const double *restrict d_given, __global const real *restrict d_x, __global double *d_parts) {
  __local double s_sums[2 * GROUP_SIZE];
  double sums[2] = {0, 0};
  FOR_EACH(i, n) {
    const double difference = d_given[i] - d_x[i];
    sums[0] += difference * difference;
    sums[1] += d_given[i] * d_given[i];
  }
  write_parts(d_parts, 0, 2, sums, s_sums);
}
