// Schedule matrix: element matrices. In the evaluation phase an item stands for (cell, point) and writes what multiplies the basis
// functions there, in reference coordinates; after the barrier for a tile: ROWS basis functions of one component of the test
// function times COLUMNS of one component of the direction, whose entries are private and written at the end. A pass takes POINTS
// points. Where points are summed beforehand, a word of the block multiplies that word's table of products of basis functions.
// Where the matrix is sparse, entries are added to its values: first the group brings what it needs to know of its cells' dofs.
// Index space: a group serves CELLS cells, or one of PARTS parts of a cell; local id = (cell, component, tile of rows, tile of
// columns), the last running fastest. Rows and columns are ordered by field, basis function, component.
<%
value, gradient, hessian = plan.slots
two = len(work.sides) > 1
test_J, test_map = ("test_J", "test_map") if two else ("J_inv", "r_map_xx")
%>\
## What multiplies one derivative of the test function: outputs of the pointwise function become words for the direction's
## derivatives in reference coordinates.
<%def name="pull_back(slot, at, out)">\
<% trial_J, trial_map = ("trial_J", "trial_map") if len(work.sides) > 1 else ("J_inv", "r_map_xx") %>\
% if slot.value:
          ${out}[0] = weight * ${slot.value}[${at}];
% elif slot.has_value:
          ${out}[0] = 0;
% endif
% if slot.gradient:
          pull_back_flux(${trial_J}, weight, ${slot.gradient} + (${at}) * DIM, ${out} + ${slot.gradient_at});
% elif slot.has_gradient:
          for (int j = 0; j < DIM; ++j) ${out}[${slot.gradient_at} + j] = 0;
% endif
% if slot.hessian:
          pull_back_hessian(${trial_J}, weight, ${slot.hessian} + (${at}) * DIM * DIM, ${out} + ${slot.hessian_at});
% if work.bends:
          pull_back_map(${trial_J}, ${out} + ${slot.hessian_at}, ${trial_map}, ${out} + ${slot.gradient_at});
% endif
% elif slot.has_hessian:
          for (int j = 0; j < DIM * DIM; ++j) ${out}[${slot.hessian_at} + j] = 0;
% endif
</%def>\
## The words of a slot times the direction's basis function b.
<%def name="trial(slot, at, sum)">\
% if slot.has_value:
          ${sum} += t_B[b] * ${at}[0];
% endif
% if slot.has_gradient:
          for (int j = 0; j < DIM; ++j) ${sum} += t_D[b * DIM + j] * ${at}[${slot.gradient_at} + j];
% endif
% if slot.has_hessian:
          for (int j = 0; j < DIM * DIM; ++j) ${sum} += t_H[b * DIM * DIM + j] * ${at}[${slot.hessian_at} + j];
% endif
</%def>\
## Whether a component is one of a field's.
<%def name="inside(field, comp)">${comp} >= ${field.offset} && ${comp} < ${field.offset + field.num_comp}</%def>\
#define TILE_UNROLL _Pragma("unroll")
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int item = (int)get_local_id(0);
  const int part = (int)get_group_id(0) % PARTS, past = (int)get_group_id(0) / PARTS * CELLS;
  const int begin = first + past, cells = min(CELLS, count - past);
  __local real s_blocks[CELLS * POINTS * POINT_WORDS];
% if plan.staged:
  __local real s_tables[TABLE_WORDS];
  for (int i = item; i < TABLE_WORDS; i += GROUP_SIZE) s_tables[i] = d_tables[i];
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if work.place:

  // where the rows and columns of the cells are in the sparse matrix; the last number is the part of the cell that the node is on
  __local int4 s_dofs[CELLS * NUM_ROWS];
  for (int i = item; i < cells * NUM_ROWS; i += GROUP_SIZE) {
    const int cell = begin + i / NUM_ROWS, word = i % NUM_ROWS;
    int4 dof = (int4)(-1);
% for k, field in enumerate(work.rows):
    ${f"if (word >= {field.first_row} && word < {field.first_row + field.size}) " * (len(work.rows) > 1)}{
      const int node = (word - ${field.first_row}) / ${field.num_comp}, c = (word - ${field.first_row}) % ${field.num_comp};
      dof = d_dofs[d_test${k}_offsets[AT_d_test${k}_offsets(cell, node)] + c];
      dof.w = d_parts${k}[node];
    }
% endfor
    s_dofs[i] = dof;
  }
