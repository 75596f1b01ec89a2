## Values of a field at nodes, and sums into a row's: expressions and statements for node `node` of a cell, component c. `offset` is
## where the node stands in the vectors.
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
<%def name="add(plan, i, row, offset, node, sum)">\
<% sum = f"(scalar){sum}" + " * r_scale" * plan.sums_dots %>\
% if plan.scatter != "atomic":
d_out${i}[AT_d_out${i}(cell, (${node}) * ${row.num_comp} + c)] = ${sum};\
% elif not row.masked:
atomic_add_scalar(d_out + ${offset} + c, ${sum});\
% elif row.num_comp == 1:
if (${offset} >= 0) atomic_add_scalar(d_out + ${offset}, ${sum});\
% else:
if (!IS_PRESCRIBED(${offset}, c)) atomic_add_scalar(d_out + NODE(${offset}) + c, ${sum});\
% endif
</%def>\
