// Element matrices: one row of one cell's matrix per work-item.
// Index space: global id = (cell - first) * num_rows + row; rows and columns are ordered by field, basis function, component; the
// row is private and written at the end.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int cell = first + (int)(get_global_id(0) / NUM_ROWS);
  const int row = (int)(get_global_id(0) % NUM_ROWS);
  if (cell >= first + count) return;

  // gather
<%include file="gather.mako"/>
  accum r_row[NUM_ROWS];
  for (int i = 0; i < NUM_ROWS; ++i) r_row[i] = 0;

  for (int q = 0; q < NUM_QPTS; ++q) {
    // tabulate
<%include file="point_geometry.mako"/>
<%include file="point_values.mako"/>
    real phi = 0, phi_x[DIM];
    int row_c = 0;
    for (int d = 0; d < DIM; ++d) phi_x[d] = 0;
% for test in work.rows:
    if (row >= ${test.first_row} && row < ${test.first_row + test.size}) {
      const int b = (row - ${test.first_row}) / ${test.num_comp};
      row_c = ${test.offset} + (row - ${test.first_row}) % ${test.num_comp};
      phi = TABLE_B(${test.table}, q)[b];
      basis_gradient(TABLE_D(${test.table}, q), b, J_inv, phi_x);
    }
% endfor

    // pointwise
    ${declare_outputs}
    pointwise(${pointwise_arguments});

    // integrate: h0 multiplies the direction's value, h1 its gradient, h2 its second derivatives
% for trial in work.rows:
    for (int c = 0; c < ${trial.num_comp}; ++c) {
      const int block = row_c * NUM_COMP + ${trial.offset} + c;
      real h0 = 0, h1[DIM];
      for (int j = 0; j < DIM; ++j) h1[j] = 0;
      ${apply_blocks("block")}
      real flux[DIM];
      pull_back_flux(J_inv, weight, h1, flux);
      h0 *= weight;
      for (int b = 0; b < ${trial.num_basis}; ++b) {
        real sum = TABLE_B(${trial.table}, q)[b] * h0;
        for (int k = 0; k < DIM; ++k) sum += TABLE_D(${trial.table}, q)[b * DIM + k] * flux[k];
% if trial_hessian:
        real psi_x[DIM], psi_xx[DIM * DIM];
        basis_gradient(TABLE_D(${trial.table}, q), b, J_inv, psi_x);
        basis_hessian(TABLE_H(${trial.table}, q), b, J_inv, psi_x, ${'r_map_xx' if work.bends else 'psi_x'}, ${int(work.bends)}, psi_xx);
        for (int k = 0; k < DIM * DIM; ++k) sum += weight * h2[k] * psi_xx[k];
% endif
        r_row[${trial.first_row} + b * ${trial.num_comp} + c] += (accum)sum;
      }
    }
% endfor
  }

  // scatter
  for (int i = 0; i < NUM_ROWS; ++i) d_out[AT_d_out(cell, row * NUM_ROWS + i)] = (double)r_row[i];
}
