// Lists of the nodes of each work-group's cells (`NodeList`), CELLS of a group, NUM_BASIS nodes of each; a group makes one.
// Pairs of a cell and a node are sorted by the nodes' offsets; those with the same one are a run, and each MOST_RESULTS of a run, or
// fewer, a node of the list. Nodes are sorted by falling number of results, unless rows are equally long, and by their offsets.
// Which of a node's rows a result takes is free: as BANKS neighbouring items store theirs at a time, those should be in different
// banks of local memory.

// A key is an offset, 16 bits with the number of the pair in the group and, later, 16 bits above.
#define PAIR(key) ((int)((key) & 0xffff))
#define OFFSET(key) ((int)((key) >> 16 & 0x7fffffff))
#define ABOVE(key) ((int)((key) >> 48))
// Above a node's first key.
#define NUM_RESULTS(key) (ABOVE(key) / MOST_RESULTS)
// An order is what sorts nodes, by their results and where their first key stands.
#define FIRST_KEY(order) ((int)((order) & 0xfff))
#define ROWS(order) (MOST_RESULTS - (int)((order) >> 12))
#define NO_NODE 0xffffffffu
// In one word, as long as rows are handed out, stand a slot's free rows and the bank of its first one, and the slot of a pair.
#define FREE_ROWS(word) ((word) >> 16)
#define FIRST_BANK(word) ((word) >> 12 & 0xf)
#define PAIR_SLOT(word) ((word) & 0xfff)

#define SORT(type, s_array) \
  for (int length = 2; length <= NUM_KEYS; length *= 2) \
    for (int step = length / 2; step > 0; step /= 2) { \
      for (int i = (int)get_local_id(0); i < NUM_KEYS / 2; i += GROUP_SIZE) { \
        const int low = 2 * i - i % step, high = low + step; \
        const type a = s_array[low], b = s_array[high]; \
        if (a > b ? !(low & length) : (low & length) && a < b) { \
          s_array[low] = b; \
          s_array[high] = a; \
        } \
      } \
      barrier(CLK_LOCAL_MEM_FENCE); \
    }

// Where the slots of a slice stand in its rows: results of neighbouring nodes are apart.
#define LANE(slot) ((slot) * SLICE_STEP % SLICE)
#define EACH(i, n) for (int i = (int)get_local_id(0); i < (n); i += GROUP_SIZE)

// Pairs of the group; those of a group that is not full stand at the beginning.
inline int num_pairs(const int count) { return min(count - (int)get_group_id(0) * CELLS, CELLS) * NUM_BASIS; }

