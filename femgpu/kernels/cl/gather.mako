## The cell's coefficients, coordinates, what is kept for it and, where it is affine, its geometry, into private memory.
% for field in work.fields:
  real r_${field.name}_e[${field.size}];
% endfor
% if plan.needs_coords:
% for side in work.sides:
  real ${side.name("r_x_e")}[${side.name("NUM_COORD_BASIS")} * DIM];
% endfor
% endif
<%include file="load.mako"/>
<%include file="cell_data.mako"/>\
