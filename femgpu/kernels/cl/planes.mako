<%namespace name="nodes" file="nodes.mako"/>\
## An item's planes of numbers: 1D matrices times their lines, to local memory and back, and results at nodes, r_f<row>_nodes[c, l], to
## global memory. SHORT stands before loops that are unrolled.
## target[(r, l)] (+)= sum_m matrix[r, m] source[(m, l)] for all lines l of a plane: the strides of a line and between lines
<%def name="multiply(rows, columns, lines, matrix, transposed, source, target, type, adds=False)">\
<% (name, along, across), (into, to, over) = source, target %>\
SHORT for (int l = 0; l < ${lines}; ++l)
          SHORT for (int r = 0; r < ${rows}; ++r) {
            ${type} sum = 0;
            SHORT for (int m = 0; m < ${columns}; ++m)
              sum += (${type})${matrix}[${f"m * {rows} + r" if transposed else f"r * {columns} + m"}] * ${name}[m * ${along} + l * ${across}];
            ${into}[r * ${to} + l * ${over}] ${"+=" if adds else "="} sum;
          }\
</%def>\
## An item's plane across the second or the third direction, between registers and local memory.
<%def name="move(first, second, line, plane, local, private, into_local)">\
SHORT for (int m = 0; m < ${second}; ++m)
          SHORT for (int n = 0; n < ${first}; ++n) ${f"{local}[m * {plane} + n] = {private}[m * {line} + n]" if into_local else f"{private}[m * {line} + n] = {local}[m * {plane} + n]"};\
</%def>\
## Shows the other cells of the work-group which nodes are at the ends of the first direction, and what is to be added at the high end:
## r_f<i>_nodes[c, l].
<%def name="show_ends(plan, work, i, sums)">\
<% p, (low, high, at) = sums.sizes.p1d, plan.ends(sums) %>\
    SHORT for (int l = 0; l < ${p * p}; ++l) f${i}_offsets[l] = ${nodes.offset(work, f"test{i}", plan.node(p))};
    SHORT for (int l = 0; l < ${p * p}; ++l) {
      if (${low}) s_f${i}_low[own * ${p * p} + ${at}] = f${i}_offsets[l];
      if (${high}) {
        s_f${i}_high[own * ${p * p} + ${at}] = f${i}_offsets[l];
        SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) s_f${i}_shared[(own * ${sums.sizes.num_comp} + c) * ${p * p} + ${at}] = r_f${i}_nodes[c * ${p * p} + l];
      }
    }
</%def>\
## Adds component c of row i at an item's nodes, `sums`. Where the high end of the cell before is the low end of this one, this one adds
## for both. Offsets are loaded before the first sum is added, for loads wait for sums.
<%def name="scatter(plan, work, i, sums, row)">\
<% p, (low, high, at) = sums.sizes.p1d, plan.ends(sums) %>\
      if (past < count) {
% if plan.scatter == "atomic" and not plan.merges:
        int f${i}_offsets[${p * p}];
        SHORT for (int l = 0; l < ${p * p}; ++l) f${i}_offsets[l] = ${nodes.offset(work, f"test{i}", plan.node(p))};
% endif
        SHORT for (int l = 0; l < ${p * p}; ++l) {
% if plan.merges:
          const int taken = ${low} && own > 0 && s_f${i}_high[(own - 1) * ${p * p} + ${at}] == f${i}_offsets[l];
          const int given = ${high} && own + 1 < CELLS && past + 1 < count && s_f${i}_low[(own + 1) * ${p * p} + ${at}] == f${i}_offsets[l];
          if (!given) {
            const accum total = taken ? sums[l] + s_f${i}_shared[((own - 1) * ${sums.sizes.num_comp} + c) * ${p * p} + ${at}] : sums[l];
            ${nodes.add(plan, i, row, f"f{i}_offsets[l]", plan.node(p), "total")}
          }
% else:
          ${nodes.add(plan, i, row, f"f{i}_offsets[l]", plan.node(p), "sums[l]")}
% endif
        }
% if plan.sums_dots:
        if (d_dots)
          SHORT for (int l = 0; l < ${p * p}; ++l) r_dot += (double)sums[l] * (${nodes.value(work, plan.direction(i, row), f"f{i}_offsets[l]", plan.node(p))});
% endif
      }
</%def>\
