// Products with a sparse matrix, rows one after the other. Vectors may be in other precisions than the values.

// y = A x; LANES items share a row.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void multiply_sparse(const int num_rows, __global const int *d_starts, __global const int *d_columns,
                     __global const VALUE *d_values, __global const SOURCE *d_x, __global TARGET *d_y) {
  const int item = get_local_id(0), lane = item % LANES, row = get_global_id(0) / LANES;
  VALUE sum = 0;
  if (row < num_rows) {
    for (int i = d_starts[row] + lane; i < d_starts[row + 1]; i += LANES) sum += d_values[i] * (VALUE)d_x[d_columns[i]];
  }
#if LANES > 1
  __local VALUE s_sums[GROUP_SIZE];
  s_sums[item] = sum;
  for (int step = LANES / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) s_sums[item] += s_sums[item + step];
  }
  sum = s_sums[item];
#endif
  if (lane == 0 && row < num_rows) d_y[row] = (TARGET)sum;
}
