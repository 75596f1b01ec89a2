## J_inv and det_J at point q of a cell that is not affine.
% if plan.geometry == "points_stored":
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[ENTRY(cell, q * (DIM * DIM + 1) + i, NUM_QPTS * (DIM * DIM + 1))];
    det_J = d_geometry[ENTRY(cell, q * (DIM * DIM + 1) + DIM * DIM, NUM_QPTS * (DIM * DIM + 1))];
% elif plan.geometry == "points_recomputed":
    det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${plan.coord_table}, q), r_x_e, J_inv);
% endif
