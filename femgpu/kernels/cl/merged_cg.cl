// Conjugate gradients with a diagonal M in one pass per step, after Chronopoulos and Gear (1989, J. Comput. Appl. Math. 25, 153-168):
// A is applied to z = M r, w = A z, and s = A p follows by the recurrence of p, so that alpha and beta are known before the pass.
// x and p are not needed for that. They take CG_STEPS steps at a time from the last z, which stand in a ring: a step then
// moves six words per entry, and (CG_STEPS + 3) / CG_STEPS more.
// Sums of an iteration: 0 to 2 r . z, z . z, r . r; 3 z . w; 4 p . A p of the step before.

// Places of a step in `d_steps`.
enum { ALPHA, BETA, GAMMA, PLACES };

#define STRIDE (GROUP_SIZE * NUM_GROUPS)

// Entries of the steps number 0 to `count` - 1 of the ring, loaded before any is needed.
inline void load_steps(const int count, __global const double *d_z, const long stride, double *z) {
#pragma unroll
  for (int j = 0; j < CG_STEPS - 1; ++j) z[j] = j < count ? d_z[j * stride] : 0.0;
}

// Takes these steps: p = z + beta p, x += alpha p.
inline void take_steps(const int count, __local const double *s_steps, const double *z, double *p, double *x) {
#pragma unroll
  for (int j = 0; j < CG_STEPS - 1; ++j)
    if (j < count) {
      *p = z[j] + s_steps[PLACES * j + BETA] * *p;
      *x += s_steps[PLACES * j + ALPHA] * *p;
    }
}

inline void copy_steps(__global const double *d_steps, __local double *s_steps) {
  for (int i = (int)get_local_id(0); i < PLACES * CG_STEPS; i += GROUP_SIZE) s_steps[i] = d_steps[i];
}

// Step number `turn` of the ring: s = w + beta s, z_next = z - alpha M s, the sums of the next iteration, and where `last` the steps of
// the ring. Where the operator adds to what is in w (`d_dots_next` given), w and slots are prepared: scale z on prescribed
// entries, else zero. z . w stands in slots (`d_dots`) or with the sums. Backwards: what the operator wrote last may be in a cache,
// and what is written here last is what it reads first. An item loads all that it needs of `lanes` entries, computes, and stores:
// loads do not pass stores, and few of them under way at a time do not fill the memory's bus.
inline void cg_pass(const int last, const int n, const int turn, const long stride, __global const double *d_before,
                    __global double *d_after, __global double *d_steps, __global const double *d_dots,
                    __global double *d_dots_next, __global const double *d_d, __global const uchar *d_prescribed,
                    __global const double *d_scale, __global double *d_w, __global double *d_s, __global double *d_ring,
                    __global double *d_p, __global double *d_x, __local double *s_sums, __local double *s_steps) {
  const int item = (int)get_local_id(0), group = (int)get_group_id(0), lanes = last ? 1 : LANES;
  double sums[4] = {0, 0, 0, 0};
  for (int i = item; i < NUM_GROUPS; i += GROUP_SIZE) {
    sums[0] += d_before[i];
    if (!d_dots) sums[1] += d_before[3 * NUM_GROUPS + i];
  }
  for (int i = item; d_dots && i < DOT_SLOTS; i += GROUP_SIZE) sums[1] += d_dots[i];
  if (last) copy_steps(d_steps, s_steps);
  group_sums(sums, 2, s_sums);
  __global const double *d_step = d_steps + PLACES * ((turn + CG_STEPS - 1) % CG_STEPS);
  const double gamma = sums[0], beta = ratio(gamma, d_step[GAMMA]);
  const double pq = sums[1] - ratio(beta * gamma, d_step[ALPHA]), alpha = ratio(gamma, pq);
  const double scale = d_prescribed ? d_scale[0] : 0.0;
  __global const double *d_z = d_ring + turn * stride;
  __global double *d_z_next = d_ring + (turn + 1) % CG_STEPS * stride;
  for (int k = 0; k < 4; ++k) sums[k] = 0;
  for (int first = n - 1 - (int)get_global_id(0); first >= 0; first -= lanes * STRIDE) {
    double z[LANES], w[LANES], s[LANES], d[LANES], p[LANES], x[LANES], older[LANES][CG_STEPS - 1];
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) {
      const int i = first < lane * STRIDE ? first : first - lane * STRIDE;
      z[lane] = d_z[i];
      w[lane] = d_w[i];
      s[lane] = d_s[i];
      d[lane] = d_d ? d_d[i] : 1.0;
      if (last) {
        p[lane] = d_p[i];
        x[lane] = d_x[i];
        load_steps(CG_STEPS - 1, d_ring + i, stride, older[lane]);
      }
    }
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) {
      const int i = first - lane * STRIDE;
      const double a_p = w[lane] + beta * s[lane], z_next = z[lane] - alpha * d[lane] * a_p, r = d_d ? z_next / d[lane] : z_next;
      if (i >= 0) {
        d_s[i] = a_p;
        d_z_next[i] = z_next;
        sums[0] += r * z_next;
        sums[1] += z_next * z_next;
        sums[2] += r * r;
        if (d_dots_next) {
          const double prepared = d_prescribed && d_prescribed[i] ? scale * z_next : 0.0;
          d_w[i] = prepared;
          sums[3] += prepared * z_next;
        }
        if (last) {
          take_steps(CG_STEPS - 1, s_steps, older[lane], &p[lane], &x[lane]);
          d_p[i] = p[lane] = z[lane] + beta * p[lane];
          d_x[i] = x[lane] + alpha * p[lane];
        }
      }
    }
  }
  group_sums(sums, 4, s_sums);
  if (item == 0) {
    for (int k = 0; k < 3; ++k) d_after[k * NUM_GROUPS + group] = sums[k];
    for (int i = group; d_dots_next && i < DOT_SLOTS; i += NUM_GROUPS) d_dots_next[i] = i < NUM_GROUPS ? sums[3] : 0.0;
  }
  if (get_global_id(0) == 0) {
    d_after[4 * NUM_GROUPS] = pq;
    d_steps[PLACES * turn + ALPHA] = alpha;
    d_steps[PLACES * turn + BETA] = beta;
    d_steps[PLACES * turn + GAMMA] = gamma;
  }
}

