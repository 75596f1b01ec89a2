## J_inv and det_J at point q of a cell that is not affine.
% if work.maps and not work.affine:
% for side in work.sides:
<% J_inv, det_J, geometry = side.name("J_inv"), side.name("det_J"), side.name("d_geometry") %>\
% if plan.geometry == "stored":
    for (int i = 0; i < DIM * DIM; ++i) ${J_inv}[i] = ${plan.word(geometry, "q * (DIM * DIM + 1) + i")};
    ${det_J} = ${plan.word(geometry, "q * (DIM * DIM + 1) + DIM * DIM")};
% elif plan.expanded == "determinant":
    ${det_J} = map_along[0] + here * (map_along[1] + here * map_along[2]);
% elif plan.expanded == "adjugate":
    ${det_J} = map_along[21] + here * (map_along[22] + here * map_along[23]);
    for (int d = 0; d < DIM; ++d) {
      ${J_inv}[${plan.line_axis} * DIM + d] = map_along[d] + here * (map_along[3 + d] + here * map_along[6 + d]);
      ${J_inv}[${(plan.line_axis + 1) % 3} * DIM + d] = map_along[9 + d] + here * map_along[12 + d];
      ${J_inv}[${(plan.line_axis + 2) % 3} * DIM + d] = map_along[15 + d] + here * map_along[18 + d];
    }
    const real inverse_det = reciprocal(${det_J});
% elif plan.expanded == "frame":
    // The columns of J in the row's frame stand in place of J_inv.
    for (int i = 0; i < 6; ++i) ${J_inv}[i] = ALONG(here, map_along[i], map_along[6 + i]);
    const real across_det = ${J_inv}[1] * ${J_inv}[5] - ${J_inv}[2] * ${J_inv}[4], inverse_det = reciprocal(across_det);
    ${det_J} = map_along[13] * across_det;
% elif plan.adjugates:
    // J_inv times det_J stands in place of J_inv: derivatives are divided, and in fluxes det_J cancels.
    ${det_J} = rebuild_adjugate(${side.name("NUM_COORD_BASIS")}, TABLE_D(${side.coord_table}, q), ${side.name("r_x_e")}, ${J_inv});
    const real inverse_det = reciprocal(${det_J});
% else:
    ${det_J} = rebuild(${side.name("NUM_COORD_BASIS")}, TABLE_D(${side.coord_table}, q), ${side.name("r_x_e")}, ${J_inv});
% endif
% endfor
% endif
