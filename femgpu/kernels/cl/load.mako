## The coefficients of a cell's fields, r_<field>_e, and its coordinates, r_x_e, from memory: all of them, or `ahead`
## what kernels with lists of nodes read by offsets of its own, and the rest later.
<%page args="ahead=None, reread=()"/>\
<%
lists = {name: entry for entry in plan.lists for name in entry.fields}
in_vectors = [entry for entry in plan.lists if entry.vector_widths]
%>\
% for entry in () if ahead else in_vectors:
  UNROLL
  ${plan.each("b", entry.num_basis)} {
    const int slot = SLOT(r_places${entry.number}[b]);
% for i, array in enumerate(entry.vector_arrays):
    const ${array.ctype} vector${i} = ((__local ${array.ctype} *)${array.name})[slot];
% for k, (name, count, c) in enumerate(array.numbers):
    r_${name}_e[${plan.place(entry.num_basis, count, "b", str(c))}] = vector${i}${f".s{k}" * (len(array.numbers) > 1)};
% endfor
% endfor
  }
% endfor
% for field in (field for field in work.fields if field not in reread and ahead in (None, field.name not in lists)):
<% entry = f"r_{field.name}_e[{plan.place(field.num_basis, field.num_comp, 'b', 'c')}]" %>\
% if work.source == "evector":
  ${plan.each("b", field.num_basis)}
    for (int c = 0; c < ${field.num_comp}; ++c) ${entry} = (real)d_${field.name}[AT_d_${field.name}(cell, b * ${field.num_comp} + c)];
% elif field.name in lists and lists[field.name] in in_vectors:
<% continue %>\
% elif field.name in lists:
  UNROLL
  ${plan.each("b", field.num_basis)}
    for (int c = 0; c < ${field.num_comp}; ++c) ${entry} = ${listed(lists[field.name], f"s_{field.name}", "c")};
% else:
  UNROLL
  ${plan.each("b", field.num_basis)} {
<% offset = f"d_{field.name}_offsets[AT_d_{field.name}_offsets(cell, b)]" %>\
% if plan.counts_cells and field.num_basis == 1 and not field.masked:
    const int offset = d_${field.name}_offsets ? ${offset} : ${field.num_comp} * cell;
% else:
    const int offset = ${offset};
% endif
% if not field.masked:
    for (int c = 0; c < ${field.num_comp}; ++c) ${entry} = (real)d_${field.vector}[offset + c];
% elif field.num_comp == 1:
    r_${field.name}_e[${plan.place(field.num_basis, 1, "b", "0")}] = offset < 0 ? R(0) : (real)d_${field.vector}[offset];
% else:
    for (int c = 0; c < ${field.num_comp}; ++c)
      ${entry} = IS_PRESCRIBED(offset, c) ? R(0) : (real)d_${field.vector}[NODE(offset) + c];
% endif
  }
% endif
% endfor
% if plan.needs_coords and not ahead:
% for joined in (entry for entry in plan.lists if entry.coords and entry not in in_vectors):
  UNROLL
  ${plan.each("b", "NUM_COORD_BASIS")}
    for (int d = 0; d < DIM; ++d) r_x_e[${plan.place(work.num_coord_basis, work.dim, "b", "d")}] = ${listed(joined, "s_x", "d")};
% endfor
% for side in () if any(entry.coords for entry in plan.lists) else work.sides:
<% offsets = side.name("d_coord_offsets") %>\
  UNROLL
  ${plan.each("b", side.name("NUM_COORD_BASIS"))}
    for (int d = 0; d < DIM; ++d) ${side.name("r_x_e")}[${plan.place(work.num_coord_basis, work.dim, "b", "d")}] = d_coords[${offsets}[AT_${offsets}(cell, b)] + d];
% endfor
% endif
