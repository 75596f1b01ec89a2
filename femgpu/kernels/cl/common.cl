// Types and atomics. REAL, SCALAR and ACCUM are set by the plan: arithmetic, storage of vectors, sums over points.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef REAL real;
typedef SCALAR scalar;
typedef ACCUM accum;
#define R(x) ((real)(x))

#ifdef UNROLLED
#define UNROLL _Pragma("unroll")
#elif defined(ROLLED)
#define UNROLL _Pragma("unroll 1")
#else
#define UNROLL
#endif

// Where word i of a cell stands in an array: AT_<array>(cell, i), defined above for every array.

// An offset ~o marks a node at o some of whose components are prescribed: d_prescribed[o + c] says which. Fields of one component
// need no such array.
#define NODE(mark) ((mark) < 0 ? ~(mark) : (mark))
#define IS_PRESCRIBED(mark, c) ((mark) < 0 && d_prescribed[~(mark) + (c)])

#if defined(ATOMIC_PTX64)
inline void atomic_add_scalar(__global scalar *p, scalar x) {
  asm volatile("red.global.add.f64 [%0], %1;" ::"l"(p), "d"(x) : "memory");
}
#elif defined(ATOMIC_PTX32)
inline void atomic_add_scalar(__global scalar *p, scalar x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(x) : "memory");
}
#elif defined(ATOMIC_CAS64)
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
inline void atomic_add_scalar(__global scalar *p, scalar x) {
  union { scalar value; ulong bits; } seen, next;
  do {
    seen.value = *(volatile __global scalar *)p;
    next.value = seen.value + x;
  } while (atom_cmpxchg((volatile __global ulong *)p, seen.bits, next.bits) != seen.bits);
}
#elif defined(ATOMIC_CAS32)
inline void atomic_add_scalar(__global scalar *p, scalar x) {
  union { scalar value; uint bits; } seen, next;
  do {
    seen.value = *(volatile __global scalar *)p;
    next.value = seen.value + x;
  } while (atomic_cmpxchg((volatile __global uint *)p, seen.bits, next.bits) != seen.bits);
}
#endif

#ifdef DOT_SLOTS
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
#endif
