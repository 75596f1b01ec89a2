## The cell's coefficients, coordinates, what is kept for it and, where it is affine, its geometry, into private memory.
% for field in work.fields:
  real r_${field.name}_e[${field.size}];
% endfor
% if plan.needs_coords:
  real r_x_e[NUM_COORD_BASIS * DIM];
% endif
<%include file="load.mako"/>
% if work.facet:
  const int facet = d_facets[AT_d_facets(cell, 0)];
% endif
% if work.num_cell_state and work.target != "state":
  real r_c[NUM_CELL_STATE];
  for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = d_cell_state[AT_d_cell_state(cell, i)];
% endif
% if work.maps:
  real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
  for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, i)];
  det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
% elif work.affine:
  det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${work.coord_table}, 0), r_x_e, J_inv);
% endif
% endif
