// Schedule matrix: element matrices. In the evaluation phase an item stands for (cell, point) and writes what multiplies the basis
// functions there, in reference coordinates; after the barrier for a tile: ROWS basis functions of one component of the test
// function times COLUMNS of one component of the direction, whose entries are private and written at the end. A pass takes POINTS
// points.
// Index space: a group serves CELLS cells, or one of PARTS parts of a cell; local id = (cell, component, tile of rows, tile of
// columns), the last running fastest. Rows and columns are ordered by field, basis function, component.
<%
value, gradient = plan.slots
alone = len(work.rows) == 1
def table(letter, number):
    if plan.staged:
        return f"s_tables + p * {plan.staged_words} + {plan.tabulated[letter, number]}"
    return f"TABLE_{letter}({number}, start + p)"
def derivative(name, letter, b, k):
    if plan.staged:
        return f"{name}_{letter}[{k} * {'num_test' if name == 'v' else 'num_trial'} + {b}]"
    return f"{name}_{letter}[{b} * DIM{' * DIM' * (letter == 'H')} + {k}]"
uses = lambda letter: any(key[0] == letter for key in plan.tabulated)
space = "__local" if plan.staged else "TABLE"
def guarded(row, macro, first, count):
    return "" if alone else f"if ({macro} >= {first} && {macro} < {first + count})"
starts = [sum(plan.stride(other) * other.num_comp for other in work.rows[:i]) for i in range(len(work.rows))]
%>
## What multiplies one derivative of the test function: outputs of the pointwise function become words for the direction's
## derivatives in reference coordinates.
<%def name="pull_back(slot, at, out)">
% if slot.value:
          ${out}[0] = weight * ${slot.value}[${at}];
% endif
% if slot.gradient:
          pull_back_flux(J_inv, weight, ${slot.gradient} + (${at}) * DIM, ${out} + ${slot.gradient_at});
% elif slot.has_gradient:
          for (int j = 0; j < DIM; ++j) ${out}[${slot.gradient_at} + j] = 0;
% endif
% if slot.hessian:
          pull_back_hessian(J_inv, weight, ${slot.hessian} + (${at}) * DIM * DIM, ${out} + ${slot.hessian_at});
% if work.bends:
          pull_back_map(J_inv, ${out} + ${slot.hessian_at}, r_map_xx, ${out} + ${slot.gradient_at});
% endif
% endif
</%def>
## The words of a slot times the direction's basis function b.
<%def name="trial(slot, at, sum)">
% if slot.value:
          ${sum} += t_B[b] * ${at}[0];
% endif
% if slot.has_gradient:
          for (int j = 0; j < DIM; ++j) ${sum} += ${derivative("t", "D", "b", "j")} * ${at}[${slot.gradient_at} + j];
% endif
% if slot.hessian:
          for (int j = 0; j < DIM * DIM; ++j) ${sum} += ${derivative("t", "H", "b", "j")} * ${at}[${slot.hessian_at} + j];
% endif
</%def>
% if value.hessian or gradient.hessian:
<%include file="pull_back.cl"/>
% endif
#define TILES (COMPS * ROW_TILES * COLUMN_TILES)
#define TILE_UNROLL _Pragma("unroll")
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int item = (int)get_local_id(0);
  const int part = (int)get_group_id(0) % PARTS, past = (int)get_group_id(0) / PARTS * CELLS;
  const int begin = first + past, cells = min(CELLS, count - past);
  __local real s_g[CELLS * POINTS * POINT_WORDS];
% if plan.staged:
  __local real s_tables[POINTS * ${plan.staged_words}];
% endif

  // the item's tile: of cell `own` of the group; none where that is past the last
  const int first_comp = part / TILE_PARTS * COMPS;
  const int tile = part % TILE_PARTS * GROUP_SIZE + item, own = tile / TILES;
  const int comp = tile % TILES / (COLUMN_TILES * ROW_TILES);
  const int test_b = tile / COLUMN_TILES % ROW_TILES * ROWS, column_tile = tile % COLUMN_TILES;
  int num_test = 0, row = 0, row_step = 0, num_trial = 0, trial_b = 0, trial_step = 0, trial_comp = 0, column = 0, column_step = 0;
% for i, field in enumerate(work.rows):
  ${guarded(field, "first_comp + comp", field.offset, field.num_comp)} {
    num_test = ${field.num_basis};
    row_step = ${field.num_comp};
    row = ${field.first_row} + first_comp + comp - ${field.offset};
  }
  ${guarded(field, "column_tile", starts[i], plan.stride(field) * field.num_comp)} {
    const int place = column_tile - ${starts[i]};
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
% if plan.staged:
% for (letter, number), at in plan.tabulated.items():
<% basis, words = work.tables[number].num_basis, {"B": 1, "D": work.dim, "H": work.dim**2}[letter] %>\
    for (int i = item; i < points * ${basis * words}; i += GROUP_SIZE)
      s_tables[i / ${basis * words} * ${plan.staged_words} + ${at} + i % ${words} * ${basis} + i / ${words} % ${basis}] = TABLE_${letter}(${number}, start)[i];
% endfor
% endif
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
        __local real *s_out = s_g + i * POINT_WORDS + pair * BLOCK_WORDS;
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
              for (int j = 0; j < ${gradient.words}; ++j) sums[k * ${gradient.words} + j] += J_inv[k * DIM + d] * words[j];
          }
          for (int j = 0; j < DIM * ${gradient.words}; ++j) s_out[${gradient.first} + j] = sums[j];
        }
% endif
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integration phase
    if (own < cells) {
% if work.facet:
      const int facet = d_facets[AT_d_facets(begin + own, 0)];
% endif
      for (int p = 0; p < points; ++p) {
        __local const real *s_in = s_g + (own * points + p) * POINT_WORDS + (comp * NUM_COMP + trial_comp) * BLOCK_WORDS;
% for name, macro, begins in (("v", "first_comp + comp", [field.offset for field in work.rows]), ("t", "column_tile", starts)):
% for letter in "BDH":
% if uses(letter):
% if alone:
        ${space} const real *${name}_${letter} = ${table(letter, work.rows[0].table)};
% else:
        ${space} const real *${name}_${letter} = 0;
% for field, begin in zip(work.rows, begins):
        if (${macro} >= ${begin}) ${name}_${letter} = ${table(letter, field.table)};
% endfor
% endif
% endif
% endfor
% endfor
        real h0[COLUMNS], h1[COLUMNS * DIM];
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
            real sum = 0;
            __local const real *s_k = s_in + ${gradient.first} + k * ${gradient.words};
${trial(gradient, "s_k", "sum")}\
            h1[k * COLUMNS + n] = sum;
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
            for (int k = 0; k < DIM; ++k) sum += ${derivative("v", "D", "b", "k")} * h1[k * COLUMNS + n];
% endif
            r_tile[m * COLUMNS + n] += (accum)sum;
          }
        }
      }
    }
% if plan.passes > 1:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
  }

  // scatter
  if (own >= cells) return;
  TILE_UNROLL
  for (int m = 0; m < ROWS; ++m)
    TILE_UNROLL
    for (int n = 0; n < COLUMNS; ++n) {
      const int v = test_b + m, t = trial_b + n * trial_step;
      if (v < num_test && t < num_trial)
        d_out[AT_d_out(begin + own, (row + v * row_step) * NUM_ROWS + column + t * column_step)] = (double)r_tile[m * COLUMNS + n];
    }
}
