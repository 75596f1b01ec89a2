// What an action with slots adds to its result is scaled by the quotient of the two numbers behind them.
inline double dot_scale(__global const double *d_slots) {
  const double divisor = d_slots[DOT_SLOTS + 1];
  return divisor == 0.0 ? 0.0 : d_slots[DOT_SLOTS] / divisor;
}

// Adds an item's share of a sum to one of its slots; on NVIDIA the 32 items of a warp add up theirs first, if none has left.
inline void add_dot(__global double *d_slots, double share) {
  const int item = (int)get_global_id(0);
#ifdef ATOMIC_PTX64
  uint active;
  asm volatile("activemask.b32 %0;" : "=r"(active));
  if (active == 0xffffffffu) {
    for (int step = 16; step > 0; step /= 2) {
      double other;
      asm volatile("{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %1; shfl.sync.bfly.b32 lo, lo, %2, 31, 0xffffffff; "
                   "shfl.sync.bfly.b32 hi, hi, %2, 31, 0xffffffff; mov.b64 %0, {lo, hi}; }"
                   : "=d"(other) : "d"(share), "r"(step));
      share += other;
    }
    if (item % 32) return;
  }
#endif
  atomic_add_scalar(d_slots + item / 32 % DOT_SLOTS, share);
}
