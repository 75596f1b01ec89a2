## Values of a field at nodes, and sums into a row's: expressions and statements for node `node` of a cell, component c. `offset` is
## where the node stands in the vectors; `inside` whether it is inside of its cell, where the variable `stores` leaves that open.
<%def name="offset(work, name, node)">d_${name}_offsets[AT_d_${name}_offsets(cell, ${node})]</%def>\
<%def name="value(work, field, offset, node)">\
% if work.source == "evector":
(real)d_${field.name}[AT_d_${field.name}(cell, (${node}) * ${field.num_comp} + c)]\
% elif not field.masked:
(real)d_${field.vector}[${offset} + c]\
% elif field.num_comp == 1:
${offset} < 0 ? R(0) : (real)d_${field.vector}[${offset}]\
% else:
IS_PRESCRIBED(${offset}, c) ? R(0) : (real)d_${field.vector}[NODE(${offset}) + c]\
% endif
</%def>\
<%def name="add(plan, i, row, offset, node, sum, inside=None)">\
<% sum = f"(scalar){sum}" + " * r_scale" * plan.sums_dots %>\
% if plan.stores_inside:
if (stores && ${inside}) { ${put(row, offset, sum, "d_out[{}] = {}")} }
        else \
% endif
% if plan.scatter != "atomic":
d_out${i}[AT_d_out${i}(cell, (${node}) * ${row.num_comp} + c)] = ${sum};\
% else:
${put(row, offset, sum, "atomic_add_scalar(d_out + {}, {})")}\
% endif
</%def>\
## A statement about a number of the result, where it is not prescribed.
<%def name="put(row, offset, sum, how)">\
% if not row.masked:
${how.format(f"{offset} + c", sum)};\
% elif row.num_comp == 1:
if (${offset} >= 0) ${how.format(offset, sum)};\
% else:
if (!IS_PRESCRIBED(${offset}, c)) ${how.format(f"NODE({offset}) + c", sum)};\
% endif
</%def>\
## The coordinates of a cell's nodes, loaded by all its items. What depends on nothing is loaded first and what is needed last is stored
## last: a work-group waits for memory twice, whatever it loads.
<%def name="coord_offsets(plan)">\
  int x_offsets[${plan.coord_turns}];
  SHORT for (int turn = 0; turn < ${plan.coord_turns}; ++turn)
    x_offsets[turn] = d_coord_offsets[AT_d_coord_offsets(cell, min(item + turn * ITEMS, NUM_COORD_BASIS - 1))];
</%def>\
<%def name="coord_values(plan)">\
  real x_values[${plan.coord_turns} * DIM];
  SHORT for (int turn = 0; turn < ${plan.coord_turns}; ++turn)
    SHORT for (int d = 0; d < DIM; ++d) x_values[turn * DIM + d] = d_coords[x_offsets[turn] + d];
</%def>\
<%def name="keep_coords(plan)">\
  SHORT for (int turn = 0; turn < ${plan.coord_turns}; ++turn)
    if (item + turn * ITEMS < NUM_COORD_BASIS)
      SHORT for (int d = 0; d < DIM; ++d) l_x[d * NUM_COORD_BASIS + item + turn * ITEMS] = x_values[turn * DIM + d];
</%def>\
