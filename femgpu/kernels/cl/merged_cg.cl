// Conjugate gradients with a diagonal M in one pass per step, after Chronopoulos and Gear (1989, J. Comput. Appl. Math. 25, 153-168):
// A is applied to z = M r, w = A z, and s = A p follows by the recurrence of p, so that alpha and beta are known before the pass.
// x and p are not needed for that. They take CG_STEPS steps at a time from the last z, which stand in a ring.
// An operator that adds gets s over theta, the product of all beta, as the vector to add w over theta to (`dots.cl`): the sum is the
// next s, and no w is prepared, written or read. A step then moves three words per entry, and (CG_STEPS + 4) / CG_STEPS more.
// Sums of an iteration: 0 to 2 r . z, z . z, r . r; 3 z . w; 4 p . A p of the step before.

// Places of a step in `d_steps`.
enum { ALPHA, BETA, GAMMA, PLACES };
// Places behind the slots of `d_dots`: theta is the second number over the first.
enum { DOT_BASE = DOT_SLOTS, DOT_GAMMA };

#define STRIDE (GROUP_SIZE * NUM_GROUPS)

// Two entries that stand beside each other from an even place on, or the last one of an odd number (`whole` is 0).
inline double2 load(__global const double *d, const int i, const int whole) {
  return whole ? *(__global const double2 *)(d + i) : (double2)(d[i], 0);
}

inline void store(__global double *d, const int i, const int whole, const double2 value) {
  if (whole)
    *(__global double2 *)(d + i) = value;
  else
    d[i] = value.x;
}

// The steps of the ring but the last, which a launch that takes them all is about to make.
inline void copy_steps(__global const double *d_steps, __local double *s_steps) {
  for (int i = (int)get_local_id(0); i < PLACES * (CG_STEPS - 1); i += GROUP_SIZE) s_steps[i] = d_steps[i];
}

// Entries of the steps number 0 to `count` - 1 of the ring, loaded before any is needed.
inline void load_steps(const int count, __global const double *d_z, const long stride, const int i, const int whole, double2 *z) {
#pragma unroll
  for (int j = 0; j < CG_STEPS - 1; ++j) z[j] = j < count ? load(d_z + j * stride, i, whole) : (double2)(0);
}

// Takes these steps: p = z + beta p, x += alpha p.
inline void take_steps(const int count, __local const double *s_steps, const double2 *z, double2 *p, double2 *x) {
#pragma unroll
  for (int j = 0; j < CG_STEPS - 1; ++j)
    if (j < count) {
      *p = z[j] + s_steps[PLACES * j + BETA] * *p;
      *x += s_steps[PLACES * j + ALPHA] * *p;
    }
}

// A step by its numbers and vectors; `prescribed`, `d` (the diagonal) and `w` may be missing, `p` and `x` are where `last`. What
// stands in s is over `theta` where there is no w.
typedef struct {
  double alpha, beta, theta, scale;
  long stride;
  int last;
  __global const double *ring, *z, *d, *w;
  __global const uchar *prescribed;
  __global double *z_next, *s, *p, *x;
  __local const double *steps;
} Step;

// Takes a step at entry i and the next, and at lanes - 1 further pairs below i, where these are: loads all that it needs, computes,
// and stores. Loads do not pass stores, and few of them under way at a time do not fill the memory's bus.
inline void take_step(const Step step, const int i, const int lanes, const int whole, double *sums) {
  double2 z[LANES], w[LANES], s[LANES], d[LANES], p, x, older[CG_STEPS - 1];
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) {
    if (lane >= lanes) continue;
    const int place = i < 2 * lane * STRIDE ? i : i - 2 * lane * STRIDE;
    z[lane] = load(step.z, place, whole);
    s[lane] = load(step.s, place, whole);
    w[lane] = step.w ? load(step.w, place, whole) : (double2)(0);
    d[lane] = step.d ? load(step.d, place, whole) : (double2)(1);
  }
  if (step.last) {
    p = load(step.p, i, whole);
    x = load(step.x, i, whole);
    load_steps(CG_STEPS - 1, step.ring, step.stride, i, whole, older);
  }
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) {
    const int place = i - 2 * lane * STRIDE;
    if (lane >= lanes || place < 0) continue;
    double2 scales = 0;
    if (step.prescribed && !step.w) {
      if (step.prescribed[place]) scales.x = step.scale;
      if (whole && step.prescribed[place + 1]) scales.y = step.scale;
    }
    const double2 a_p = (step.w ? w[lane] + step.beta * s[lane] : step.theta * s[lane]) + scales * z[lane];
    const double2 z_next = z[lane] - step.alpha * d[lane] * a_p;
    double2 r = step.d ? z_next / d[lane] : z_next;
    if (!whole) r.y = 0;
    if (step.w || step.last)
      store(step.s, place, whole, a_p);
    else if (scales.x != 0 || scales.y != 0)
      store(step.s, place, whole, s[lane] + ratio(1.0, step.theta) * scales * z[lane]);
    store(step.z_next, place, whole, z_next);
    sums[0] += dot(r, z_next);
    sums[1] += dot(z_next, z_next);
    sums[2] += dot(r, r);
    sums[3] += dot(scales * z_next, z_next);
    if (step.last) {
      take_steps(CG_STEPS - 1, step.steps, older, &p, &x);
      p = z[lane] + step.beta * p;
      store(step.p, place, whole, p);
      store(step.x, place, whole, x + step.alpha * p);
    }
  }
}

