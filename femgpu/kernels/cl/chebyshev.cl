// Chebyshev's iteration. z is given, or d r with a diagonal, or r. Sums: z . z, r . r.

inline void write_sums(__global double *d_parts, const double zz, const double rr, __local double *s_sums) {
  const double first = group_sum(zz, s_sums), second = group_sum(rr, s_sums);
  if (!d_parts || get_local_id(0) != 0) return;
  d_parts[get_group_id(0)] = first;
  d_parts[NUM_GROUPS + get_group_id(0)] = second;
}

// r = b - q
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void chebyshev_residual(const int n, __global const double *d_b, __global const double *d_q, __global double *d_r) {
  FOR_EACH(i, n) d_r[i] = d_b[i] - d_q[i];
}

// First kind: the iterate after x from that before it, which it replaces: c_0 before + c_1 x + c_2 z, r = b - q.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void chebyshev_first(const int n, __global const double *d_b, __global const double *d_q, __global const double *d_d,
                     __global const double *d_z, __global const double *d_x, __global double *d_before, const double c_0,
                     const double c_1, const double c_2, __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double zz = 0, rr = 0;
  FOR_EACH(i, n) {
    const double r = d_b[i] - d_q[i], z = d_z ? d_z[i] : d_d ? d_d[i] * r : r;
    d_before[i] = (c_0 == 0.0 ? 0.0 : c_0 * d_before[i]) + c_1 * d_x[i] + c_2 * z;
    zz += z * z;
    rr += r * r;
  }
  write_sums(d_parts, zz, rr, s_sums);
}

// Fourth kind (Lottes): x += p, r -= q with q = A p unless z is given, p = c_0 p + c_1 z.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void chebyshev_fourth(const int n, __global const double *d_q, __global const double *d_d, __global const double *d_z,
                      __global double *d_x, __global double *d_r, __global double *d_p, const double c_0, const double c_1,
                      __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double zz = 0, rr = 0;
  FOR_EACH(i, n) {
    const double r = d_z ? d_r[i] : d_r[i] - d_q[i], z = d_z ? d_z[i] : d_d ? d_d[i] * r : r;
    const double p = d_p[i];
    if (!d_z) d_r[i] = r;
    d_x[i] += p;
    d_p[i] = c_0 * p + c_1 * z;
    zz += z * z;
    rr += r * r;
  }
  write_sums(d_parts, zz, rr, s_sums);
}
