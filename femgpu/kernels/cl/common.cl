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
inline void atomic_add_scalar(__global double *p, double x) {
  asm volatile("red.global.add.f64 [%0], %1;" ::"l"(p), "d"(x) : "memory");
}
#elif defined(ATOMIC_PTX32)
inline void atomic_add_scalar(__global scalar *p, scalar x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(x) : "memory");
}
#elif defined(ATOMIC_CAS64)
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
inline void atomic_add_scalar(__global double *p, double x) {
  union { double value; ulong bits; } seen, next;
  do {
    seen.value = *(volatile __global double *)p;
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
