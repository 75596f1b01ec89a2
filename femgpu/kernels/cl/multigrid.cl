// What a V-cycle does on a level between two products q = A p. The residual r is kept, not computed anew: each step subtracts the
// product of what was added to x. Vectors of a level are `real`, what comes from outside and goes there is double.

// What a step does before it adds p = omega D r to x:
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

// `take` and the first step of the finest level.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void enter(const int n, __global const double *d_parts, __global const double *restrict d_given, __global const real *restrict d_d,
           __global const uchar *d_mask, __global const double *d_s, __global const double *d_omega, __global real *restrict d_r,
           __global real *restrict d_x, __global real *restrict d_p, __global real *restrict d_q) {
  __local double s_sums[GROUP_SIZE];
  const double factor = ratio(1.0, norm_of(d_parts, s_sums));
  const real omega = (real)d_omega[0];
  FOR_EACH(i, n) {
    const real r = (real)(factor * d_given[i]), p = omega * d_d[i] * r;
    d_r[i] = r;
    d_x[i] = d_p[i] = p;
    d_q[i] = prepared(i, d_mask, d_s, p);
  }
}

// One step of the smoother on a number, or on WIDTH of them at once: 16 bytes per load keep the memory busy.
#define SMOOTH(T, MASK, i)                                                                                   \
  {                                                                                                          \
    T r = ((__global T *)d_r)[i], x = what & START ? (T)0 : ((__global T *)d_x)[i], p = 0, q = 0;            \
    if (what & SUBTRACT) ((__global T *)d_r)[i] = r -= ((__global T *)d_q)[i];                               \
    if (what & CORRECTED) x += ((__global T *)d_p)[i];                                                       \
    p = omega * ((__global const T *)d_d)[i] * r;                                                            \
    ((__global T *)d_x)[i] = x + p;                                                                          \
    ((__global T *)d_p)[i] = p;                                                                              \
    if (d_mask) q = s * p * CONVERT(T)(((__global const MASK *)d_mask)[i]);                                  \
    ((__global T *)d_q)[i] = q;                                                                              \
  }
#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)
#define CONVERT(T) JOIN(convert_, T)

__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void smooth(const int n, __global const real *restrict d_d, __global const uchar *d_mask, __global const double *d_s,
            __global const double *d_omega, const int step, const int what, __global real *restrict d_r,
            __global real *restrict d_x, __global real *restrict d_p, __global real *restrict d_q) {
  const real omega = (real)d_omega[step], s = d_mask ? (real)d_s[0] : (real)0;
  FOR_EACH(i, n / WIDTH) SMOOTH(JOIN(real, WIDTH), JOIN(uchar, WIDTH), i)
  FOR_EACH(i, n % WIDTH) SMOOTH(real, uchar, n / WIDTH * WIDTH + i)
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
void leave(const int n, __global const double *d_parts, __global const real *restrict d_d, __global const double *d_omega,
           const int step, const int what, __global const real *restrict d_r, __global const real *restrict d_x,
           __global const real *restrict d_p, __global const real *restrict d_q, __global double *restrict d_found) {
  __local double s_sums[GROUP_SIZE];
  const double norm = norm_of(d_parts, s_sums);
  const real omega = (real)d_omega[step];
  FOR_EACH(i, n) {
    const real x = what & CORRECTED ? d_x[i] + d_p[i] : d_x[i];
    d_found[i] = norm * (x + omega * d_d[i] * (d_r[i] - d_q[i]));
  }
}

// d = 1 / q, zero of zero, and the number of entries whose inverse changed by more than a fifth.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void take_diagonal(const int n, __global const real *restrict d_q, __global real *restrict d_d, __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double changed = 0;
  FOR_EACH(i, n) {
    const double d = ratio(1.0, d_q[i]);
    changed += !(fabs(d - d_d[i]) <= 0.2 * fabs(d));
    d_d[i] = (real)d;
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