// Step number `turn` of the ring: s = w + beta s, z_next = z - alpha M s, the sums of the next iteration, and where `last` the steps of
// the ring. Where the operator has added to s (no `d_w`), z . w stands in slots (`d_dots`) and w is scale z on prescribed entries; theta
// is then the quotient behind the slots, whose first number `last` makes anew, with s, so that neither becomes too large, and
// whose second one, r . z, comes together while this runs. The slots of the next iteration begin here (`d_dots_next`), and that
// number of those after them (`d_dots_after`). Backwards: what the operator wrote last may be in a cache, and what is written
// here last is what it reads first.
inline void cg_pass(const int last, const int n, const int turn, const long stride, __global const double *d_before,
                    __global double *d_after, __global double *d_steps, __global const double *d_dots,
                    __global double *d_dots_next, __global double *d_dots_after, __global const double *d_d,
                    __global const uchar *d_prescribed, __global const double *d_scale, __global const double *d_w,
                    __global double *d_s, __global double *d_ring, __global double *d_p, __global double *d_x,
                    __local double *s_sums, __local double *s_steps) {
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
  const double base = d_dots && d_dots[DOT_BASE] != 0 ? d_dots[DOT_BASE] : 1.0;
  const Step step = {.alpha = alpha, .beta = beta, .theta = d_dots ? d_dots[DOT_GAMMA] / base : 0.0,
                     .scale = d_prescribed ? d_scale[0] : 0.0, .stride = stride, .last = last, .ring = d_ring,
                     .z = d_ring + turn * stride, .d = d_d, .w = d_w, .prescribed = d_prescribed,
                     .z_next = d_ring + (turn + 1) % CG_STEPS * stride, .s = d_s, .p = d_p, .x = d_x, .steps = s_steps};
  for (int k = 0; k < 4; ++k) sums[k] = 0;
  if (n % 2 && get_global_id(0) == 0) take_step(step, n - 1, 1, 0, sums);
  // From a multiple of 32 pairs on, as 32 items share lines of the memory: those beyond the last pair begin a round later.
  int pair = (n / 2 + 31) / 32 * 32 - 1 - (int)get_global_id(0);
  while (pair >= n / 2) pair -= STRIDE;
  for (; pair >= 0; pair -= lanes * STRIDE) take_step(step, 2 * pair, lanes, 1, sums);
  group_sums(sums, 4, s_sums);
  if (item == 0) {
    for (int k = 0; k < 3; ++k) d_after[k * NUM_GROUPS + group] = sums[k];
    if (d_dots) {
      for (int i = group; i < DOT_SLOTS; i += NUM_GROUPS) d_dots_next[i] = i < NUM_GROUPS ? sums[3] : 0.0;
      atomic_add_scalar(d_dots_next + DOT_GAMMA, sums[0]);
    }
  }
  if (get_global_id(0) == 0) {
    d_after[4 * NUM_GROUPS] = pq;
    d_steps[PLACES * turn + ALPHA] = alpha;
    d_steps[PLACES * turn + BETA] = beta;
    d_steps[PLACES * turn + GAMMA] = gamma;
    if (d_dots) {
      d_dots_next[DOT_BASE] = last ? gamma : base;
      d_dots_after[DOT_GAMMA] = 0;
    }
  }
}

// A step that leaves x and p alone.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_update(const int n, const int turn, const long stride, __global const double *d_before, __global double *d_after,
               __global double *d_steps, __global const double *d_dots, __global double *d_dots_next,
               __global double *d_dots_after, __global const double *d_d, __global const uchar *d_prescribed,
               __global const double *d_scale, __global const double *d_w, __global double *d_s, __global double *d_ring) {
  __local double s_sums[4 * GROUP_SIZE];
  cg_pass(0, n, turn, stride, d_before, d_after, d_steps, d_dots, d_dots_next, d_dots_after, d_d, d_prescribed, d_scale, d_w, d_s,
          d_ring, 0, 0, s_sums, 0);
}

// The last step of the ring, which takes the others along: a kernel of its own, as it needs more registers.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_update_all(const int n, const int turn, const long stride, __global const double *d_before, __global double *d_after,
                   __global double *d_steps, __global const double *d_dots, __global double *d_dots_next,
                   __global double *d_dots_after, __global const double *d_d, __global const uchar *d_prescribed,
                   __global const double *d_scale, __global const double *d_w, __global double *d_s, __global double *d_ring,
                   __global double *d_p, __global double *d_x) {
  __local double s_sums[4 * GROUP_SIZE], s_steps[PLACES * (CG_STEPS - 1)];
  cg_pass(1, n, turn, stride, d_before, d_after, d_steps, d_dots, d_dots_next, d_dots_after, d_d, d_prescribed, d_scale, d_w, d_s,
          d_ring, d_p, d_x, s_sums, s_steps);
}

// x after the first `count` steps of the ring.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void cg_finish(const int n, const int count, const long stride, __global const double *d_steps, __global const double *d_ring,
               __global const double *d_p, __global double *d_x) {
  __local double s_steps[PLACES * (CG_STEPS - 1)];
  copy_steps(d_steps, s_steps);
  barrier(CLK_LOCAL_MEM_FENCE);
  // Of an odd number the last entry is a pair's first.
  FOR_EACH(pair, (n + 1) / 2) {
    const int i = 2 * pair, whole = i + 1 < n;
    double2 p = load(d_p, i, whole), x = load(d_x, i, whole), z[CG_STEPS - 1];
    load_steps(count, d_ring, stride, i, whole, z);
    take_steps(count, s_steps, z, &p, &x);
    store(d_x, i, whole, x);
  }
}