// A step that leaves x and p alone.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_update(const int n, const int turn, const long stride, __global const double *d_before, __global double *d_after,
               __global double *d_steps, __global const double *d_dots, __global double *d_dots_next, __global const double *d_d,
               __global const uchar *d_prescribed, __global const double *d_scale, __global double *d_w, __global double *d_s,
               __global double *d_ring) {
  __local double s_sums[4 * GROUP_SIZE];
  cg_pass(0, n, turn, stride, d_before, d_after, d_steps, d_dots, d_dots_next, d_d, d_prescribed, d_scale, d_w, d_s, d_ring, 0, 0,
          s_sums, 0);
}

// The last step of the ring, which takes the others along: a kernel of its own, as it needs more registers.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_update_all(const int n, const int turn, const long stride, __global const double *d_before, __global double *d_after,
                   __global double *d_steps, __global const double *d_dots, __global double *d_dots_next,
                   __global const double *d_d, __global const uchar *d_prescribed, __global const double *d_scale,
                   __global double *d_w, __global double *d_s, __global double *d_ring, __global double *d_p,
                   __global double *d_x) {
  __local double s_sums[4 * GROUP_SIZE], s_steps[PLACES * CG_STEPS];
  cg_pass(1, n, turn, stride, d_before, d_after, d_steps, d_dots, d_dots_next, d_d, d_prescribed, d_scale, d_w, d_s, d_ring, d_p,
          d_x, s_sums, s_steps);
}

// x after the first `count` steps of the ring.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_finish(const int n, const int count, const long stride, __global const double *d_steps, __global const double *d_ring,
               __global const double *d_p, __global double *d_x) {
  __local double s_steps[PLACES * CG_STEPS];
  copy_steps(d_steps, s_steps);
  barrier(CLK_LOCAL_MEM_FENCE);
  FOR_EACH(i, n) {
    double p = d_p[i], x = d_x[i], z[CG_STEPS - 1];
    load_steps(count, d_ring + i, stride, z);
    take_steps(count, s_steps, z, &p, &x);
    d_x[i] = x;
  }
}
