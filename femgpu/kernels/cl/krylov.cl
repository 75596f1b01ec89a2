// What a Krylov method does between two actions, on vectors of n doubles in NUM_GROUPS groups of GROUP_SIZE items.
// A sum over a vector is NUM_GROUPS partial sums in a buffer; whoever needs it adds them, each group for itself and all in the same
// order: no launch is spent on it, every group has the same number, and it is the same in every run.

#define FOR_EACH(i, n) for (int i = (int)get_global_id(0); i < (n); i += GROUP_SIZE * NUM_GROUPS)

// Sum over the items of a group, the same for all of them.
inline double group_sum(const double value, __local double *s_sums) {
  const int item = (int)get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  s_sums[item] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = GROUP_SIZE / 2; step > 0; step /= 2) {
    if (item < step) s_sums[item] += s_sums[item + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return s_sums[0];
}

// Sum `which` of a buffer of partial sums.
inline double total(__global const double *d_parts, const int which, __local double *s_sums) {
  double sum = 0;
  for (int i = (int)get_local_id(0); i < NUM_GROUPS; i += GROUP_SIZE) sum += d_parts[which * NUM_GROUPS + i];
  return group_sum(sum, s_sums);
}

inline void write_part(__global double *d_parts, const int which, const double value, __local double *s_sums) {
  const double sum = group_sum(value, s_sums);
  if (get_local_id(0) == 0) d_parts[which * NUM_GROUPS + (int)get_group_id(0)] = sum;
}

// r . z, z . z, r . r
inline void write_products(__global double *d_parts, const double rz, const double zz, const double rr, __local double *s_sums) {
  write_part(d_parts, 0, rz, s_sums);
  write_part(d_parts, 1, zz, s_sums);
  write_part(d_parts, 2, rr, s_sums);
}

// A number divided by zero counts as zero: past the exact solution nothing moves any more.
inline double ratio(const double a, const double b) { return b == 0.0 ? 0.0 : a / b; }

// x . y
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void dot_product(const int n, __global const double *d_x, __global const double *d_y, __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double sum = 0;
  FOR_EACH(i, n) sum += d_x[i] * d_y[i];
  write_part(d_parts, 0, sum, s_sums);
}

// r . z, z . z, r . r
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void residual_products(const int n, __global const double *d_r, __global const double *d_z, __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double rz = 0, zz = 0, rr = 0;
  FOR_EACH(i, n) {
    const double r = d_r[i], z = d_z[i];
    rz += r * z;
    zz += z * z;
    rr += r * r;
  }
  write_products(d_parts, rz, zz, rr, s_sums);
}

// y = a x + b y
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void axpby(const int n, const double a, __global const double *d_x, const double b, __global double *d_y) {
  FOR_EACH(i, n) d_y[i] = a * d_x[i] + (b == 0.0 ? 0.0 : b * d_y[i]);
}

// z -= (v . z) v with the sum v . z given
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void take_out(const int n, __global const double *d_parts, __global const double *d_v, __global double *d_z) {
  __local double s_sums[GROUP_SIZE];
  const double sum = total(d_parts, 0, s_sums);
  FOR_EACH(i, n) d_z[i] -= sum * d_v[i];
}

// z = d r entry by entry
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void multiply(const int n, __global const double *d_d, __global const double *d_r, __global double *d_z) {
  FOR_EACH(i, n) d_z[i] = d_d[i] * d_r[i];
}

// CG: alpha = r.z / p.q; x += alpha p, r -= alpha q; with z = d r (without d: z = r) the sums for the next
// step; the fourth is p.q itself, for the host to see.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_step(const int n, __global const double *d_products, __global const double *d_pq, __global const double *d_d,
             __global const double *d_p, __global const double *d_q, __global double *d_x, __global double *d_r,
             __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  const double pq = total(d_pq, 0, s_sums), alpha = ratio(total(d_products, 0, s_sums), pq);
  double rz = 0, zz = 0, rr = 0;
  FOR_EACH(i, n) {
    d_x[i] += alpha * d_p[i];
    const double r = d_r[i] - alpha * d_q[i], z = d_d ? d_d[i] * r : r;
    d_r[i] = r;
    rz += r * z;
    zz += z * z;
    rr += r * r;
  }
  write_products(d_parts, rz, zz, rr, s_sums);
  write_part(d_parts, 3, get_group_id(0) == 0 && get_local_id(0) == 0 ? pq : 0.0, s_sums);
}

// CG: beta = (r.z now) / (r.z before); p = z + beta p with z = d r (without d: z is given as d_r).
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_direction(const int n, __global const double *d_now, __global const double *d_before, __global const double *d_d,
                  __global const double *d_r, __global double *d_p) {
  __local double s_sums[GROUP_SIZE];
  const double beta = ratio(total(d_now, 0, s_sums), total(d_before, 0, s_sums));
  FOR_EACH(i, n) d_p[i] = (d_d ? d_d[i] * d_r[i] : d_r[i]) + beta * d_p[i];
}
