// Coarse functions in a finer space, and the transpose, cell by cell. A column is one component of a field in one cell, nodes by the
// lattice: Q of the coarse and P of the fine ones in each of DIM directions. d_table: (P, Q) coarse functions at fine nodes, 1D ones
// of which all others are products.
//
// A fine node is written and read by one cell alone. An offset of a fine node is that in the T-vector; INT_MIN: another cell's, or
// another rank's; other negative ones: with one component ~offset of a prescribed dof, with more ~position in d_rows, which says
// the same of each component. An offset ~o of a coarse node: some components are prescribed, d_prescribed says which.
typedef FINE real;

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#if DIM == 1
#define NUM_FINE P
#define NUM_COARSE Q
#define MOST 1
#elif DIM == 2
#define NUM_FINE (P * P)
#define NUM_COARSE (Q * Q)
#define MOST (P * Q)
#else
#define NUM_FINE (P * P * P)
#define NUM_COARSE (Q * Q * Q)
#define MOST (P * P * Q)
#endif

#if ITEMS == 1
#define BARRIER
#else
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#endif
#define FOR_EACH(i, n) for (int i = get_local_id(0); i < (n); i += ITEMS)

// s_to (column, before, TO, after) = sum_j T(k, j) s_from (column, before, FROM, after): an item takes line after line where lines
// are short, number after number where they are long.
#if P * Q <= 144
#define CONTRACT(s_to, TO, s_from, FROM, BEFORE, AFTER, T)                      \
  BARRIER;                                                                      \
  FOR_EACH(line, COLUMNS * (BEFORE) * (AFTER)) {                                \
    const int above = line / (AFTER), below = line % (AFTER);                   \
    real values[FROM];                                                          \
    _Pragma("unroll")                                                           \
    for (int j = 0; j < (FROM); ++j) values[j] = s_from[(above * (FROM) + j) * (AFTER) + below]; \
    _Pragma("unroll")                                                           \
    for (int k = 0; k < (TO); ++k) {                                            \
      real sum = 0;                                                             \
      _Pragma("unroll")                                                         \
      for (int j = 0; j < (FROM); ++j) sum += T(k, j) * values[j];              \
      s_to[(above * (TO) + k) * (AFTER) + below] = sum;                         \
    }                                                                           \
  }
#else
#define CONTRACT(s_to, TO, s_from, FROM, BEFORE, AFTER, T)                                             \
  BARRIER;                                                                                             \
  FOR_EACH(i, COLUMNS * (BEFORE) * (TO) * (AFTER)) {                                                   \
    const int k = i / (AFTER) % (TO), first = i / ((TO) * (AFTER)) * ((FROM) * (AFTER)) + i % (AFTER); \
    real sum = 0;                                                                                      \
    for (int j = 0; j < (FROM); ++j) sum += T(k, j) * s_from[first + j * (AFTER)];                     \
    s_to[i] = sum;                                                                                     \
  }
#endif
#define UP(k, j) d_table[(k) * Q + (j)]
#define DOWN(k, j) d_table[(j) * Q + (k)]

// Component and entry of number i among the nodes of a work-group's columns, `count` in each; entries are those of d_..._nodes.
#if NUM_COMP == 1
#define COMPONENT(i, count) 0
#define ENTRY(i, count) ((size_t)begin * (count) + (i))
#else
#define COMPONENT(i, count) ((begin + (i) / (count)) % NUM_COMP)
#define ENTRY(i, count) ((size_t)((begin + (i) / (count)) / NUM_COMP) * (count) + (i) % (count))
#endif

// Position of a coarse dof; negative where it is prescribed.
inline int coarse_dof(const int offset, const int c, __global const uchar *d_prescribed) {
  if (offset >= 0) return offset + c;
  return NUM_COMP == 1 || d_prescribed[~offset + c] ? -1 : ~offset + c;
}

// Position of a fine dof in the T-vector; ~position of a prescribed one, INT_MIN: not this cell's.
inline int fine_dof(const int offset, const int c, __global const int *d_rows) {
  if (offset >= 0) return offset + c;
  return NUM_COMP == 1 || offset == INT_MIN ? offset : d_rows[~offset + c];
}

