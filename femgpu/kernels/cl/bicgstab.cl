// BiCGStab (van der Vorst) with K = M A or A M. Sums: rho = r . s0 and r . r of `d_products`; v . s0; t . s, t . t, s . s.
// `d_scalars` holds alpha, omega and the rho before.

// r . s0 and r . r
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void bicgstab_products(const int n, __global const double *d_r, __global const double *d_shadow, __global double *d_products) {
  __local double s_sums[GROUP_SIZE];
  double rho = 0, rr = 0;
  FOR_EACH(i, n) {
    rho += d_r[i] * d_shadow[i];
    rr += d_r[i] * d_r[i];
  }
  write_part(d_products, 0, rho, s_sums);
  write_part(d_products, 1, rr, s_sums);
}

// p = r + beta (p - omega v) with beta = (rho / rho before) (alpha / omega)
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void bicgstab_direction(const int n, __global const double *d_products, __global const double *d_scalars,
                        __global const double *d_r, __global const double *d_v, __global double *d_p) {
  __local double s_sums[GROUP_SIZE];
  const double alpha = d_scalars[0], omega = d_scalars[1];
  const double beta = ratio(total(d_products, 0, s_sums), d_scalars[2]) * ratio(alpha, omega);
  FOR_EACH(i, n) d_p[i] = d_r[i] + beta * (d_p[i] - omega * d_v[i]);
}

// r becomes s = r - alpha v with alpha = rho / v . s0
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void bicgstab_half(const int n, __global const double *d_products, __global const double *d_vs, __global double *d_scalars,
                   __global const double *d_v, __global double *d_r) {
  __local double s_sums[GROUP_SIZE];
  const double rho = total(d_products, 0, s_sums), alpha = ratio(rho, total(d_vs, 0, s_sums));
  FOR_EACH(i, n) d_r[i] -= alpha * d_v[i];
  if (get_global_id(0) == 0) {
    d_scalars[0] = alpha;
    d_scalars[2] = rho;
  }
}

// t . s, t . t, s . s
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void bicgstab_sums(const int n, __global const double *d_t, __global const double *d_s, __global double *d_ts) {
  __local double s_sums[GROUP_SIZE];
  double ts = 0, tt = 0, ss = 0;
  FOR_EACH(i, n) {
    const double t = d_t[i], s = d_s[i];
    ts += t * s;
    tt += t * t;
    ss += s * s;
  }
  write_part(d_ts, 0, ts, s_sums);
  write_part(d_ts, 1, tt, s_sums);
  write_part(d_ts, 2, ss, s_sums);
}

// x += alpha p + omega s, s becomes r = s - omega t with omega = t . s / t . t, and its products; after them
// stand v . s0, t . t, s . s, for the host to see.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void bicgstab_step(const int n, __global const double *d_ts, __global const double *d_vs, __global double *d_scalars,
                   __global const double *d_p, __global const double *d_t, __global const double *d_shadow,
                   __global double *d_x, __global double *d_r, __global double *d_products) {
  __local double s_sums[GROUP_SIZE];
  const double alpha = d_scalars[0], omega = ratio(total(d_ts, 0, s_sums), total(d_ts, 1, s_sums));
  double rho = 0, rr = 0;
  FOR_EACH(i, n) {
    const double s = d_r[i], r = s - omega * d_t[i];
    d_x[i] += alpha * d_p[i] + omega * s;
    d_r[i] = r;
    rho += r * d_shadow[i];
    rr += r * r;
  }
  write_part(d_products, 0, rho, s_sums);
  write_part(d_products, 1, rr, s_sums);
  const int group = (int)get_group_id(0);
  if (get_local_id(0) == 0) {
    d_products[2 * NUM_GROUPS + group] = d_vs[group];
    d_products[3 * NUM_GROUPS + group] = d_ts[NUM_GROUPS + group];
    d_products[4 * NUM_GROUPS + group] = d_ts[2 * NUM_GROUPS + group];
  }
  if (get_global_id(0) == 0) d_scalars[1] = omega;
}
