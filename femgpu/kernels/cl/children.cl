// Element matrices of a mesh to those of the mesh that it refines: Galerkin products, A = sum of W^T E W over the children of a cell,
// W what the cell's basis functions are at a child's nodes. Both have NODES nodes and the same components.

// One row of a cell's matrix per work-item. d_matrices begins with entry `first` of `count`; d_parents: the cells that have entries;
// d_entries: their entries, for each from d_starts on; entry i is of the child d_cells[i] (null: i). Rows and columns of component c
// are d_components[c].x + node d_components[c].y.
__kernel void add_children(const int first, const int count, const int num_parents, const int num_comp, const int num_children,
                           __global const int *d_parents, __global const int *d_starts, __global const int *d_entries,
                           __global const int *d_cells, __global const int2 *d_components, __global const double *d_weights,
                           __global const double *d_matrices, __global double *d_sums) {
  const int item = (int)get_global_id(0), num_rows = NODES * num_comp, p = item / num_rows;
  if (p >= num_parents) return;
  const int node = item % num_rows % NODES, size = num_rows * num_rows;
  const int2 own = d_components[item % num_rows / NODES];
  __global double *sums = d_sums + (size_t)d_parents[p] * size + (own.x + node * own.y) * num_rows;
  for (int c = 0; c < num_comp; ++c) {
    const int2 other = d_components[c];
    double found[NODES] = {0};
    for (int k = d_starts[p]; k < d_starts[p + 1]; ++k) {
      const int entry = d_entries[k];
      if (entry < first || entry >= first + count) continue;
      __global const double *weights = d_weights + (d_cells ? d_cells[entry] : entry) % num_children * NODES * NODES;
      __global const double *matrix = d_matrices + (size_t)(entry - first) * size + other.x;
      double row[NODES] = {0};
      for (int i = 0; i < NODES; ++i) {
        const double weight = weights[i * NODES + node];
        if (weight == 0) continue;
        for (int j = 0; j < NODES; ++j) row[j] += weight * matrix[(own.x + i * own.y) * num_rows + j * other.y];
      }
      for (int i = 0; i < NODES; ++i)
        for (int j = 0; j < NODES; ++j) found[j] += row[i] * weights[i * NODES + j];
    }
    for (int j = 0; j < NODES; ++j) sums[other.x + j * other.y] += found[j];
  }
}