% endif

  // the item's tile: of cell `own` of the group; none where that is past the last
  const int first_comp = part / TILE_PARTS * COMPS;
  const int tile = part % TILE_PARTS * GROUP_SIZE + item, own = tile / TILES;
  const int comp = tile % TILES / (COLUMN_TILES * ROW_TILES), test_comp = first_comp + comp;
  const int test_b = tile / COLUMN_TILES % ROW_TILES * ROWS, column_tile = tile % COLUMN_TILES;
  int num_test = 0, row = 0, row_step = 0, num_trial = 0, trial_b = 0, trial_step = 0, trial_comp = 0, column = 0, column_step = 0;
% for i, field in enumerate(work.rows):
  ${f"if (test_comp >= {field.offset}) " * (i > 0)}{
    num_test = ${field.num_basis};
    row_step = ${field.num_comp};
    row = ${field.first_row - field.offset} + test_comp;
  }
  ${f"if (column_tile >= {plan.first_column_tile(field)}) " * (i > 0)}{
    const int place = column_tile - ${plan.first_column_tile(field)};
    num_trial = ${field.num_basis};
    trial_b = place / ${field.num_comp};
    trial_step = ${plan.stride(field)};
    trial_comp = ${field.offset} + place % ${field.num_comp};
    column_step = ${field.num_comp};
    column = ${field.first_row} + place % ${field.num_comp};
  }
% endfor
  accum r_tile[ROWS * COLUMNS];
  TILE_UNROLL
  for (int i = 0; i < ROWS * COLUMNS; ++i) r_tile[i] = 0;

