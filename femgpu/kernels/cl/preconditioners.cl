// Preconditioners that are a diagonal, or blocks on it.

// d = 1 / d, zero of zero; then |d| and 1 in place of zero where they are asked for.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void invert_diagonal(const int n, const int absolute, const int fix_zeros, __global real *d_d) {
  FOR_EACH(i, n) {
    const double d = ratio(1.0, d_d[i]), value = absolute ? fabs(d) : d;
    d_d[i] = (real)(fix_zeros && value == 0.0 ? 1.0 : value);
  }
}

// z = B r, blocks of `size` rows one after the other, column by column.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void block_multiply(const int n, const int size, __global const real *d_blocks, __global const real *d_r,
                    __global real *d_z) {
  FOR_EACH(i, n) {
    const int row = i % size;
    double sum = 0;
    for (int c = i - row; c < i - row + size; ++c) sum += d_blocks[(size_t)c * size + row] * d_r[c];
    d_z[i] = (real)sum;
  }
}
