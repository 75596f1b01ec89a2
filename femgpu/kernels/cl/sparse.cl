// Products with a sparse matrix, rows one after the other. Vectors may be in other precisions than the values.

// y = the diagonal of A, or of its blocks of `size` rows what stands `shift` columns further, in turns; zero where a row has no such
// entry.
__kernel void diagonal_of(const int num_rows, __global const int *d_starts, __global const int *d_columns,
                          __global const VALUE *d_values, __global TARGET *d_y, const int size, const int shift) {
  const int row = get_global_id(0), column = row - row % size + (row + shift) % size;
  if (row >= num_rows) return;
  VALUE found = 0;
  for (int i = d_starts[row]; i < d_starts[row + 1]; ++i)
    if (d_columns[i] == column) found = d_values[i];
  d_y[row] = (TARGET)found;
}

// y = A x, or y += A x; `lanes` items share a row, a power of 2: more than one where SHARED is.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void multiply_sparse(const int num_rows, __global const int *d_starts, __global const int *d_columns,
                     __global const VALUE *d_values, __global const SOURCE *d_x, __global TARGET *d_y, const int lanes,
                     const int add) {
#ifdef SHARED
  const int item = get_local_id(0), lane = item & (lanes - 1), row = (uint)get_global_id(0) / (uint)lanes;
#else
  const int lane = 0, row = get_global_id(0);
#endif
  VALUE sum = 0;
  if (row < num_rows) {
    for (int i = d_starts[row] + lane; i < d_starts[row + 1]; i += lanes) sum += d_values[i] * (VALUE)d_x[d_columns[i]];
  }
#ifdef SHARED
  __local VALUE s_sums[GROUP_SIZE];
  s_sums[item] = sum;
  for (int step = lanes / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) s_sums[item] += s_sums[item + step];
  }
  sum = s_sums[item];
#endif
  // Of what is added most rows have nothing.
  if (lane == 0 && row < num_rows && !(add && sum == 0)) d_y[row] = (TARGET)(add ? d_y[row] + sum : sum);
}