% if plan.passes > 1:
  for (int start = 0; start < NUM_QPTS; start += POINTS) {
    const int points = min(POINTS, NUM_QPTS - start);
% else:
  {
    const int start = 0, points = NUM_QPTS;
% endif

    // evaluation phase
    for (int i = item; i < cells * points; i += GROUP_SIZE) {
      const int cell = begin + i / points, q = start + i % points;
<%include file="gather.mako"/>
<%include file="point_geometry.mako"/>
<%include file="point_values.mako"/>
    ${declare_outputs}
    pointwise(${pointwise_arguments});
      UNROLL
      for (int pair = 0; pair < COMPS * NUM_COMP; ++pair) {
        const int block = first_comp * NUM_COMP + pair;
% if two:
        // components of the second cell have its map
        const bool test_other = block / NUM_COMP >= NUM_COMP / 2, trial_other = block % NUM_COMP >= NUM_COMP / 2;
        const real *test_J = test_other ? other_J_inv : J_inv, *trial_J = trial_other ? other_J_inv : J_inv;
% if work.bends:
        const real *test_map = test_other ? other_r_map_xx : r_map_xx, *trial_map = trial_other ? other_r_map_xx : r_map_xx;
% endif
% endif
        __local real *s_out = s_blocks + i * POINT_WORDS + pair * BLOCK_WORDS;
% if value.words:
        {
          real words[${value.words}];
${pull_back(value, "block", "words")}\
          for (int j = 0; j < ${value.words}; ++j) s_out[j] = words[j];
        }
% endif
% if gradient.words:
        {
          real sums[DIM * ${gradient.words}];
          for (int j = 0; j < DIM * ${gradient.words}; ++j) sums[j] = 0;
          for (int d = 0; d < DIM; ++d) {
            real words[${gradient.words}];
${pull_back(gradient, "block * DIM + d", "words")}\
            for (int k = 0; k < DIM; ++k)
              for (int j = 0; j < ${gradient.words}; ++j) sums[k * ${gradient.words} + j] += ${test_J}[k * DIM + d] * words[j];
          }
          for (int j = 0; j < DIM * ${gradient.words}; ++j) s_out[${gradient.first} + j] = sums[j];
        }
% endif
% if hessian.words:
        {
          real sums[DIM * DIM * ${hessian.words}];
          for (int j = 0; j < DIM * DIM * ${hessian.words}; ++j) sums[j] = 0;
          for (int d = 0; d < DIM * DIM; ++d) {
            real words[${hessian.words}];
${pull_back(hessian, "block * DIM * DIM + d", "words")}\
            for (int k = 0; k < DIM * DIM; ++k) {
              const real factor = ${test_J}[k / DIM * DIM + d / DIM] * ${test_J}[k % DIM * DIM + d % DIM];
              for (int j = 0; j < ${hessian.words}; ++j) sums[k * ${hessian.words} + j] += factor * words[j];
            }
          }
          for (int j = 0; j < DIM * DIM * ${hessian.words}; ++j) s_out[${hessian.first} + j] = sums[j];
% if work.bends:
          // As in pull_back_map; both slots have the same words.
          for (int m = 0; m < DIM; ++m)
            for (int j = 0; j < ${hessian.words}; ++j) {
              real sum = 0;
              for (int i = 0; i < DIM * DIM; ++i) sum += sums[i * ${hessian.words} + j] * ${test_map}[m * DIM * DIM + i];
              for (int k = 0; k < DIM; ++k) s_out[${gradient.first} + k * ${gradient.words} + j] -= ${test_J}[k * DIM + m] * sum;
            }
% endif
        }
% endif
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integration phase
    if (own < cells) {
% if work.facet:
% for side in work.sides:
      const int ${side.name("facet")} = ${side.name("d_facets")}[AT_${side.name("d_facets")}(begin + own, 0)];
% endfor
% endif
% if work.products:
      TABLE const real *products = TABLE_P0_0;
% for i, field in enumerate(work.rows):
% for j, other in enumerate(work.rows):
% if i or j:
      if (test_comp >= ${field.offset} && column_tile >= ${plan.first_column_tile(other)}) products = TABLE_P${i}_${j};
% endif
% endfor
% endfor
      __local const real *s_in = s_blocks + own * POINT_WORDS + (comp * NUM_COMP + trial_comp) * BLOCK_WORDS;
## All words of a block at once where that is no longer than an unrolled point; 8 instructions for an entry of a table.
% if not plan.unroll or 8 * plan.tile_rows * plan.tile_columns * plan.block_words <= plan.unroll:
      real r_block[BLOCK_WORDS];
      for (int j = 0; j < BLOCK_WORDS; ++j) r_block[j] = s_in[j];
      TILE_UNROLL
      for (int m = 0; m < ROWS; ++m)
        TILE_UNROLL
        for (int n = 0; n < COLUMNS; ++n) {
          const int v = min(test_b + m, num_test - 1), t = min(trial_b + n * trial_step, num_trial - 1);
          real sum = 0;
          TILE_UNROLL
          for (int j = 0; j < BLOCK_WORDS; ++j) sum += r_block[j] * products[(j * num_test + v) * num_trial + t];
          r_tile[m * COLUMNS + n] = (accum)sum;
        }
% else:
      // word by word: all at once their places in the tables would take more registers than there are
      _Pragma("unroll 1")
      for (int j = 0; j < BLOCK_WORDS; ++j) {
        const real word = s_in[j];
        TABLE const real *table = products + j * num_test * num_trial;
        TILE_UNROLL
        for (int m = 0; m < ROWS; ++m) {
          const int v = min(test_b + m, num_test - 1);
          TILE_UNROLL
          for (int n = 0; n < COLUMNS; ++n) {
            const int t = min(trial_b + n * trial_step, num_trial - 1);
            r_tile[m * COLUMNS + n] += (accum)(word * table[v * num_trial + t]);
          }
        }
      }
% endif
% else:
      for (int p = 0; p < points; ++p) {
        const int q = start + p;
        __local const real *s_in = s_blocks + (own * points + p) * POINT_WORDS + (comp * NUM_COMP + trial_comp) * BLOCK_WORDS;
% for letter in plan.letters:
        TABLE const real *v_${letter} = TABLE_${letter}(${work.rows[0].table}, q), *t_${letter} = v_${letter};
% for field in work.rows[1:]:
        if (test_comp >= ${field.offset}) v_${letter} = TABLE_${letter}(${field.table}, q);
        if (column_tile >= ${plan.first_column_tile(field)}) t_${letter} = TABLE_${letter}(${field.table}, q);
% endfor
% endfor
        // what multiplies the value (h0), the gradient (h1) and the second derivatives (h2) of the test function
        real h0[COLUMNS], h1[DIM * COLUMNS]${", h2[DIM * DIM * COLUMNS]" * bool(hessian.words)};
        TILE_UNROLL
        for (int n = 0; n < COLUMNS; ++n) {
          const int b = min(trial_b + n * trial_step, num_trial - 1);
% if value.words:
          real sum = 0;
${trial(value, "s_in", "sum")}\
          h0[n] = sum;
% endif
% if gradient.words:
          for (int k = 0; k < DIM; ++k) {
            __local const real *s_k = s_in + ${gradient.first} + k * ${gradient.words};
            real sum = 0;
${trial(gradient, "s_k", "sum")}\
            h1[k * COLUMNS + n] = sum;
          }
% endif
% if hessian.words:
          for (int k = 0; k < DIM * DIM; ++k) {
            __local const real *s_k = s_in + ${hessian.first} + k * ${hessian.words};
            real sum = 0;
${trial(hessian, "s_k", "sum")}\
            h2[k * COLUMNS + n] = sum;
          }
% endif
        }
        TILE_UNROLL
        for (int m = 0; m < ROWS; ++m) {
          const int b = min(test_b + m, num_test - 1);
          TILE_UNROLL
          for (int n = 0; n < COLUMNS; ++n) {
            real sum = ${'v_B[b] * h0[n]' if value.words else '0'};
% if gradient.words:
            for (int k = 0; k < DIM; ++k) sum += v_D[b * DIM + k] * h1[k * COLUMNS + n];
% endif
% if hessian.words:
            for (int k = 0; k < DIM * DIM; ++k) sum += v_H[b * DIM * DIM + k] * h2[k * COLUMNS + n];
% endif
            r_tile[m * COLUMNS + n] += (accum)sum;
          }
        }
      }
% endif
    }
% if plan.passes > 1:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
  }

  // scatter
  if (own >= cells) return;
% if work.place:
  const size_t at = d_cells ? d_cells[begin + own] : begin + own;
  __global const PLACE *places = 0;
  int stride = 0;
% for i, j in sorted(work.couples):
  if (${inside(work.rows[i], "test_comp")} && ${inside(work.rows[j], "trial_comp")}) {
    places = d_places_${i}_${j} + AT_d_places_${i}_${j}(at, 0);
    stride = ${work.rows[j].num_parts};
  }
% endfor
  if (!places) return;
  __local const int4 *dofs = s_dofs + own * NUM_ROWS;
  TILE_UNROLL
  for (int start = 0; start < ROWS; start += AHEAD) {
    // the places of some rows at once: adds do not wait for global memory one by one
    PLACE r_places[AHEAD * COLUMNS];
    TILE_UNROLL
    for (int m = 0; m < AHEAD; ++m)
      TILE_UNROLL
      for (int n = 0; n < COLUMNS; ++n) {
        const int v = min(test_b + start + m, num_test - 1), t = min(trial_b + n * trial_step, num_trial - 1);
        r_places[m * COLUMNS + n] = places[dofs[row + v * row_step].w * stride + dofs[column + t * column_step].w];
      }
    TILE_UNROLL
    for (int m = 0; m < AHEAD; ++m) {
      const int v = test_b + start + m;
      if (start + m >= ROWS || v >= num_test) continue;
      const int4 test = dofs[row + v * row_step];
      if (test.x < 0) continue;
      TILE_UNROLL
      for (int n = 0; n < COLUMNS; ++n) {
        const int t = trial_b + n * trial_step;
        if (t >= num_trial) continue;
        const int4 trial = dofs[column + t * column_step];
        if (trial.x < 0) continue;
        const PLACE place = r_places[m * COLUMNS + n];
        __global double *value = d_values + AT_VALUE(test, trial, place);
% if work.fresh:
        if (place & OWN)
          *value = (double)r_tile[(start + m) * COLUMNS + n];
        else
% endif
          atomic_add_scalar(value, (double)r_tile[(start + m) * COLUMNS + n]);
      }
    }
  }
% else:
  TILE_UNROLL
  for (int m = 0; m < ROWS; ++m)
    TILE_UNROLL
    for (int n = 0; n < COLUMNS; ++n) {
      const int v = test_b + m, t = trial_b + n * trial_step;
      if (v < num_test && t < num_trial)
        d_out[AT_d_out(begin + own, (row + v * row_step) * NUM_ROWS + column + t * column_step)] = (double)r_tile[m * COLUMNS + n];
    }
% endif
}
