// Element matrices to the rows of a sparse matrix: the columns of each row, where every entry goes, and the sum.
//
// A group is dofs that no cell has apart: those of one field on one point of the mesh. Columns of the matrix are numbered from 0,
// this rank's own first; d_next[c] is the next column of the same group, -1 after the last; a group is known by its first column,
// its head (-1: all of its dofs are prescribed). The rows of a group have the same columns, in two parts: those that this rank
// owns, and the others. d_starts[2 c + part] is where a part of row c begins among all values.

#define END 0x7fffffff

// One group per work-item: merges the increasing lists of heads that its cells have. A list ends with END; d_first[k] is where list
// k begins, d_at[k] is workspace. Counts the columns in both parts; where d_indices is given, writes them into the group's rows.
__kernel void merge_lists(const int num_groups, const int num_owned, __global const int *d_heads, __global const int *d_list_starts,
                          __global const int *d_first, __global int *d_at, __global const int *d_lists, __global const int *d_next,
                          __global int *d_counts, __global const int *d_starts, __global int *d_indices) {
  const int group = (int)get_global_id(0);
  if (group >= num_groups) return;
  int counts[2] = {0, 0};
  const int head = d_heads[group], begin = d_list_starts[group], end = d_list_starts[group + 1];
  for (int k = begin; k < end; ++k) d_at[k] = d_first[k];
  for (int last = -1; head >= 0 && last < END;) {
    // The diagonal is always there.
    int least = head > last ? head : END;
    for (int k = begin; k < end; ++k) {
      int at = d_at[k];
      while (d_lists[at] <= last) ++at;
      d_at[k] = at;
      least = min(least, d_lists[at]);
    }
    last = least;
    for (int column = last < END ? last : -1; column >= 0; column = d_next[column]) {
      const int part = column >= num_owned;
      if (d_indices)
        for (int row = head; row >= 0; row = d_next[row]) d_indices[d_starts[2 * row + part] + counts[part]] = column;
      ++counts[part];
    }
  }
  for (int part = 0; part < 2; ++part) d_counts[2 * group + part] = counts[part];
}

// The diagonals of prescribed rows, which have nothing else.
__kernel void place_alone(const int num_alone, __global const int *d_alone, __global const int *d_starts,
                          __global int *d_indices) {
  const int i = (int)get_global_id(0);
  if (i < num_alone) d_indices[d_starts[2 * d_alone[i]]] = d_alone[i];
}

// One pair of groups of a cell per work-item: where the columns of the second begin in their part of the rows of the first. Where
// d_uses is given, counts the cells that have the pair, at its first value; launched again with `marks`, marks pairs of one cell.
__kernel void find_places(const ulong num_pairs, const int num_row_groups, const int num_column_groups, const int num_owned,
                          __global const int *d_row_groups, __global const int *d_column_groups, __global const int *d_heads,
                          __global const int *d_counts, __global const int *d_starts, __global const int *d_indices,
                          __global PLACE *d_places, __global int *d_uses, const int marks) {
  const size_t pair = get_global_id(0);
  if (pair >= num_pairs) return;
  const size_t cell = pair / (num_row_groups * num_column_groups);
  const int i = (int)(pair / num_column_groups % num_row_groups), j = (int)(pair % num_column_groups);
  const int group = d_row_groups[cell * num_row_groups + i];
  const int row = d_heads[group], column = d_heads[d_column_groups[cell * num_column_groups + j]];
  int low = 0;
  if (row >= 0 && column >= 0) {
    const int part = column >= num_owned, start = d_starts[2 * row + part];
    if (marks) {
      if (d_uses[start + d_places[pair]] == 1) d_places[pair] |= OWN;
      return;
    }
    __global const int *columns = d_indices + start;
    for (int high = d_counts[2 * group + part]; low < high;) {
      const int middle = (low + high) / 2;
      if (columns[middle] < column)
        low = middle + 1;
      else
        high = middle;
    }
    // Cells without a term may have pairs that the rows lack.
    if (d_uses && low < d_counts[2 * group + part] && columns[low] == column) atomic_inc(d_uses + start + low);
  }
  if (!marks) d_places[pair] = (PLACE)low;
}

// The block of rows of one field and columns of another in element matrices. d_matrices begins with cell `first`; a cell has
// cell_words numbers, a row row_words, and the block begins at row0, column0. Of either field: nodes of a cell, components, groups
// of a cell (parts), the nodes' positions in the L-vector, and the part that each is of. Cells are counted as in d_cells (null:
// all). d_dofs and d_places are explained in places.cl.
#define BLOCK                                                                                                            \
  const int cell_words, const int row_words, const int row0, const int row_nodes, const int row_comp, const int row_parts, \
      const int column0, const int column_nodes, const int column_comp, const int column_parts,                          \
      __global const int *d_row_offsets, __global const int *d_column_offsets, __global const int *d_row_parts,          \
      __global const int *d_column_parts, __global const int *d_cells, __global const PLACE *d_places,                   \
      __global const int4 *d_dofs

// One row of the matrix per work-item: sums what its cells have, in their order. d_nodes: positions of the nodes in the L-vector;
// d_entries: cell * row_nodes + node of the cell, for each node from d_node_starts on.
__kernel void gather_entries(const int first, const int count, BLOCK, __global const double *d_matrices, __global double *d_values,
                             const int num_nodes, __global const int *d_nodes, __global const int *d_node_starts,
                             __global const int *d_entries) {
  const int i = (int)get_global_id(0);
  if (i >= num_nodes * row_comp) return;
  const int node = i / row_comp, component = i % row_comp;
  const int4 row = d_dofs[d_nodes[node] + component];
  if (row.x < 0) return;
  for (int k = d_node_starts[node]; k < d_node_starts[node + 1]; ++k) {
    const int cell = d_entries[k] / row_nodes, m = d_entries[k] % row_nodes;
    if (cell < first || cell >= first + count) continue;
    __global const double *matrix =
        d_matrices + (size_t)(cell - first) * cell_words + (row0 + m * row_comp + component) * row_words + column0;
    const size_t at = d_cells ? d_cells[cell] : cell;
    __global const PLACE *places = d_places + (at * row_parts + d_row_parts[m]) * column_parts;
    for (int n = 0; n < column_nodes; ++n) {
      const PLACE place = places[d_column_parts[n]];
      const int dof = d_column_offsets[at * column_nodes + n];
      for (int c = 0; c < column_comp; ++c) {
        const int4 column = d_dofs[dof + c];
        if (column.x < 0) continue;
        d_values[AT_VALUE(row, column, place)] += matrix[n * column_comp + c];
      }
    }
  }
}
