// What conjugate gradients, and other Krylov methods with them, do between two actions.

// Adds r . z, z . z, r . r of an entry.
inline void add_products(const double r, const double z, double *sums) {
  sums[0] += r * z;
  sums[1] += z * z;
  sums[2] += r * r;
}

// Sum number `row`: x . y
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void dot_product(const int n, const int row, __global const real *restrict d_x, __global const real *restrict d_y,
                 __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double sum = 0;
  FOR_EACH(i, n) sum += (double)d_x[i] * d_y[i];
  write_part(d_parts, row, sum, s_sums);
}

// r . z, z . z, r . r and, where q is given, q . z
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void residual_products(const int n, __global const real *restrict d_r, __global const real *restrict d_z,
                       __global const real *restrict d_q, __global double *d_parts) {
  __local double s_sums[4 * GROUP_SIZE];
  double sums[4] = {0, 0, 0, 0};
  FOR_EACH(i, n) {
    add_products(d_r[i], d_z[i], sums);
    if (d_q) sums[3] += d_q[i] * d_z[i];
  }
  write_parts(d_parts, 0, 4, sums, s_sums);
}

// y = a x + b y
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void axpby(const int n, const double a, __global const real *restrict d_x, const double b, __global real *restrict d_y) {
  FOR_EACH(i, n) d_y[i] = (real)(a * d_x[i] + (b == 0.0 ? 0.0 : b * d_y[i]));
}

// z -= (v . z) v with the sum v . z given
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void take_out(const int n, __global const double *d_parts, __global const real *restrict d_v, __global real *restrict d_z) {
  __local double s_sums[GROUP_SIZE];
  const double sum = total(d_parts, 0, s_sums);
  FOR_EACH(i, n) d_z[i] -= sum * d_v[i];
}

// z = d r entry by entry
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void multiply(const int n, __global const real *restrict d_d, __global const real *restrict d_r, __global real *restrict d_z) {
  FOR_EACH(i, n) d_z[i] = d_d[i] * d_r[i];
}

// Sums of a CG iteration: 0 to 2 r . z, z . z, r . r; 3 z . A z, or q . z for an M that changes; 4 p . q of the step before.

// CG with any M: alpha = r.z / p.q; x += alpha p, r -= alpha q.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_step(const int n, __global const double *d_before, __global const double *d_now, __global const real *restrict d_p,
             __global const real *restrict d_q, __global real *restrict d_x, __global real *restrict d_r) {
  __local double s_sums[GROUP_SIZE];
  const double alpha = ratio(total(d_before, 0, s_sums), total(d_now, 4, s_sums));
  FOR_EACH(i, n) {
    d_x[i] += alpha * d_p[i];
    d_r[i] -= alpha * d_q[i];
  }
}

// CG with any M: p = z + beta p, beta = (r.z now) / (r.z before); if M changes (`flexible`) beta = -(q.z now) / (p.q), which makes the
// new direction conjugate to the old one whatever M was.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_direction(const int n, const int flexible, __global const double *d_before, __global const double *d_now,
                  __global const real *restrict d_z, __global real *restrict d_p) {
  __local double s_sums[GROUP_SIZE];
  const double divisor = total(flexible ? d_now : d_before, flexible ? 4 : 0, s_sums);
  const double beta = ratio(total(d_now, flexible ? 3 : 0, s_sums), flexible ? -divisor : divisor);
  FOR_EACH(i, n) d_p[i] = d_z[i] + beta * d_p[i];
}

// PETSc's noise: numbers between -1.1 and 1.1 from those of the entries.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void noise(const int n, const uint first, __global real *restrict d_x) {
  FOR_EACH(i, n) {
    uint x = first + i;
    for (int k = 0; k < 2; ++k) x = ((x >> 16) ^ x) * 0x45D9F3Bu;
    x = (x >> 16) ^ x;
    d_x[i] = (real)(((double)x - 2147483648.0) * 5e-10);
  }
}
