// Blocks on the diagonal of a matrix, and their inverses. What stands `shift` columns further than the diagonal in all blocks, in
// turns, is an L-vector: with cells of several ranks, shares of it go to the owners of its rows like those of any other. At the owner
// blocks stand one after the other, column by column, as PETSc keeps them.

// One row per work-item: the sum of what its cells have for the columns of its block. d_matrices begins with cell `first`; d_rows:
// the rows, none of them prescribed; d_entries: cell * num_rows + row of the cell, for each row from d_starts on; d_dofs: the
// positions in the L-vector of each cell's rows; d_blocks: of each position the block, -1 where it is prescribed, and the column.
__kernel void gather_blocks(const int first, const int count, const int n, const int num_rows, const int size,
                            const ulong stride, __global const int *d_rows, __global const int *d_starts, __global const int *d_entries,
                            __global const int *d_dofs, __global const int2 *d_blocks, __global const double *d_matrices,
                            __global scalar *d_diagonals) {
  const int i = (int)get_global_id(0);
  if (i >= n) return;
  const int row = d_rows[i];
  const int2 mine = d_blocks[row];
  for (int k = d_starts[i]; k < d_starts[i + 1]; ++k) {
    const int cell = d_entries[k] / num_rows;
    if (cell < first || cell >= first + count) continue;
    __global const double *entries = d_matrices + ((size_t)d_entries[k] - (size_t)first * num_rows) * num_rows;
    for (int j = 0; j < num_rows; ++j) {
      const int2 other = d_blocks[d_dofs[(size_t)cell * num_rows + j]];
      if (other.x == mine.x) d_diagonals[(other.y - mine.y + size) % size * stride + row] += (scalar)entries[j];
    }
  }
}

// What stands `shift` columns further than the diagonal, a T-vector, to its places.
__kernel void place_diagonal(const int n, const int size, const int shift, const double factor, __global const double *d_t,
                             __global double *d_blocks) {
  const int i = (int)get_global_id(0);
  if (i < n) d_blocks[((size_t)(i - i % size) + (i + shift) % size) * size + i % size] = factor * d_t[i];
}

// The diagonal entries of prescribed rows.
__kernel void fill_diagonal(const int n, const int size, const double value, __global const int *d_rows,
                            __global double *d_blocks) {
  const int i = (int)get_global_id(0);
  if (i < n) d_blocks[(size_t)d_rows[i] * size + d_rows[i] % size] = value;
}

// A work-group replaces a block by its inverse: Gauss-Jordan with partial pivoting, items have rows. d_pivots: the rows that were
// exchanged. d_singular: the number, from 1, of a block without an inverse.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void invert_blocks(const int num_blocks, const int size, __global double *d_blocks, __global int *d_pivots,
                   __global int *d_singular) {
  const int item = (int)get_local_id(0), block = (int)get_group_id(0);
  if (block >= num_blocks) return;
  __global double *a = d_blocks + (size_t)block * size * size;
  __global int *pivots = d_pivots + (size_t)block * size;
  for (int k = 0; k < size; ++k) {
    // all items look for the same row
    int p = k;
    for (int i = k + 1; i < size; ++i)
      if (fabs(a[k * size + i]) > fabs(a[k * size + p])) p = i;
    const double pivot = a[k * size + p];
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (item == 0) {
      pivots[k] = p;
      if (!(fabs(pivot) > 0) || isinf(pivot)) *d_singular = block + 1;
    }
    for (int j = item; j < size; j += GROUP_SIZE) {
      const double kept = a[j * size + p];
      a[j * size + p] = a[j * size + k];
      a[j * size + k] = j == k ? 1 / pivot : kept / pivot;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int i = item; i < size; i += GROUP_SIZE) {
      if (i == k) continue;
      const double factor = a[k * size + i];
      for (int j = 0; j < size; ++j) a[j * size + i] = (j == k ? 0 : a[j * size + i]) - factor * a[j * size + k];
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
  // rows that were exchanged are columns of the inverse
  for (int k = size - 1; k >= 0; --k) {
    const int p = pivots[k];
    for (int i = item; i < size; i += GROUP_SIZE) {
      const double kept = a[k * size + i];
      a[k * size + i] = a[p * size + i];
      a[p * size + i] = kept;
    }
  }
}
