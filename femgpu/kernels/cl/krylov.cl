// What conjugate gradients, and other Krylov methods with them, do between two actions.

// Adds r . z, z . z, r . r of an entry.
inline void add_products(const double r, const double z, double *sums) {
  sums[0] += r * z;
  sums[1] += z * z;
  sums[2] += r * r;
}

// x . y
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void dot_product(const int n, __global const double *restrict d_x, __global const double *restrict d_y, __global double *d_parts) {
  __local double s_sums[GROUP_SIZE];
  double sum = 0;
  FOR_EACH(i, n) sum += d_x[i] * d_y[i];
  write_part(d_parts, 0, sum, s_sums);
}

// r . z, z . z, r . r and, where q is given, q . z
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void residual_products(const int n, __global const double *restrict d_r, __global const double *restrict d_z,
                       __global const double *restrict d_q, __global double *d_parts) {
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
void axpby(const int n, const double a, __global const double *restrict d_x, const double b, __global double *restrict d_y) {
  FOR_EACH(i, n) d_y[i] = a * d_x[i] + (b == 0.0 ? 0.0 : b * d_y[i]);
}

// z -= (v . z) v with the sum v . z given
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void take_out(const int n, __global const double *d_parts, __global const double *restrict d_v, __global double *restrict d_z) {
  __local double s_sums[GROUP_SIZE];
  const double sum = total(d_parts, 0, s_sums);
  FOR_EACH(i, n) d_z[i] -= sum * d_v[i];
}

// z = d r entry by entry
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void multiply(const int n, __global const double *restrict d_d, __global const double *restrict d_r, __global double *restrict d_z) {
  FOR_EACH(i, n) d_z[i] = d_d[i] * d_r[i];
}

// Sums of a CG iteration in a buffer: 0 to 2 r . z, z . z, r . r, written with r; 3 and 4 p . q, q . M q, written with q.

// CG: p . q, and with a diagonal M (without d: 1) q . M q. Where the operator's kernels have summed p . q into slots, p is not read.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_products(const int n, __global const double *d_slots, __global const double *restrict d_d, __global const double *restrict d_p,
                 __global const double *restrict d_q, __global double *d_parts) {
  __local double s_sums[2 * GROUP_SIZE];
  double sums[2] = {0, 0};
  if (d_slots) {
    FOR_EACH(i, DOT_SLOTS) sums[0] += d_slots[i];
    FOR_EACH(i, n) sums[1] += (d_d ? d_d[i] * d_q[i] : d_q[i]) * d_q[i];
  } else {
    FOR_EACH(i, n) {
      const double q = d_q[i];
      sums[0] += d_p[i] * q;
      sums[1] += (d_d ? d_d[i] * q : q) * q;
    }
  }
  write_parts(d_parts, 3, 2, sums, s_sums);
}

// CG with a diagonal M in one pass: r -= alpha q, p_next = M r + beta p, and the sums of the next iteration. beta is a quotient of two
// r . z, the later of which is foretold as alpha^2 q . M q - r . z (Meurant 1987, Parallel Computing 5) and computed for the iterations to come.
// x takes two steps at a time, on every second call (`catch_up`): the direction before is (p - M r) / beta of the call before, or
// where that would cancel what lies in the place of p_next. The calls between leave alpha and beta in `d_step`.
// Where the operator adds to what is in q (`d_slots` given), q and slots are prepared for it: s p on prescribed entries, else zero.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_update(const int n, const int catch_up, __global const double *d_before, __global const double *restrict d_d,
               __global const double *restrict d_p, __global double *restrict d_p_next, __global double *restrict d_q,
               __global double *restrict d_x, __global double *restrict d_r, __global double *d_after, __global double *d_step,
               __global const uchar *restrict d_prescribed, __global const double *d_s, __global double *d_slots) {
  __local double s_sums[5 * GROUP_SIZE];
  double sums[5];
  read_totals(d_before, 0, 5, sums, s_sums);
  const double rz = sums[0], pq = sums[3], alpha = ratio(rz, pq), beta = fmax(ratio(alpha * alpha * sums[4] - rz, rz), 0.0);
  const double alpha_before = d_step[0], beta_before = d_step[1];
  const bool kept = beta_before < CANCELS;
  const double step_before = kept ? alpha_before : alpha_before / beta_before;
  const double s = d_prescribed ? d_s[0] : 0.0;
  for (int k = 0; k < 4; ++k) sums[k] = 0;
  FOR_EACH_BACK(i, n) {
    const double r_before = d_r[i], d = d_d ? d_d[i] : 1.0, p = d_p[i];
    if (catch_up) d_x[i] += alpha * p + step_before * (kept ? d_p_next[i] : p - d * r_before);
    const double r = r_before - alpha * d_q[i], z = d * r, p_next = z + beta * p;
    d_r[i] = r;
    d_p_next[i] = p_next;
    add_products(r, z, sums);
    if (d_slots) {
      const double q = d_prescribed && d_prescribed[i] ? s * p_next : 0.0;
      d_q[i] = q;
      sums[3] += q * p_next;
    }
  }
  group_sums(sums, 4, s_sums);
  const int group = (int)get_group_id(0);
  if (get_local_id(0) == 0) {
    for (int k = 0; k < 3; ++k) d_after[k * NUM_GROUPS + group] = sums[k];
    for (int i = group; d_slots && i < DOT_SLOTS; i += NUM_GROUPS) d_slots[i] = i < NUM_GROUPS ? sums[3] : 0.0;
  }
  if (!catch_up && get_global_id(0) == 0) {
    d_step[0] = alpha;
    d_step[1] = beta;
  }
}

// CG, what `cg_update` leaves out at the end: x += alpha p of the last step.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_finish(const int n, __global const double *d_step, __global const double *restrict d_p, __global double *restrict d_x) {
  FOR_EACH(i, n) d_x[i] += d_step[0] * d_p[i];
}

// CG with any M: alpha = r.z / p.q; x += alpha p, r -= alpha q.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_step(const int n, __global const double *d_sums, __global const double *restrict d_p, __global const double *restrict d_q,
             __global double *restrict d_x, __global double *restrict d_r) {
  __local double s_sums[4 * GROUP_SIZE];
  double sums[4];
  read_totals(d_sums, 0, 4, sums, s_sums);
  const double alpha = ratio(sums[0], sums[3]);
  FOR_EACH(i, n) {
    d_x[i] += alpha * d_p[i];
    d_r[i] -= alpha * d_q[i];
  }
}

// CG with any M: p = z + beta p, beta = (r.z now) / (r.z before); if M changes (`flexible`) beta = -(q.z now) / (p.q before), which
// makes the new direction conjugate to the old one whatever M was; q.z stands in the place of p.q, which is not there yet.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_direction(const int n, const int flexible, __global const double *d_now, __global const double *d_before,
                  __global const double *restrict d_z, __global double *restrict d_p) {
  __local double s_sums[GROUP_SIZE];
  const int row = flexible ? 3 : 0;
  const double quotient = ratio(total(d_now, row, s_sums), total(d_before, row, s_sums)), beta = flexible ? -quotient : quotient;
  FOR_EACH(i, n) d_p[i] = d_z[i] + beta * d_p[i];
}
