// Sums over vectors of n numbers (`real`) in NUM_GROUPS groups of GROUP_SIZE items.
// A sum over a vector is NUM_GROUPS partial sums in a buffer; whoever needs it adds them, each group for itself and all in the same
// order: no launch is spent on it, every group has the same number, and it is the same in every run.

#define FOR_EACH(i, n) for (int i = (int)get_global_id(0); i < (n); i += GROUP_SIZE * NUM_GROUPS)

// Items that take the first part of a group's sum: more would wait at more barriers.
#define SUMMING (GROUP_SIZE < 32 ? GROUP_SIZE : 32)

// Sums of `rows` numbers over the items of a group, the same for all of them. PoCL 3.1 needs
// items that go round as often as each other.
inline void group_sums(double *values, const int rows, __local double *s_sums) {
  const int item = (int)get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = 0; k < rows; ++k) s_sums[k * GROUP_SIZE + item] = values[k];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int first = 0; first < rows * SUMMING; first += GROUP_SIZE) {
    const int row = (first + item) / SUMMING, column = (first + item) % SUMMING;
    if (row < rows) {
      double sum = 0;
      for (int i = column; i < GROUP_SIZE; i += SUMMING) sum += s_sums[row * GROUP_SIZE + i];
      s_sums[row * GROUP_SIZE + column] = sum;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int first = 0; first < rows; first += GROUP_SIZE)
    if (first + item < rows) {
      double sum = 0;
      for (int i = 0; i < SUMMING; ++i) sum += s_sums[(first + item) * GROUP_SIZE + i];
      s_sums[(first + item) * GROUP_SIZE] = sum;
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = 0; k < rows; ++k) values[k] = s_sums[k * GROUP_SIZE];
}

// `rows` sums of a buffer of partial sums, the first of which is number `first`.
inline void read_totals(__global const double *d_parts, const int first, const int rows, double *values, __local double *s_sums) {
  for (int k = 0; k < rows; ++k) {
    values[k] = 0;
    for (int i = (int)get_local_id(0); i < NUM_GROUPS; i += GROUP_SIZE) values[k] += d_parts[(first + k) * NUM_GROUPS + i];
  }
  group_sums(values, rows, s_sums);
}

inline void write_parts(__global double *d_parts, const int first, const int rows, double *values, __local double *s_sums) {
  group_sums(values, rows, s_sums);
  if (get_local_id(0) == 0)
    for (int k = 0; k < rows; ++k) d_parts[(first + k) * NUM_GROUPS + (int)get_group_id(0)] = values[k];
}

inline double group_sum(double value, __local double *s_sums) {
  group_sums(&value, 1, s_sums);
  return value;
}

inline double total(__global const double *d_parts, const int which, __local double *s_sums) {
  double sum;
  read_totals(d_parts, which, 1, &sum, s_sums);
  return sum;
}

inline void write_part(__global double *d_parts, const int which, double value, __local double *s_sums) {
  write_parts(d_parts, which, 1, &value, s_sums);
}

// A number divided by zero counts as zero: past the exact solution nothing moves any more.
inline double ratio(const double a, const double b) { return b == 0.0 ? 0.0 : a / b; }
