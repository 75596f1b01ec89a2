## The cell's coefficients, coordinates, what is kept for it and, where it is affine, its geometry, into private memory.
% for field in work.fields:
  real r_${field.name}_e[${field.size}];
% if work.source == "evector":
  for (int i = 0; i < ${field.size}; ++i) r_${field.name}_e[i] = (real)d_${field.name}[AT_d_${field.name}(cell, i)];
% else:
  UNROLL
  for (int b = 0; b < ${field.num_basis}; ++b) {
    const int offset = d_${field.name}_offsets[AT_d_${field.name}_offsets(cell, b)];
% if not field.masked:
    for (int c = 0; c < ${field.num_comp}; ++c) r_${field.name}_e[b * ${field.num_comp} + c] = (real)d_${field.vector}[offset + c];
% elif field.num_comp == 1:
    r_${field.name}_e[b] = offset < 0 ? R(0) : (real)d_${field.vector}[offset];
% else:
    for (int c = 0; c < ${field.num_comp}; ++c)
      r_${field.name}_e[b * ${field.num_comp} + c] = IS_PRESCRIBED(offset, c) ? R(0) : (real)d_${field.vector}[NODE(offset) + c];
% endif
  }
% endif
% endfor
% if plan.needs_coords:
  real r_x_e[NUM_COORD_BASIS * DIM];
  UNROLL
  for (int b = 0; b < NUM_COORD_BASIS; ++b)
    for (int d = 0; d < DIM; ++d) r_x_e[b * DIM + d] = d_coords[d_coord_offsets[AT_d_coord_offsets(cell, b)] + d];
% endif
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
