// Types and atomics. REAL, SCALAR and ACCUM are set by the plan: arithmetic, storage of vectors, sums over points.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef REAL real;
typedef SCALAR scalar;
typedef ACCUM accum;
#define R(x) ((real)(x))

#ifdef UNROLLED
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

// Where entry (cell, i) of an array with n entries per cell stands.
#ifdef CELL_FASTEST
#define ENTRY(cell, i, n) ((size_t)(i) * (size_t)num_cells + (size_t)(cell))
#else
#define ENTRY(cell, i, n) ((size_t)(cell) * (n) + (i))
#endif
// Where component c of basis function b stands in an E-vector: field after field, the first row of which is given.
#define E_ENTRY(cell, b, c, first_row, num_basis, num_comp) \
  ((size_t)num_cells * (first_row) + ENTRY(cell, b, num_basis) * (num_comp) + (c))
// Where stored number i of a point stands.
#define STATE(cell, q, i) ENTRY(cell, (q) * NUM_STATE + (i), NUM_QPTS * NUM_STATE)

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