// Fine nodes = the coarse function; zero where they are prescribed.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void prolong(const int num_columns, __global const int *d_coarse_nodes, __global const int *d_fine_nodes,
             __global const uchar *d_prescribed, __global const int *d_rows, __global const real *d_table,
             __global const COARSE *d_coarse, __global FINE *d_fine) {
#if DIM > 1
  __local real s_a[COLUMNS * NUM_FINE];
#endif
  __local real s_b[COLUMNS * MAX(MOST, NUM_COARSE)];
  const int begin = (int)get_group_id(0) * COLUMNS, columns = min(COLUMNS, num_columns - begin);
#if DIM == 2
#define s_start s_a
#else
#define s_start s_b
#endif
  FOR_EACH(i, COLUMNS * NUM_COARSE) {
    int dof = -1;
    if (i < columns * NUM_COARSE)
      dof = coarse_dof(d_coarse_nodes[ENTRY(i, NUM_COARSE)], COMPONENT(i, NUM_COARSE), d_prescribed);
    s_start[i] = dof < 0 ? (real)0 : (real)d_coarse[dof];
  }
#if DIM == 2
  CONTRACT(s_b, P, s_a, Q, 1, Q, UP)
  CONTRACT(s_a, P, s_b, Q, P, 1, UP)
#elif DIM == 3
  CONTRACT(s_a, P, s_b, Q, 1, Q * Q, UP)
  CONTRACT(s_b, P, s_a, Q, P, Q, UP)
  CONTRACT(s_a, P, s_b, Q, P * P, 1, UP)
#endif
  BARRIER;
  FOR_EACH(i, columns * NUM_FINE) {
    const int dof = fine_dof(d_fine_nodes[ENTRY(i, NUM_FINE)], COMPONENT(i, NUM_FINE), d_rows);
    if (dof < 0) {
      if (dof != INT_MIN) d_fine[~dof] = 0;
      continue;
    }
#if DIM == 1
    // Few nodes are this cell's: the others' values are not computed.
    FINE sum = 0;
    for (int j = 0; j < Q; ++j) sum += UP(i % P, j) * s_b[i / P * Q + j];
    d_fine[dof] = sum;
#else
    d_fine[dof] = s_a[i];
#endif
  }
}

// Adds the transpose to the coarse vector; without atomic adds each cell writes entries of its own, from number `first` on.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void add_transposed(const int num_columns, __global const int *d_coarse_nodes, __global const int *d_fine_nodes,
                    __global const uchar *d_prescribed, __global const int *d_rows, __global const real *d_table,
                    __global COARSE *d_coarse, __global const FINE *d_fine, const int first) {
  __local real s_a[COLUMNS * NUM_FINE], s_b[COLUMNS * MAX(MOST, NUM_COARSE)];
  const int begin = (int)get_group_id(0) * COLUMNS, columns = min(COLUMNS, num_columns - begin);
  FOR_EACH(i, COLUMNS * NUM_FINE) {
    int dof = -1;
    if (i < columns * NUM_FINE) dof = fine_dof(d_fine_nodes[ENTRY(i, NUM_FINE)], COMPONENT(i, NUM_FINE), d_rows);
    s_a[i] = dof < 0 ? (real)0 : (real)d_fine[dof];
  }
#if DIM == 1 && ITEMS == 1
  for (int i = 0; i < COLUMNS * Q; ++i) s_b[i] = 0;
  for (int i = 0; i < COLUMNS * P; ++i)
    if (s_a[i] != 0)
      for (int j = 0; j < Q; ++j) s_b[i / P * Q + j] += UP(i % P, j) * s_a[i];
#elif DIM == 1
  CONTRACT(s_b, Q, s_a, P, 1, 1, DOWN)
#elif DIM == 2
  CONTRACT(s_b, Q, s_a, P, P, 1, DOWN)
  CONTRACT(s_a, Q, s_b, P, 1, Q, DOWN)
#else
  CONTRACT(s_b, Q, s_a, P, P * P, 1, DOWN)
  CONTRACT(s_a, Q, s_b, P, P, Q, DOWN)
  CONTRACT(s_b, Q, s_a, P, 1, Q * Q, DOWN)
#endif
  BARRIER;
  FOR_EACH(i, columns * NUM_COARSE) {
#ifdef ATOMIC
    // Many cells on simplices have few fine nodes to themselves, or none: most of what they add is zero.
    if (s_start[i] == 0) continue;
    const int dof = coarse_dof(d_coarse_nodes[ENTRY(i, NUM_COARSE)], COMPONENT(i, NUM_COARSE), d_prescribed);
    if (dof >= 0) atomic_add_scalar(d_coarse + dof, (scalar)s_start[i]);
#else
    d_coarse[first + ENTRY(i, NUM_COARSE) * NUM_COMP + COMPONENT(i, NUM_COARSE)] = (COARSE)s_start[i];
#endif
  }
}
