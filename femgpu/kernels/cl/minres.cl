// MINRES (Paige and Saunders) with a preconditioner M: Lanczos vectors r of A M, v = M r / beta, and one rotation per step.

// Places in d_state. BETA and OLD are those of the step under way until `minres_rotation` moves on.
enum { OLD, BETA, DELTA, EPSILON, COS, SIN, PHI, FACTOR, MINUS_1, MINUS_2, TAU };

// Before the first step: beta = (z . r)^(1/2); the sums of the host are those of `minres_rotation`.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void minres_start(const int n, __global const double *d_zr, __global double *d_state, __global double *d_record) {
  __local double s_sums[GROUP_SIZE];
  const double square = total(d_zr, 0, s_sums);
  if (get_global_id(0) != 0) return;
  for (int i = OLD; i <= TAU; ++i) d_state[i] = 0;
  d_state[BETA] = d_state[PHI] = sqrt(fmax(square, 0.0));
  d_state[COS] = -1;
  d_record[NUM_GROUPS] = d_state[PHI];
  d_record[2 * NUM_GROUPS] = square;
  d_record[3 * NUM_GROUPS] = 1;
}

// v = z / beta
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void minres_vector(const int n, __global const double *d_state, __global const double *d_z, __global double *d_v) {
  const double factor = ratio(1.0, d_state[BETA]);
  FOR_EACH(i, n) d_v[i] = factor * d_z[i];
}

// q -= (beta / beta before) r before, and alpha = q . v
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void minres_alpha(const int n, __global const double *d_state, __global const double *d_before, __global const double *d_v,
                  __global double *d_q, __global double *d_alpha) {
  __local double s_sums[GROUP_SIZE];
  const double factor = ratio(d_state[BETA], d_state[OLD]);
  double sum = 0;
  FOR_EACH(i, n) {
    const double q = d_q[i] - factor * d_before[i];
    d_q[i] = q;
    sum += q * d_v[i];
  }
  write_part(d_alpha, 0, sum, s_sums);
}

// The next r = q - (alpha / beta) r; the one that was is kept.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void minres_next(const int n, __global const double *d_state, __global const double *d_alpha, __global const double *d_q,
                 __global double *d_before, __global double *d_r) {
  __local double s_sums[GROUP_SIZE];
  const double factor = ratio(total(d_alpha, 0, s_sums), d_state[BETA]);
  FOR_EACH(i, n) {
    const double r = d_r[i];
    d_before[i] = r;
    d_r[i] = d_q[i] - factor * r;
  }
}

// The rotation of a step, by one group. Rows 1 to 3 of the record: norm of the residual, z . r, the new diagonal entry.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void minres_rotation(const int n, __global const double *d_alpha, __global const double *d_zr, __global double *d_state,
                     __global double *d_record) {
  __local double s_sums[GROUP_SIZE];
  const double alpha = total(d_alpha, 0, s_sums), square = total(d_zr, 0, s_sums);
  if (get_global_id(0) != 0) return;
  const double next = sqrt(fmax(square, 0.0)), c = d_state[COS], s = d_state[SIN];
  const double delta = c * d_state[DELTA] + s * alpha, bar = s * d_state[DELTA] - c * alpha, epsilon = d_state[EPSILON];
  const double gamma = hypot(bar, next), cosine = ratio(bar, gamma), sine = ratio(next, gamma), phi = d_state[PHI];
  d_state[OLD] = d_state[BETA];
  d_state[BETA] = next;
  d_state[DELTA] = -c * next;
  d_state[EPSILON] = s * next;
  d_state[COS] = cosine;
  d_state[SIN] = sine;
  d_state[PHI] = sine * phi;
  d_state[FACTOR] = ratio(1.0, gamma);
  d_state[MINUS_1] = delta;
  d_state[MINUS_2] = epsilon;
  d_state[TAU] = cosine * phi;
  d_record[NUM_GROUPS] = sine * phi;
  d_record[2 * NUM_GROUPS] = square;
  d_record[3 * NUM_GROUPS] = gamma;
}

// w = (v - delta w_1 - epsilon w_2) / gamma and x += tau w; the last two w are kept.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void minres_step(const int n, __global const double *d_state, __global const double *d_v, __global double *d_w,
                 __global double *d_before, __global double *d_x) {
  const double factor = d_state[FACTOR], delta = d_state[MINUS_1], epsilon = d_state[MINUS_2], tau = d_state[TAU];
  FOR_EACH(i, n) {
    const double last = d_w[i], w = factor * (d_v[i] - delta * last - epsilon * d_before[i]);
    d_before[i] = last;
    d_w[i] = w;
    d_x[i] += tau * w;
  }
}

// Row 0 of the record: |b - q|^2
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void minres_residual(const int n, __global const double *d_b, __global const double *d_q, __global double *d_record) {
  __local double s_sums[GROUP_SIZE];
  double sum = 0;
  FOR_EACH(i, n) {
    const double r = d_b[i] - d_q[i];
    sum += r * r;
  }
  write_part(d_record, 0, sum, s_sums);
}
