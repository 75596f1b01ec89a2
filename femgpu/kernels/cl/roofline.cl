// What a device does at most: multiply-adds in registers, by items and by matrix instructions, and sums in global memory.
#define R(x) ((REAL)(x))

// STEPS rounds of 8 VECTORS independent chains of multiply-adds, so often; numbers stay below 1.
__kernel void multiply_add(const int rounds, __global REAL *d_out) {
  const REAL a = R(0.5), b = R(0.25);
  REAL8 x[VECTORS];
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) x[i] = (REAL8)(R(1) / (R(1 + i) + (REAL)get_local_id(0)));
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < VECTORS; ++i) x[i] = x[i] * a + b;
    }
  }
  REAL8 sum = x[0];
#pragma unroll
  for (int i = 1; i < VECTORS; ++i) sum += x[i];
  d_out[get_global_id(0)] = sum.s0 + sum.s1 + sum.s2 + sum.s3 + sum.s4 + sum.s5 + sum.s6 + sum.s7;
}

#ifdef MMA
#if MMA == 16
#define MULTIPLY(c)                                                                                                      \
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %4}, {%5}, {%0, %1, %2, %3};" \
               : "+d"(c.x), "+d"(c.y), "+d"(c.z), "+d"(c.w)                                                              \
               : "d"(a), "d"(b))
#else
#define MULTIPLY(c)                                                                                    \
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" \
               : "+d"(c.x), "+d"(c.y)                                                                  \
               : "d"(a), "d"(b))
#endif
// STEPS rounds of 8 independent products of MMA x 4 and 4 x 8 matrices, so often; 32 items hold a matrix.
__kernel void matrix_multiply_add(const int rounds, __global double *d_out) {
  const double a = 0.5 / (1 + get_local_id(0)), b = 0.25;
  double4 sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = (double4)(i);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < 8; ++i) MULTIPLY(sums[i]);
    }
  }
  double4 sum = 0;
  for (int i = 0; i < 8; ++i) sum += sums[i];
  d_out[get_global_id(0)] = sum.x + sum.y + sum.z + sum.w;
}
#endif

#ifdef ATOMIC
// Each item adds ADDS times to some of so many numbers, its neighbours to those beside.
__kernel void add_atomically(const int count, __global double *d_out) {
  for (int i = 0; i < ADDS; ++i) atomic_add_scalar(d_out + (get_global_id(0) + i * get_global_size(0)) % count, 1.0);
}
#endif
