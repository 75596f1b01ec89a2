// Arrays over cells, made on the device: words in the order of a layout, and lists turned around, from entries to their owners.

// Word by word of the result, in blocks of cells (`Layout`): `factor` times the word w, or ~w where d_mask (null: nowhere) has one of
// the num_comp entries from w on. d_order: which word of d_words stands at each place (null: that one). What fills up the last block
// is zero.
__kernel void pack_words(const ulong size, const int num_cells, const int words, const int block, const int factor,
                         __global const int *d_words, __global const int *d_order, const int num_comp,
                         __global const uchar *d_mask, __global int *d_packed) {
  const size_t at = get_global_id(0);
  if (at >= size) return;
  const size_t cell = at / (block * words) * block + at % block;
  const int i = (int)(at / block % words);
  int word = 0;
  if (cell < num_cells) {
    word = factor * d_words[cell * words + (d_order ? d_order[i] : i)];
    uchar masked = 0;
    for (int c = 0; d_mask && c < num_comp; ++c) masked |= d_mask[word + c];
    if (masked) word = ~word;
  }
  d_packed[at] = word;
}

// How many entries each owner has.
__kernel void count_owned(const ulong count, __global const int *d_owners, __global int *d_counts) {
  const size_t i = get_global_id(0);
  if (i < count) atomic_inc(d_counts + d_owners[i]);
}

// Puts each entry to its owner's, in any order; d_next: where the owner's next one goes. Entry i is d_values[i], or else
// first + i / each * step.
__kernel void place_owned(const ulong count, __global const int *d_owners, __global const int *d_values, const int first,
                          const int each, const int step, __global int *d_next, __global int *d_placed) {
  const size_t i = get_global_id(0);
  if (i < count) d_placed[atomic_inc(d_next + d_owners[i])] = d_values ? d_values[i] : first + (int)(i / each) * step;
}

inline void insert(__global int *d_list, const int length, const int value) {
  int k = length;
  for (; k > 0 && d_list[k - 1] > value; --k) d_list[k] = d_list[k - 1];
  d_list[k] = value;
}

// Each owner's entries in increasing order.
__kernel void sort_owned(const int count, __global const int *d_starts, __global int *d_placed) {
  const int owner = (int)get_global_id(0);
  if (owner >= count) return;
  __global int *list = d_placed + d_starts[owner];
  for (int k = 1; k < d_starts[owner + 1] - d_starts[owner]; ++k) insert(list, k, list[k]);
}

// For each cell the heads of its groups (`entries.cl`), increasing, and an END behind, from d_lists[first] on.
__kernel void sort_lists(const int num_cells, const int width, __global const int *d_groups, __global const int *d_heads,
                         const int first, __global int *d_lists) {
  const int cell = (int)get_global_id(0);
  if (cell >= num_cells) return;
  __global int *list = d_lists + first + (size_t)cell * (width + 1);
  for (int j = 0; j < width; ++j) {
    const int head = d_heads[d_groups[(size_t)cell * width + j]];
    insert(list, j, head < 0 ? INT_MAX : head);
  }
  list[width] = INT_MAX;
}
