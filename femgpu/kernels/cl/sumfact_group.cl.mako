// Schedule sumfact, ITEMS work-items for each of the CELLS cells of a work-group, whose lattices stand in local memory. Between barriers
// items take lines of a lattice, whose contraction with a 1D matrix is private, and points.
// Index space: local id = (cell, item). Past the last cell of the launch items repeat it and write nothing.
#define LATTICE __local
// All items go round equally often: PoCL 3.1 computes something else where they do not, in some work-groups of odd size.
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
## target[a, r, b] (+)= sum_c matrix[r * row_step + c * column_step] source[a, c, b]
<%def name="contraction(name, type)">\
inline void ${name}(const int item, const int rows, const int columns, const int row_step, const int column_step, const int above,
                    const int below, __constant const real *matrix, __local const ${type} *source, __local ${type} *target,
                    const int adds) {
  EACH(line, above * below) {
    __local const ${type} *in = source + line / below * columns * below + line % below;
    __local ${type} *out = target + line / below * rows * below + line % below;
    ${type} values[LINE];
    _Pragma("unroll")
    for (int c = 0; c < columns; ++c) values[c] = in[c * below];
    UNROLL
    for (int r = 0; r < rows; ++r) {
      ${type} sum = adds ? out[r * below] : 0;
      _Pragma("unroll")
      for (int c = 0; c < columns; ++c) sum += (${type})matrix[r * row_step + c * column_step] * values[c];
      out[r * below] = sum;
    }
  }
}
</%def>\
<%def name="steps(name, found)">\
% for phase in found:
  barrier(CLK_LOCAL_MEM_FENCE);
% for sums, step in phase:
  ${name}(item, ${step.rows}, ${step.columns}, ${step.row_step}, ${step.column_step}, ${step.above}, ${step.below}, ${step.matrix}, r_${sums.name}_${step.source[0]} + ${step.source[1]}, r_${sums.name}_${step.target[0]} + ${step.target[1]}, ${int(step.adds)});
% endfor
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
</%def>\
## What `load.mako`, `point.mako` and `scatter.mako` call r_<name>_e.
<%def name="entries(found, type, array)">\
% for sums in found:
    __local ${type} *r_${sums.name}_e = r_${sums.name}_${array};
% endfor
</%def>\
${contraction("evaluate", "real")}
${contraction("integrate", "accum")}
<%include file="points.cl"/>
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int item = (int)get_local_id(0) % ITEMS, own = (int)get_local_id(0) / ITEMS;
  const int past = (int)get_group_id(0) * CELLS + own, cell = first + min(past, count - 1);
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}]; // ${plan.itemsize(array.ctype) * array.words} bytes
% endfor
% for array in plan.cell_local:
  __local ${array.ctype} *${array.name.replace("s_", "r_", 1)} = ${array.name} + own * ${array.words};
% endfor
% for sums in (*plan.fields, *plan.rows):
% if sums.aliased:
  __local ${'real' if sums in plan.fields else 'accum'} *r_${sums.name}_c = r_${sums.name}_q;
% endif
% endfor

  // gather
  {
${entries(plan.fields, "real", "c")}\
<%include file="load.mako"/>
  }

  // tabulate
${steps("evaluate", plan.evaluation)}\
% if plan.maps_once:
  if (item == 0) {
    real J[DIM * DIM], inverse[DIM * DIM];
    for (int d = 0; d < DIM; ++d)
      for (int k = 0; k < DIM; ++k) {
        real sum = 0;
        for (int b = 0; b < NUM_COORD_BASIS; ++b) sum += LINE_MAP[b * DIM + k] * r_x_c[d * NUM_COORD_BASIS + b];
        J[d * DIM + k] = sum;
      }
    r_map[DIM * DIM] = invert(J, inverse);
    for (int i = 0; i < DIM * DIM; ++i) r_map[i] = inverse[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif

  EACH(place, NUM_QPTS) {
    const int q = place;
${entries(plan.fields, "real", "q")}\
${entries(plan.rows, "accum", "q")}\
% if work.num_cell_state:
    real r_c[NUM_CELL_STATE];
    for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = d_cell_state[AT_d_cell_state(cell, i)];
% endif
% if work.maps:
    real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, i)];
    det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
% elif work.affine:
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = r_map[i];
    det_J = r_map[DIM * DIM];
% endif
% endif
<%include file="point.mako"/>
  }

  // integrate
% for sums in plan.rows:
% if not sums.orders:
  EACH(i, ${sums.coefficients}) r_${sums.name}_c[i] = 0;
% endif
% endfor
${steps("integrate", plan.integration)}\

  if (past < count) {
${entries(plan.fields, "real", "c")}\
${entries(plan.rows, "accum", "c")}\
<%include file="scatter.mako"/>
  }
}