// The keys, sorted, above them the number of the pair among the results of its node, and for the first one how many there are;
// s_orders of these, NO_NODE for all others.
inline void find_nodes(const int first, const int count, __global const int *offsets, __global const int *vertices,
                       __local ulong *s_keys, __local uint *s_orders) {
  const int pairs = num_pairs(count);
  const size_t start = (size_t)(first + (int)get_group_id(0) * CELLS) * NUM_BASIS;
  EACH(i, NUM_KEYS) s_keys[i] = i < pairs ? (ulong)offsets[start + i] << 16 | i : ULONG_MAX;
  barrier(CLK_LOCAL_MEM_FENCE);
  SORT(ulong, s_keys)
  EACH(i, pairs) {
    const ulong key = s_keys[i], before = s_keys[max(i - 1, 0)];
    s_orders[i] = i == 0 || OFFSET(key) != OFFSET(before) || (vertices && vertices[start + PAIR(key)] != vertices[start + PAIR(before)]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH(i, pairs) {
    int past = 0, results = 0;
    while (!s_orders[i - past]) ++past;
    past %= MOST_RESULTS;
    if (past == 0)
      for (results = 1; results < MOST_RESULTS && i + results < pairs && !s_orders[i + results];) ++results;
    s_keys[i] |= (ulong)(results * MOST_RESULTS + past) << 48;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH(i, NUM_KEYS) {
    const int results = i < pairs ? NUM_RESULTS(s_keys[i]) : 0;
    s_orders[i] = results ? (EVEN_ROWS ? 0 : (uint)(MOST_RESULTS - results) << 12) | i : NO_NODE;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// How many slices each group's list needs.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void count_slices(const int first, const int count, __global const int *restrict d_offsets, __global const int *restrict d_vertices,
                  __global int *restrict d_slices) {
  __local ulong s_keys[NUM_KEYS];
  __local uint s_orders[NUM_KEYS];
  __local int s_nodes[1];
  if (get_local_id(0) == 0) s_nodes[0] = 0;
  find_nodes(first, count, d_offsets, d_vertices, s_keys, s_orders);
  int nodes = 0;
  EACH(i, NUM_KEYS) nodes += s_orders[i] != NO_NODE;
  atomic_add(s_nodes, nodes);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) d_slices[get_group_id(0)] = (s_nodes[0] + SLICE - 1) / SLICE;
}

// Rows for the pairs in s_words, one after the other as items store them: of those that are free the first whose bank the fewest
// take at that time.
inline void choose_rows(const int cells, __local uint *s_words, __local ulong *s_rows) {
  for (int b = 0; b < NUM_BASIS; ++b)
    for (int begin = 0; begin < cells; begin += BANKS) {
      // Bit k of number n: more than n results are in bank k.
      uint taken[BANKS];
      for (int n = 0; n < BANKS; ++n) taken[n] = 0;
      for (int cell = begin; cell < min(begin + BANKS, cells); ++cell) {
        const int pair = cell * NUM_BASIS + b, slot = PAIR_SLOT(s_words[pair]);
        const uint bank = FIRST_BANK(s_words[slot]), free = FREE_ROWS(s_words[slot]);
        uint rows = 0;
        int n = -1;
        while (!rows) {
          ++n;
          rows = free & ~((taken[n] | taken[n] << BANKS) >> bank);
        }
        const int row = 31 - (int)clz(rows & -rows);
        taken[n] |= 1u << (bank + row) % BANKS;
        s_words[slot] &= ~(0x10000u << row);
        s_rows[pair] = row;
      }
    }
}

// The lists, each of so many slices. d_mask (null: nowhere): a node is ~offset where one of num_comp entries is marked. d_vertices
// (null: not wanted): the vertex that each node is, which stands at DIM times its number.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void list_nodes(const int first, const int count, __global const int *restrict d_offsets, __global const int *restrict d_vertices,
                const int dim, const int num_comp, __global const uchar *restrict d_mask, const int slices,
                __global ushort *restrict d_places, __global ushort *restrict d_bases, __global int *restrict d_nodes,
                __global uchar *restrict d_counts, __global int *restrict d_positions) {
  __local ulong s_keys[NUM_KEYS];
  __local uint s_orders[NUM_KEYS];
  const int group = (int)get_group_id(0), pairs = num_pairs(count);
  const size_t start = (size_t)(first + group * CELLS) * NUM_BASIS;
  find_nodes(first, count, d_offsets, d_vertices, s_keys, s_orders);
  SORT(uint, s_orders)
  EACH(s, slices) {
    int rows = 0;
    for (int i = 0; i < s && i * SLICE < NUM_KEYS && s_orders[i * SLICE] != NO_NODE; ++i) rows += ROWS(s_orders[i * SLICE]);
    if (!EVEN_ROWS) d_bases[(size_t)group * slices + s] = (ushort)(rows * SLICE_ROW);
  }
  EACH(i, slices * SLICE) {
    const uint order = i < NUM_KEYS ? s_orders[i] : NO_NODE;
    int node = 0, results = 0, position = 0;
    if (order != NO_NODE) {
      const ulong key = s_keys[FIRST_KEY(order)];
      uchar masked = 0;
      node = OFFSET(key);
      for (int c = 0; d_mask && c < num_comp; ++c) masked |= d_mask[node + c];
      node = masked ? ~node : node;
      results = NUM_RESULTS(key);
      position = d_vertices ? dim * d_vertices[start + PAIR(key)] : 0;
      // From now on the node's slot stands above its first key, as which of its results that is, number 0, does.
      s_keys[FIRST_KEY(order)] = (key & 0xffffffffffffUL) | (ulong)(i * MOST_RESULTS) << 48;
    }
    const size_t slot = (size_t)group * slices * SLICE + i;
    d_nodes[slot] = node;
    d_counts[slot] = (uchar)results;
    if (d_positions) d_positions[slot] = position;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  EACH(i, NUM_KEYS) {
    const int results = i < slices * SLICE ? d_counts[(size_t)group * slices * SLICE + i] : 0;
    const uint bank = !EVEN_ROWS && results ? (d_bases[(size_t)group * slices + i / SLICE] + LANE(i)) % BANKS : 0;
    s_orders[i] = EVEN_ROWS ? 0 : ((1u << results) - 1) << 16 | bank << 12;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH(i, pairs) {
    const int past = ABOVE(s_keys[i]) % MOST_RESULTS;
    s_orders[PAIR(s_keys[i])] |= ABOVE(s_keys[i - past]) / MOST_RESULTS | (EVEN_ROWS ? past << 16 : 0);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (!EVEN_ROWS && get_local_id(0) == 0) choose_rows(pairs / NUM_BASIS, s_orders, s_keys);
  barrier(CLK_LOCAL_MEM_FENCE);
#if PACKED
  EACH(i, pairs / NUM_BASIS) {
    const size_t cell = (size_t)group * CELLS + i;
    uint places = 0;
    for (int b = NUM_BASIS - 1; b >= 0; --b) {
      const uint word = s_orders[i * NUM_BASIS + b];
      places = places * PLACE_RANGE + (word >> 16) * MOST_SLOTS + PAIR_SLOT(word);
    }
    ((__global uint *)d_places)[cell / BLOCK * BLOCK + cell % BLOCK] = places;
  }
#else
  EACH(pair, pairs) {
    const size_t cell = (size_t)group * CELLS + pair / NUM_BASIS;
    const int b = pair % NUM_BASIS;
    d_places[cell / BLOCK * (BLOCK * PLACE_WORDS) + (b / TOGETHER * BLOCK + cell % BLOCK) * TOGETHER + b % TOGETHER] =
        (ushort)((EVEN_ROWS ? (int)(s_orders[pair] >> 16) : (int)s_keys[pair]) * MOST_SLOTS + PAIR_SLOT(s_orders[pair]));
  }
#endif
}
