// Schedule sumfact: LANES cells per work-item, everything private, no barrier. Coefficients become values and derivatives at the points
// one direction after the other, and what multiplies the test function there becomes its rows the same way back. Nodes and points
// stand in the order of the tensor product; all arrays hold vectors of LANES numbers, one for each cell.
// Index space: global id = (cell - first) / LANES, rounded up to the work-group. Lanes past the last cell repeat it and write nothing.
<%def name="vector(kind, type)">\
% if plan.lanes == 1:
typedef ${type} ${kind};
% else:
typedef ${plan.ctype(type)}${plan.lanes} ${kind};
% endif
</%def>\
## Where registers do not hold a cell's numbers a GPU's compiler is told to leave loops alone: it unrolls all of them, for minutes.
<% ROLLED = '_Pragma("unroll 1") ' if plan.unroll and not plan.fits_registers else "" %>\
## target[a, r, b] (+)= sum_c matrix[r * row_step + c * column_step] source[a, c, b]
<%def name="contraction(name, type, vectors)">\
inline void ${name}(const int rows, const int columns, const int row_step, const int column_step, const int above, const int below,
                    __constant const real *matrix, const ${vectors} *source, ${vectors} *target, const int adds) {
  ${ROLLED}for (int r = 0; r < rows; ++r)
    ${ROLLED}for (int a = 0; a < above; ++a)
      ${ROLLED}for (int b = 0; b < below; ++b) {
        ${vectors} sum = adds ? target[(a * rows + r) * below + b] : (${vectors})(0);
        _Pragma("unroll")
        for (int c = 0; c < columns; ++c)
          sum += (${type})matrix[r * row_step + c * column_step] * source[(a * columns + c) * below + b];
        target[(a * rows + r) * below + b] = sum;
      }
}
</%def>\
<%def name="steps(name, kind, sums, found)">\
% for step in found:
<% source, target = (f"r_{kind}_{array}" if array not in "cq" else f"r_{sums.name}_{array}" for array in (step.source[0], step.target[0])) %>\
  ${name}(${step.rows}, ${step.columns}, ${step.row_step}, ${step.column_step}, ${step.above}, ${step.below}, ${step.matrix}, ${source} + ${step.source[1]}, ${target} + ${step.target[1]}, ${int(step.adds)});
% endfor
</%def>\
${vector("reals", "real")}\
${vector("accums", "accum")}\
${contraction("evaluate", "real", "reals")}
${contraction("integrate", "accum", "accums")}
#define LATTICE
<%include file="points.cl"/>
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int begin = first + (int)get_global_id(0) * LANES, last = first + count - 1;
  if (begin > last) return;
% for kind in ("real", "accum"):
% for array, words in plan.scratch.items():
  ${kind}s r_${kind}_${array}[${words}];
% endfor
% endfor
% for kind, found in (("real", plan.fields), ("accum", plan.rows)):
% for sums in found:
  ${kind}s r_${sums.name}_q[${sums.words}];
% if sums.aliased:
  ${kind}s *r_${sums.name}_c = r_${sums.name}_q;
% else:
  ${kind}s r_${sums.name}_c[${sums.coefficients}];
% endif
% endfor
% endfor
% if work.maps and work.affine:
  reals r_map[DIM * DIM + 1];
% endif

  // gather
  for (int lane = 0; lane < LANES; ++lane) {
    const int cell = min(begin + lane, last);
% for sums in plan.fields:
    real *r_${sums.name}_e = (real *)r_${sums.name}_c + lane;
% endfor
<%include file="load.mako"/>
% if work.maps and work.affine:
    real *map = (real *)r_map + lane;
% if plan.geometry == "stored":
    for (int i = 0; i <= DIM * DIM; ++i) map[i * LANES] = d_geometry[AT_d_geometry(cell, i)];
% else:
    real J[DIM * DIM], inverse[DIM * DIM];
    for (int d = 0; d < DIM; ++d)
      for (int k = 0; k < DIM; ++k) {
        real sum = 0;
        for (int b = 0; b < NUM_COORD_BASIS; ++b) sum += LINE_MAP[b * DIM + k] * r_x_e[(d * NUM_COORD_BASIS + b) * LANES];
        J[d * DIM + k] = sum;
      }
    map[DIM * DIM * LANES] = invert(J, inverse);
    for (int i = 0; i < DIM * DIM; ++i) map[i * LANES] = inverse[i];
% endif
% endif
  }

  // tabulate
% for sums in plan.fields:
${steps("evaluate", "real", sums, sums.evaluation())}\
% endfor

% if work.target == "functional":
  accums r_sums = (accums)(0);
% endif
  ${ROLLED}for (int place = 0; place < NUM_QPTS; ++place) {
    const int q = place;
    for (int lane = 0; lane < LANES; ++lane) {
      const int cell = min(begin + lane, last);
% for sums in plan.fields:
      const real *r_${sums.name}_e = (const real *)r_${sums.name}_q + lane;
% endfor
% for sums in plan.rows:
      accum *r_${sums.name}_e = (accum *)r_${sums.name}_q + lane;
% endfor
% if work.target == "functional":
      accum *r_sum = (accum *)&r_sums + lane;
% endif
% if work.num_cell_state and work.target != "state":
      real r_c[NUM_CELL_STATE];
      for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = d_cell_state[AT_d_cell_state(cell, i)];
% endif
% if work.maps:
      real J_inv[DIM * DIM], det_J;
% if work.affine:
      for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = ((const real *)r_map)[i * LANES + lane];
      det_J = ((const real *)r_map)[DIM * DIM * LANES + lane];
% endif
% endif
<%include file="point.mako"/>
    }
  }

  // integrate
% for sums in plan.rows:
% if not sums.orders:
  for (int i = 0; i < ${sums.coefficients}; ++i) r_${sums.name}_c[i] = (accums)(0);
% endif
${steps("integrate", "accum", sums, sums.integration())}\
% endfor

  for (int lane = 0; lane < LANES && begin + lane <= last; ++lane) {
    const int cell = begin + lane;
% for sums in plan.fields:
    const real *r_${sums.name}_e = (const real *)r_${sums.name}_c + lane;
% endfor
% for sums in plan.rows:
    const accum *r_${sums.name}_e = (const accum *)r_${sums.name}_c + lane;
% endfor
% if work.target == "functional":
    const accum *r_sum = (const accum *)&r_sums + lane;
% endif
<%include file="scatter.mako"/>
  }
}
