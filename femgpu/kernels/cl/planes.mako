<%namespace name="nodes" file="nodes.mako"/>\
<%namespace name="lines_of" file="lines.mako"/>\
## An item's planes of numbers: 1D matrices times their lines, to local memory and back, and results at nodes, r_f<row>_nodes[c, l], to
## global memory. SHORT stands before loops that are unrolled.
## target[(r, l)] (+)= sum_m matrix[r, m] source[(m, l)] for all lines l of a plane: the strides of a line and between lines.
<%def name="multiply(plan, rows, columns, lines, matrix, transposed, source, target, type, adds=False)">\
<% (name, along, across), (into, to, over) = source, target; ends = f"({name} + l * {across})", f"({into} + l * {over})" %>\
SHORT for (int l = 0; l < ${lines}; ++l) {
          ${lines_of.apply(plan, rows, columns, matrix, transposed, *ends, type, along, to, adds)}
        }\
</%def>\
## An item's plane across the second or the third direction, between registers and local memory.
<%def name="move(first, second, line, plane, local, private, into_local)">\
SHORT for (int m = 0; m < ${second}; ++m)
          SHORT for (int n = 0; n < ${first}; ++n) ${f"{local}[m * {plane} + n] = {private}[m * {line} + n]" if into_local else f"{private}[m * {line} + n] = {local}[m * {plane} + n]"};\
</%def>\
## Adds component c of row i at an item's nodes, `sums`. What is loaded comes before the first sum, for loads wait for sums.
<%def name="scatter(plan, work, i, sums, row)">\
<% p = sums.sizes.p1d %>\
      if (past < ${nodes.end(work)}) {
% if plan.scatter == "atomic":
        int f${i}_offsets[${p * p}];
        SHORT for (int l = 0; l < ${p * p}; ++l) f${i}_offsets[l] = ${nodes.offset(work, f"test{i}", plan.node(p))};
% endif
% if plan.sums_dots:
        if (d_dots)
          SHORT for (int l = 0; l < ${p * p}; ++l) r_dot += (double)sums[l] * (${nodes.value(work, row.direction(i), f"f{i}_offsets[l]", plan.node(p))});
% endif
% if plan.stores_inside:
        const int stores = d_stores && item > 0 && item < ${p - 1};
% endif
        SHORT for (int l = 0; l < ${p * p}; ++l) {
          ${nodes.add(plan, i, row, f"f{i}_offsets[l]", plan.node(p), "sums[l]", " && ".join(f"l {by} {p} > 0 && l {by} {p} < {p - 1}" for by in "%/"))}
        }
      }
</%def>\
