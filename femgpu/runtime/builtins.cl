// OpenCL C's functions of scalars, of vectors as arrows, and conversions. PoCL's own header of 0.9 MB declares those of all vectors, images and halves.

#define PLAIN __attribute__((overloadable))
#define PURE __attribute__((overloadable, const))
#define TOGETHER __attribute__((overloadable, convergent))

size_t PURE get_global_id(uint); size_t PURE get_global_size(uint); size_t PURE get_global_offset(uint);
size_t PURE get_local_id(uint); size_t PURE get_local_size(uint);
size_t PURE get_group_id(uint); size_t PURE get_num_groups(uint);
uint PURE get_work_dim(void);

void TOGETHER barrier(cl_mem_fence_flags);
void PLAIN mem_fence(cl_mem_fence_flags);
void PLAIN read_mem_fence(cl_mem_fence_flags);
void PLAIN write_mem_fence(cl_mem_fence_flags);

#define OF_ONE(T, f) T PURE f(T);
#define OF_TWO(T, f) T PURE f(T, T);
#define OF_THREE(T, f) T PURE f(T, T, T);
#define WITH_INTEGER(T, f) T PURE f(T, int);
#define ASK(T, f) int PURE f(T);
#define COMPARE(T, f) int PURE f(T, T);
#define SPLIT_TO(T, SPACE) \
  T PLAIN fract(T, SPACE T *); T PLAIN modf(T, SPACE T *); T PLAIN sincos(T, SPACE T *); \
  T PLAIN frexp(T, SPACE int *); T PLAIN lgamma_r(T, SPACE int *); T PLAIN remquo(T, T, SPACE int *);

#define REALS(T, INTEGER, NATURAL) \
  OF_ONE(T, acos) OF_ONE(T, acosh) OF_ONE(T, acospi) OF_ONE(T, asin) OF_ONE(T, asinh) OF_ONE(T, asinpi) OF_ONE(T, atan) \
  OF_ONE(T, atanh) OF_ONE(T, atanpi) OF_ONE(T, cbrt) OF_ONE(T, ceil) OF_ONE(T, cos) OF_ONE(T, cosh) OF_ONE(T, cospi) \
  OF_ONE(T, erf) OF_ONE(T, erfc) OF_ONE(T, exp) OF_ONE(T, exp2) OF_ONE(T, exp10) OF_ONE(T, expm1) OF_ONE(T, fabs) \
  OF_ONE(T, floor) OF_ONE(T, lgamma) OF_ONE(T, log) OF_ONE(T, log2) OF_ONE(T, log10) OF_ONE(T, log1p) OF_ONE(T, logb) \
  OF_ONE(T, rint) OF_ONE(T, round) OF_ONE(T, rsqrt) OF_ONE(T, sin) OF_ONE(T, sinh) OF_ONE(T, sinpi) OF_ONE(T, sqrt) \
  OF_ONE(T, tan) OF_ONE(T, tanh) OF_ONE(T, tanpi) OF_ONE(T, tgamma) OF_ONE(T, trunc) \
  OF_ONE(T, degrees) OF_ONE(T, radians) OF_ONE(T, sign) OF_ONE(T, length) OF_ONE(T, normalize) \
  OF_TWO(T, atan2) OF_TWO(T, atan2pi) OF_TWO(T, copysign) OF_TWO(T, fdim) OF_TWO(T, fmax) OF_TWO(T, fmin) OF_TWO(T, fmod) \
  OF_TWO(T, hypot) OF_TWO(T, maxmag) OF_TWO(T, minmag) OF_TWO(T, nextafter) OF_TWO(T, pow) OF_TWO(T, powr) OF_TWO(T, remainder) \
  OF_TWO(T, step) OF_TWO(T, dot) OF_TWO(T, distance) OF_TWO(T, min) OF_TWO(T, max) \
  OF_THREE(T, fma) OF_THREE(T, mad) OF_THREE(T, clamp) OF_THREE(T, mix) OF_THREE(T, smoothstep) OF_THREE(T, bitselect) \
  WITH_INTEGER(T, ldexp) WITH_INTEGER(T, pown) WITH_INTEGER(T, rootn) \
  ASK(T, ilogb) ASK(T, isfinite) ASK(T, isinf) ASK(T, isnan) ASK(T, isnormal) ASK(T, signbit) \
  COMPARE(T, isequal) COMPARE(T, isnotequal) COMPARE(T, isgreater) COMPARE(T, isgreaterequal) COMPARE(T, isless) \
  COMPARE(T, islessequal) COMPARE(T, islessgreater) COMPARE(T, isordered) COMPARE(T, isunordered) \
  T PURE nan(NATURAL); T PURE select(T, T, INTEGER); T PURE select(T, T, NATURAL); \
  SPLIT_TO(T, __global) SPLIT_TO(T, __local) SPLIT_TO(T, __private)
