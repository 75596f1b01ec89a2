## J_inv and det_J at point q of a cell that is not affine.
% if work.maps and not work.affine:
% if plan.geometry == "stored":
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, q * (DIM * DIM + 1) + i)];
    det_J = d_geometry[AT_d_geometry(cell, q * (DIM * DIM + 1) + DIM * DIM)];
% else:
    det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${work.coord_table}, q), r_x_e, J_inv);
% endif
% endif
