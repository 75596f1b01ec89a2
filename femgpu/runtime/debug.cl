// What `checks.py` puts before a program: kernels have the argument d_debug, 64-bit words. The first fault: 0 none, else its kind;
// argument, index. Then of each argument bytes, bytes of an entry, and whether its entries are floating-point numbers.
#pragma OPENCL EXTENSION cl_khr_global_int32_base_atomics : enable
enum { FAULT_READ = 1, FAULT_WRITE, FAULT_UNWRITTEN, FAULT_ARGUMENTS, FAULT_WORDS = 3 };

// The index, 0 where it is outside of an argument; `past` entries behind the last one are allowed.
inline long debug_index(__global long *d_debug, const int argument, const long index, __global const uint *words, const int kind, const int past) {
  __global const long *about = d_debug + FAULT_ARGUMENTS - 1 + FAULT_WORDS * argument;
  const long size = about[1];
  int fault = 0;
  if (index < 0 || (index + 1 - past) * size > about[0])
    fault = kind;
  else if (about[2] && kind == FAULT_READ && !past) {
    // Every bit is set in what nobody has written.
    fault = FAULT_UNWRITTEN;
    for (long k = index * size / 4; k < (index + 1) * size / 4; ++k)
      if (words[k] != 0xffffffffu) fault = 0;
  }
  if (!fault) return index;
  if (atomic_cmpxchg((volatile __global int *)d_debug, 0, fault) == 0) {
    d_debug[1] = argument;
    d_debug[2] = index;
  }
  return fault == FAULT_UNWRITTEN ? index : 0;
}

#define INSIDE(name, index, kind, past) debug_index(d_debug, p_##name, (long)(index), (__global const uint *)name, kind, past)
#define READ_AT(name, index) INSIDE(name, index, FAULT_READ, 0)
#define WRITE_AT(name, index) INSIDE(name, index, FAULT_WRITE, 0)
// Where a row of entries begins, which may be empty.
#define BEGIN_AT(name, index) INSIDE(name, index, FAULT_WRITE, 1)

// NaN in either precision, and not what a number that was never written is.
#define POISON_BYTES(name, bytes) \
  for (int debug_word = (int)get_local_id(0); debug_word < (int)((bytes) / 4); debug_word += get_local_size(0)) \
    ((__local uint *)name)[debug_word] = 0x7ffdfefeu;
#define POISON_LOCAL(name) POISON_BYTES(name, sizeof(name))
#define POISON_ARGUMENT(name, argument) POISON_BYTES(name, d_debug[FAULT_ARGUMENTS - 1 + FAULT_WORDS * argument])