REALS(float, int, uint)
REALS(double, long, ulong)
#define ARROWS(T, N) T PURE dot(T##N, T##N); T PURE distance(T##N, T##N); T PURE length(T##N); T##N PURE normalize(T##N);
#define CONVERT(T, FROM, N) T##N PURE convert_##T##N(FROM##N);
CONVERT(double, float, ) CONVERT(double, float, 2) CONVERT(double, float, 4) CONVERT(double, float, 8)
CONVERT(float, double, ) CONVERT(float, double, 2) CONVERT(float, double, 4) CONVERT(float, double, 8)
CONVERT(float, uchar, ) CONVERT(float, uchar, 4) CONVERT(double, uchar, ) CONVERT(double, uchar, 2)
// Of cells side by side.
OF_ONE(float2, sqrt) OF_ONE(float4, sqrt) OF_ONE(float8, sqrt) OF_ONE(double2, sqrt) OF_ONE(double4, sqrt) OF_ONE(double8, sqrt)
ARROWS(float, 2) ARROWS(float, 3) ARROWS(float, 4)
ARROWS(double, 2) ARROWS(double, 3) ARROWS(double, 4)

OF_ONE(float, native_cos) OF_ONE(float, native_exp) OF_ONE(float, native_exp2) OF_ONE(float, native_exp10) OF_ONE(float, native_log)
OF_ONE(float, native_log2) OF_ONE(float, native_log10) OF_ONE(float, native_recip) OF_ONE(float, native_rsqrt)
OF_ONE(float, native_sin) OF_ONE(float, native_sqrt) OF_ONE(float, native_tan)
OF_TWO(float, native_divide) OF_TWO(float, native_powr)

#define INTEGERS(T, INTEGER, NATURAL) \
  NATURAL PURE abs(T); NATURAL PURE abs_diff(T, T); OF_ONE(T, clz) OF_ONE(T, popcount) OF_TWO(T, add_sat) OF_TWO(T, hadd) \
  OF_TWO(T, max) OF_TWO(T, min) OF_TWO(T, mul_hi) OF_TWO(T, rhadd) OF_TWO(T, rotate) OF_TWO(T, sub_sat) \
  OF_THREE(T, bitselect) OF_THREE(T, clamp) OF_THREE(T, mad_hi) OF_THREE(T, mad_sat) \
  T PURE select(T, T, INTEGER); T PURE select(T, T, NATURAL);
INTEGERS(char, char, uchar)
INTEGERS(uchar, char, uchar)
INTEGERS(short, short, ushort)
INTEGERS(ushort, short, ushort)
INTEGERS(int, int, uint)
INTEGERS(uint, int, uint)
INTEGERS(long, long, ulong)
INTEGERS(ulong, long, ulong)
OF_TWO(int, mul24) OF_TWO(uint, mul24) OF_THREE(int, mad24) OF_THREE(uint, mad24)

#define SUM_AT(T, prefix, SPACE) \
  T PLAIN prefix##add(volatile SPACE T *, T); T PLAIN prefix##sub(volatile SPACE T *, T); \
  T PLAIN prefix##xchg(volatile SPACE T *, T); T PLAIN prefix##min(volatile SPACE T *, T); \
  T PLAIN prefix##max(volatile SPACE T *, T); T PLAIN prefix##and(volatile SPACE T *, T); \
  T PLAIN prefix##or(volatile SPACE T *, T); T PLAIN prefix##xor(volatile SPACE T *, T); \
  T PLAIN prefix##inc(volatile SPACE T *); T PLAIN prefix##dec(volatile SPACE T *); \
  T PLAIN prefix##cmpxchg(volatile SPACE T *, T, T);
#define SUM(T, prefix) SUM_AT(T, prefix, __global) SUM_AT(T, prefix, __local)
SUM(int, atomic_)
SUM(uint, atomic_)
SUM(int, atom_)
SUM(uint, atom_)
SUM(long, atom_)
SUM(ulong, atom_)
float PLAIN atomic_xchg(volatile __global float *, float);
float PLAIN atomic_xchg(volatile __local float *, float);

int printf(__constant const char *restrict, ...) __attribute__((format(printf, 1, 2)));

#undef PLAIN
#undef PURE
#undef TOGETHER
#undef OF_ONE
#undef OF_TWO
#undef OF_THREE
#undef WITH_INTEGER
#undef ASK
#undef COMPARE
#undef SPLIT_TO
#undef REALS
#undef ARROWS
#undef CONVERT
#undef INTEGERS
#undef SUM_AT
#undef SUM
