## The cell's coefficients, coordinates, what is kept for it and, where it is affine, its geometry, into private memory; with `ahead` given
## coefficients without what has been loaded ahead, and without those of fields that are read again at each point.
<%page args="ahead=None, reread=()"/>\
<% loaded = {field.name for field in work.fields} - {name for entry in plan.lists for name in entry.fields} if ahead is False else () %>\
% for field in (field for field in work.fields if field.name not in loaded and field not in reread):
  real r_${field.name}_e[${field.size}];
% endfor
% if plan.needs_coords:
% for side in work.sides:
  real ${side.name("r_x_e")}[${side.name("NUM_COORD_BASIS")} * DIM];
% endfor
% endif
<%include file="load.mako" args="ahead=ahead, reread=reread"/>
% if work.facet:
% for side in work.sides:
  const int ${side.name("facet")} = ${side.name("d_facets")}[AT_${side.name("d_facets")}(cell, 0)];
% endfor
% endif
% if work.num_cell_state and work.target != "state":
  real r_c[NUM_CELL_STATE];
  for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = d_cell_state[AT_d_cell_state(cell, i)];
% endif
% if work.maps:
% for side in work.sides:
<% J_inv, det_J, geometry = side.name("J_inv"), side.name("det_J"), side.name("d_geometry") %>\
  real ${J_inv}[DIM * DIM], ${det_J};
% if work.affine and plan.geometry == "stored":
  for (int i = 0; i < DIM * DIM; ++i) ${J_inv}[i] = ${geometry}[AT_${geometry}(cell, i)];
  ${det_J} = ${geometry}[AT_${geometry}(cell, DIM * DIM)];
% elif work.affine:
  ${det_J} = rebuild(${side.name("NUM_COORD_BASIS")}, TABLE_D(${side.coord_table}, 0), ${side.name("r_x_e")}, ${J_inv});
% endif
% endfor
% endif
