// Set-up of `interpolate.cl`: where the nodes of cells stand in vectors, and which cell gives each of them its value. All kernels go
// through `count` pairs of a cell and a place; d_nodes has `width` nodes for each cell, of which d_order takes `places`.

inline int node_at(const int i, const int places, const int width, __global const int *d_order, __global const int *d_nodes) {
  return d_nodes[(size_t)(i / places) * width + d_order[i % places]];
}

// Of all pairs that have a node the first one takes it: d_claims is 2^31 - 1 less the number of that, `first` + i.
__kernel void claim(const int count, const int places, const int width, __global const int *d_order, __global const int *d_nodes,
                    const int first, __global int *d_claims) {
  const int i = (int)get_global_id(0);
  if (i < count) atomic_max(d_claims + node_at(i, places, width, d_order, d_nodes), INT_MAX - (first + i));
}

// What d_codes says of the nodes; with d_claims INT_MIN where another pair has taken a node.
__kernel void take_codes(const int count, const int places, const int width, __global const int *d_order,
                         __global const int *d_nodes, const int first, __global const int *d_claims, __global const int *d_codes,
                         __global int *d_found) {
  const int i = (int)get_global_id(0);
  if (i >= count) return;
  const int node = node_at(i, places, width, d_order, d_nodes);
  d_found[i] = d_claims && d_claims[node] != INT_MAX - (first + i) ? INT_MIN : d_codes[node];
}

// Marks the coarse dofs whose functions do not vanish at marked fine ones; d_table: (places, coarse_places) which functions do not
// vanish at which node. All that write write the same.
__kernel void reach(const int count, const int places, const int width, __global const int *d_order, __global const int *d_nodes,
                    const int coarse_places, const int coarse_width, __global const int *d_coarse_order,
                    __global const int *d_coarse_nodes, const int num_comp, __global const uchar *d_table,
                    __global const uchar *d_marked, __global uchar *d_found) {
  const int i = (int)get_global_id(0);
  if (i >= count) return;
  const int node = node_at(i, places, width, d_order, d_nodes), cell = i / places;
  for (int c = 0; c < num_comp; ++c) {
    if (!d_marked[node + c]) continue;
    for (int j = 0; j < coarse_places; ++j)
      if (d_table[i % places * coarse_places + j])
        d_found[node_at(cell * coarse_places + j, coarse_places, coarse_width, d_coarse_order, d_coarse_nodes) + c] = 1;
  }
}
