// Element matrices: one row of one cell's matrix per work-item.
// Index space: global id = cell * num_rows + row, row = b * NUM_COMP + c; the row is private and written at the end.
#define NUM_ROWS (NUM_BASIS * NUM_COMP)
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${plan.name}(${arguments}) {
  const int cell = (int)(get_global_id(0) / NUM_ROWS);
  const int row = (int)(get_global_id(0) % NUM_ROWS);
  if (cell >= num_cells) return;
  const int row_b = row / NUM_COMP, row_c = row % NUM_COMP;

  // gather
% for field in plan.fields:
  real r_${field.name}_e[${field.size}];
  UNROLL
  for (int b = 0; b < ${field.num_basis}; ++b) {
    const int offset = d_${field.name}_offsets[ENTRY(cell, b, ${field.num_basis})];
    for (int c = 0; c < ${field.num_comp}; ++c) r_${field.name}_e[b * ${field.num_comp} + c] = (real)d_${field.name}[offset + c];
  }
% endfor
% if plan.needs_coords:
  real r_x_e[NUM_COORD_BASIS * DIM];
  for (int b = 0; b < NUM_COORD_BASIS; ++b)
    for (int d = 0; d < DIM; ++d) r_x_e[b * DIM + d] = d_coords[d_coord_offsets[ENTRY(cell, b, NUM_COORD_BASIS)] + d];
% endif
  real J_inv[DIM * DIM], det_J;
% if plan.geometry == "affine_stored":
  for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[ENTRY(cell, i, DIM * DIM + 1)];
  det_J = d_geometry[ENTRY(cell, DIM * DIM, DIM * DIM + 1)];
% elif plan.geometry == "affine_recomputed":
  det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${plan.coord_table}, 0), r_x_e, J_inv);
% endif
  accum r_row[NUM_ROWS];
  for (int i = 0; i < NUM_ROWS; ++i) r_row[i] = 0;

  for (int q = 0; q < NUM_QPTS; ++q) {
    // tabulate
% if plan.geometry == "points_stored":
    for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[ENTRY(cell, q * (DIM * DIM + 1) + i, NUM_QPTS * (DIM * DIM + 1))];
    det_J = d_geometry[ENTRY(cell, q * (DIM * DIM + 1) + DIM * DIM, NUM_QPTS * (DIM * DIM + 1))];
% elif plan.geometry == "points_recomputed":
    det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${plan.coord_table}, q), r_x_e, J_inv);
% endif
<%include file="point_values.mako"/>
    const real weight = TABLE_W(q) * det_J;

    // pointwise
    ${declare_outputs}
    pointwise(r_u, r_u_x, r_w, r_w_x, r_a, r_a_x, r_x, d_constants, ${', '.join(outputs)});

    // integrate: h0 multiplies the trial function's value, h1 its gradient
    real phi_x[DIM];
    const real phi = TABLE_B(0, q)[row_b];
    basis_gradient(TABLE_D(0, q), row_b, J_inv, phi_x);
    for (int c = 0; c < NUM_COMP; ++c) {
      const int block = row_c * NUM_COMP + c;
      real h0 = 0, h1[DIM];
      for (int j = 0; j < DIM; ++j) h1[j] = 0;
% if "g0" in plan.writes:
      h0 += phi * g0[block];
% endif
      for (int i = 0; i < DIM; ++i) {
% if "g1" in plan.writes:
        h1[i] += phi * g1[block * DIM + i];
% endif
% if "g2" in plan.writes:
        h0 += phi_x[i] * g2[block * DIM + i];
% endif
% if "g3" in plan.writes:
        for (int j = 0; j < DIM; ++j) h1[j] += phi_x[i] * g3[(block * DIM + i) * DIM + j];
% endif
      }
      real flux[DIM];
      pull_back_flux(J_inv, weight, h1, flux);
      h0 *= weight;
      for (int b = 0; b < NUM_BASIS; ++b) {
        real sum = TABLE_B(0, q)[b] * h0;
        for (int k = 0; k < DIM; ++k) sum += TABLE_D(0, q)[b * DIM + k] * flux[k];
        r_row[b * NUM_COMP + c] += (accum)sum;
      }
    }
  }

  // scatter
  for (int i = 0; i < NUM_ROWS; ++i) d_out[((size_t)cell * NUM_ROWS + row) * NUM_ROWS + i] = (double)r_row[i];
}
