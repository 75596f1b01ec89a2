// Kernels between vectors. T-vectors are OWNED, double but for levels of multigrid; L- and E-vectors are scalar.

// E -> L in fixed order: L[node + c] += sum over the node's entries of E[entry + c]; of a node ~n the prescribed components are
// left alone
__kernel void gather_sum(const int num_nodes, const int num_comp, __global const int *d_nodes, __global const int *d_starts,
                         __global const int *d_entries, __global const uchar *d_prescribed, __global const scalar *d_e,
                         __global scalar *d_l, const int adds) {
  const int i = (int)get_global_id(0);
  if (i >= num_nodes * num_comp) return;
  const int node = i / num_comp, c = i - node * num_comp;
  if (IS_PRESCRIBED(d_nodes[node], c)) return;
  accum sum = 0;
  for (int k = d_starts[node]; k < d_starts[node + 1]; ++k) sum += d_e[(size_t)d_entries[k] + c];
  __global scalar *out = d_l + NODE(d_nodes[node]) + c;
  *out = (adds ? *out : 0) + (scalar)sum;
}

// y = s x on prescribed rows, zero elsewhere, from the first row on: what an action is added to where a T-vector is an L-vector; a
// null mask: none is
__kernel void prepare_action(const int first, const int n, __global const uchar *d_prescribed, __global const double *d_s,
                             __global const OWNED *d_x, __global OWNED *d_y) {
  const int i = first + (int)get_global_id(0);
  if (i < n) d_y[i] = (OWNED)(d_prescribed && d_prescribed[i] ? d_s[0] * d_x[i] : 0.0);
}

// L[rows[i]] = values[i]: the boundary values in a state
__kernel void set_rows(const int n, __global const int *d_rows, __global const double *d_values, __global scalar *d_l) {
  const int i = (int)get_global_id(0);
  if (i < n) d_l[d_rows[i]] = (scalar)d_values[i];
}

// out[rows[i]] = s (in[rows[i]] - shift values[i]): the boundary rows of a residual (shift 1) or an action (shift 0)
__kernel void boundary_rows(const int n, __global const int *d_rows, __global const double *d_values, const double shift,
                            __global const double *d_s, __global const OWNED *d_in, __global OWNED *d_out) {
  const int i = (int)get_global_id(0);
  if (i >= n) return;
  const int row = d_rows[i];
  d_out[row] = (OWNED)(d_s[0] * (shift == 0.0 ? d_in[row] : d_in[row] - d_values[i]));
}

// out[rows[i]] = s: the boundary rows of a diagonal
__kernel void fill_rows(const int n, __global const int *d_rows, __global const double *d_s, __global OWNED *d_out) {
  const int i = (int)get_global_id(0);
  if (i < n) d_out[d_rows[i]] = (OWNED)d_s[0];
}

// Boundary rows and columns of what stands beside the diagonal: row r of `out` has the entry that is `shift` columns further, in
// turns, in its block of `size` rows
__kernel void clear_beside(const int n, __global const int *d_rows, const int size, const int shift, __global OWNED *d_out) {
  const int i = (int)get_global_id(0);
  if (i >= n) return;
  const int column = d_rows[i], first = column - column % size;
  d_out[column] = 0;
  d_out[first + (column - first + size - shift) % size] = 0;
}

// What each item has of the sums of all entries, and of their absolute values
__kernel void totals(const int n, __global const OWNED *d_t, __global double *d_sums) {
  const int items = (int)get_global_size(0), item = (int)get_global_id(0);
  double sum = 0, size = 0;
  for (int i = item; i < n; i += items) {
    sum += d_t[i];
    size += fabs((double)d_t[i]);
  }
  d_sums[item] = sum;
  d_sums[items + item] = size;
}

// T[rows[i]] moves to values[i], or so far that a fraction of the way leads there
__kernel void insert_rows(const int n, __global const int *d_rows, __global const double *d_values, const double fraction,
                          __global double *d_t) {
  const int i = (int)get_global_id(0);
  if (i >= n) return;
  const int row = d_rows[i];
  d_t[row] = fraction == 1.0 ? d_values[i] : d_t[row] + (d_values[i] - d_t[row]) / fraction;
}

// rate[rows[i]] += shift (values[i] - state[rows[i]]): the rate of the boundary values in place of the state's
__kernel void rate_rows(const int n, __global const int *d_rows, __global const double *d_values, const double shift,
                        __global const double *d_state, __global double *d_rate) {
  const int i = (int)get_global_id(0);
  if (i < n) d_rate[d_rows[i]] += shift * (d_values[i] - d_state[d_rows[i]]);
}

// packed[i] = L[map[i]], and the way back; a T-vector is an L-vector packed by the map of its owned dofs
__kernel void pack(const int n, __global const int *d_map, __global const scalar *d_l, __global OWNED *d_packed) {
  const int i = (int)get_global_id(0);
  if (i < n) d_packed[i] = (OWNED)d_l[d_map[i]];
}

__kernel void unpack(const int n, __global const int *d_map, __global const OWNED *d_packed, __global scalar *d_l) {
  const int i = (int)get_global_id(0);
  if (i < n) d_l[d_map[i]] = (scalar)d_packed[i];
}

// L[rows[i]] += sum of packed[entries[starts[i]..starts[i+1]]]: contributions of other ranks in fixed order
__kernel void unpack_add(const int n, __global const int *d_rows, __global const int *d_starts, __global const int *d_entries,
                         __global const double *d_packed, __global scalar *d_l) {
  const int i = (int)get_global_id(0);
  if (i >= n) return;
  double sum = d_l[d_rows[i]];
  for (int k = d_starts[i]; k < d_starts[i + 1]; ++k) sum += d_packed[d_entries[k]];
  d_l[d_rows[i]] = (scalar)sum;
}
