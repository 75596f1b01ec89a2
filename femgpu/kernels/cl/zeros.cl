// A launch that zeroes the vector it adds to: its first `zeroing` work-groups write the zeros and count themselves, and no other group
// adds before all of these have. Work-groups start in the order of their numbers, so that nobody waits for what cannot start.
// d_zeros: how many groups have written zeros, in all launches; that is there many times, far apart, for many groups look at it. Behind
// these, for each group that adds, what its count was when it last added.
#define NUM_COUNTS 32
#define COUNT(i) ((i) % NUM_COUNTS * 32)
#define SEEN(group) (NUM_COUNTS * 32 + (group))
// Entries of the vector that are written at a time.
#define TOGETHER (16 / (uint)sizeof(scalar))
#if defined(ATOMIC_PTX64) || defined(ATOMIC_PTX32)
#define FENCE asm volatile("fence.acq_rel.gpu;" ::: "memory")
#define PAUSE asm volatile("nanosleep.u32 100;" ::: "memory")
#else
#define FENCE mem_fence(CLK_GLOBAL_MEM_FENCE)
#define PAUSE
#endif

inline void write_zeros(const uint zeroing, const uint num_zeros, __global scalar *d_out, __global uint *d_zeros) {
  const uint items = (uint)get_local_size(0), item = (uint)get_local_id(0), id = (uint)get_global_id(0), stop = num_zeros / TOGETHER;
  for (uint i = id; i < stop; i += zeroing * items) ((__global uint4 *)d_out)[i] = (uint4)(0);
  for (uint i = stop * TOGETHER + id; i < num_zeros; i += zeroing * items) d_out[i] = 0;
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (item < NUM_COUNTS) FENCE;
  for (uint i = item; i < NUM_COUNTS; i += items) atomic_inc(d_zeros + COUNT(i));
}

// One item of a group asks early how many groups had written, in all launches, when it last added, and how many have now. It waits late,
// most often not at all.
inline uint2 ask_zeros(const int group, volatile __global uint *d_zeros) { return (uint2)(d_zeros[SEEN(group)], d_zeros[COUNT(group)]); }

inline void await_zeros(const int group, const uint zeroing, const uint2 asked, volatile __global uint *d_zeros) {
  const uint wanted = asked.s0 + zeroing;
  d_zeros[SEEN(group)] = wanted;
  if (asked.s1 != wanted)
    while (d_zeros[COUNT(group)] != wanted) PAUSE;
}
