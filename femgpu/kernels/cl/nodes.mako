## Values of a field at nodes, and sums into a row's: expressions and statements for node `node` of a cell, component c. `offset` is
## where the node stands in the vectors; `inside` whether it is inside of its cell, where the variable `stores` leaves that open.
<%!
def component(work):
    """The component of a node in the vectors."""
    return "c" if work.parts == 1 else "part"
%>\
## The item's number in its cell, the cell's in the work-group, and in the mesh; components that stand as cells follow each other. Past the
## last of them items repeat it.
<%def name="cell(plan)">\
<% work = plan.work %>\
% if plan.cells_first:
  const int item = (int)get_local_id(0) / CELLS, own = (int)get_local_id(0) % CELLS;
% else:
  const int item = (int)get_local_id(0) % ITEMS, own = (int)get_local_id(0) / ITEMS;
% endif
% if work.parts == 1:
  const int past = (int)get_group_id(0) * CELLS + own, cell = first + min(past, count - 1);
% else:
  const int past = (int)get_group_id(0) * CELLS + own, number = min(past, ${end(work)} - 1);
  const int cell = first + number / ${work.parts}, part = number % ${work.parts};
% endif
</%def>\
<%def name="end(work)">count${f" * {work.parts}" if work.parts > 1 else ""}</%def>\
<%def name="offset(work, name, node)">d_${name}_offsets[AT_d_${name}_offsets(cell, ${node})]</%def>\
<%def name="value(work, field, offset, node)">\
% if work.source == "evector":
(real)d_${field.name}[AT_d_${field.name}(cell, (${node}) * ${field.num_comp} + c)]\
% elif not field.masked:
(real)d_${field.vector}[${offset} + ${component(work)}]\
% elif field.num_comp * work.parts == 1:
${offset} < 0 ? R(0) : (real)d_${field.vector}[${offset}]\
% else:
IS_PRESCRIBED(${offset}, ${component(work)}) ? R(0) : (real)d_${field.vector}[NODE(${offset}) + ${component(work)}]\
% endif
</%def>\
<%def name="add(plan, i, row, offset, node, sum, inside=None)">\
<% sum = f"(scalar){sum}" + " * r_scale" * plan.sums_dots %>\
% if plan.stores_inside:
if (stores && ${inside}) { ${put(plan.work, row, offset, sum, "d_out[{}] = {}")} }
        else \
% endif
% if plan.scatter != "atomic":
d_out${i}[AT_d_out${i}(cell, (${node}) * ${row.num_comp} + c)] = ${sum};\
% else:
${put(plan.work, row, offset, sum, "atomic_add_scalar(d_out + {}, {})")}\
% endif
</%def>\
## A statement about a number of the result, where it is not prescribed.
<%def name="put(work, row, offset, sum, how)">\
% if not row.masked:
${how.format(f"{offset} + {component(work)}", sum)};\
% elif row.num_comp * work.parts == 1:
if (${offset} >= 0) ${how.format(offset, sum)};\
% else:
if (!IS_PRESCRIBED(${offset}, ${component(work)})) ${how.format(f"NODE({offset}) + {component(work)}", sum)};\
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
