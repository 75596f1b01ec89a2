## The cell's coefficients, coordinates and, where it is affine, geometry, into private memory.
% for field in plan.fields:
  real r_${field.name}_e[${field.size}];
% if plan.source == "evector":
  for (int i = 0; i < ${field.size}; ++i)
    r_${field.name}_e[i] = (real)d_${field.name}[ENTRY(cell, i / ${field.num_comp}, ${field.num_basis}) * ${field.num_comp} + i % ${field.num_comp}];
% else:
  UNROLL
  for (int b = 0; b < ${field.num_basis}; ++b) {
    const int offset = d_${field.name}_offsets[ENTRY(cell, b, ${field.num_basis})];
    for (int c = 0; c < ${field.num_comp}; ++c) r_${field.name}_e[b * ${field.num_comp} + c] = (real)d_${field.name}[offset + c];
  }
% endif
% endfor
% if plan.needs_coords:
  real r_x_e[NUM_COORD_BASIS * DIM];
  UNROLL
  for (int b = 0; b < NUM_COORD_BASIS; ++b)
    for (int d = 0; d < DIM; ++d) r_x_e[b * DIM + d] = d_coords[d_coord_offsets[ENTRY(cell, b, NUM_COORD_BASIS)] + d];
% endif
% if plan.facet:
  const int facet = d_facets[cell];
% endif
  real J_inv[DIM * DIM], det_J;
% if plan.geometry == "affine_stored":
  for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[ENTRY(cell, i, DIM * DIM + 1)];
  det_J = d_geometry[ENTRY(cell, DIM * DIM, DIM * DIM + 1)];
% elif plan.geometry == "affine_recomputed":
  det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${plan.coord_table}, 0), r_x_e, J_inv);
% endif
