// A basis of vectors of n numbers, one after the other in one buffer: the sums and combinations of Gram and Schmidt.

#define CHUNK 8

// Row j of the partial sums: w . v_j for `count` vectors from `first` on. w is read once for CHUNK vectors, and as many rows are
// written at a time.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void multi_dot(const int n, const int first, const int count, __global const real *d_basis, __global const real *d_w,
               __global double *d_parts) {
  __local double s_sums[CHUNK * GROUP_SIZE];
  for (int start = 0; start < count; start += CHUNK) {
    const int size = min(CHUNK, count - start);
    __global const real *d_v = d_basis + (size_t)(first + start) * n;
    double sums[CHUNK];
    for (int c = 0; c < CHUNK; ++c) sums[c] = 0;
    FOR_EACH(i, n) {
      const double w = d_w[i];
#pragma unroll
      for (int c = 0; c < CHUNK; ++c)
        if (c < size) sums[c] += w * d_v[(size_t)c * n + i];
    }
    // The rows after the last one have room.
    write_parts(d_parts, start, CHUNK, sums, s_sums);
  }
}

// The sums of `count` rows of partial sums, a group for each.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void add_parts(const int n, const int count, __global const double *d_parts, __global double *d_sums) {
  __local double s_sums[GROUP_SIZE];
  for (int row = (int)get_group_id(0); row < count; row += NUM_GROUPS) {
    const double sum = total(d_parts, row, s_sums);
    if (get_local_id(0) == 0) d_sums[row] = sum;
  }
}

// w += sign sum_j c_j v_j and w . w afterwards. The coefficients go into, or where `add` are added to, a column's entries
// from `first` on; d_parts and d_column may be missing.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void multi_axpy(const int n, const int first, const int count, __global const real *d_basis, __global const double *d_c,
                const double sign, __global real *d_w, __global double *d_parts, __global double *d_column, const int add) {
  __local double s_sums[GROUP_SIZE];
  __global const real *d_v = d_basis + (size_t)first * n;
  double norm = 0;
  FOR_EACH(i, n) {
    double sum = 0;
    for (int j = 0; j < count; ++j) sum += d_c[j] * d_v[(size_t)j * n + i];
    const double w = d_w[i] + sign * sum;
    d_w[i] = (real)w;
    norm += w * w;
  }
  norm = group_sum(norm, s_sums);
  if (d_parts && get_local_id(0) == 0) d_parts[get_group_id(0)] = norm;
  if (d_column && get_group_id(0) == 0)
    for (int j = (int)get_local_id(0); j < count; j += GROUP_SIZE) d_column[first + j] = (add ? d_column[first + j] : 0.0) + d_c[j];
}

// v_k = p = w / |w| with the sum w . w given, which becomes entry k of a column.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void next_vector(const int n, const int k, __global const double *d_parts, __global const real *d_w, __global real *d_basis,
                 __global real *d_p, __global double *d_column) {
  __local double s_sums[GROUP_SIZE];
  const double square = total(d_parts, 0, s_sums), factor = ratio(1.0, sqrt(square));
  __global real *d_v = d_basis + (size_t)k * n;
  FOR_EACH(i, n) d_v[i] = d_p[i] = (real)(factor * d_w[i]);
  if (get_global_id(0) == 0) d_column[k] = square;
}

// v_k = z
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void keep_vector(const int n, const int k, __global const real *d_z, __global real *d_basis) {
  FOR_EACH(i, n) d_basis[(size_t)k * n + i] = d_z[i];
}
