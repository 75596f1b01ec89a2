## J_inv and det_J at point q of a cell that is not affine.
% if work.maps and not work.affine:
% for side in work.sides:
<% J_inv, det_J, geometry = side.name("J_inv"), side.name("det_J"), side.name("d_geometry") %>\
% if plan.geometry == "stored":
    for (int i = 0; i < DIM * DIM; ++i) ${J_inv}[i] = ${plan.word(geometry, "q * (DIM * DIM + 1) + i")};
    ${det_J} = ${plan.word(geometry, "q * (DIM * DIM + 1) + DIM * DIM")};
% elif plan.measures:
    ${det_J} = det_along[0] + here * (det_along[1] + here * det_along[2]);
% elif plan.adjugates:
    // J_inv times det_J stands in place of J_inv: derivatives are divided, and in fluxes det_J cancels.
    ${det_J} = rebuild_adjugate(${side.name("NUM_COORD_BASIS")}, TABLE_D(${side.coord_table}, q), ${side.name("r_x_e")}, ${J_inv});
    const real inverse_det = reciprocal(${det_J});
% else:
    ${det_J} = rebuild(${side.name("NUM_COORD_BASIS")}, TABLE_D(${side.coord_table}, q), ${side.name("r_x_e")}, ${J_inv});
% endif
% endfor
% endif
