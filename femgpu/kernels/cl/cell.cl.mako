// Schedule cell: one cell (or one facet of a cell) per work-item, everything private, no barrier.
// Index space: global id = cell, rounded up to the work-group; items past the last cell leave at once.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${plan.name}(${arguments}) {
  const int cell = (int)get_global_id(0);
  if (cell >= num_cells) return;

  // gather
<%include file="gather.mako"/>
% if plan.target == "functional":
  accum r_sum = 0;
% endif
% for i, test in enumerate(plan.tests):
  accum r_f${i}_e[${test.size}];
  for (int i = 0; i < ${test.size}; ++i) r_f${i}_e[i] = 0;
% endfor

  UNROLL_POINTS
  for (int q = 0; q < NUM_QPTS; ++q) {
    // tabulate
<%include file="point_geometry.mako"/>
<%include file="point_values.mako"/>
% if plan.num_state and plan.target != "state":
    for (int i = 0; i < NUM_STATE; ++i) r_s[i] = d_state[STATE(cell, q, i)];
% endif

    // pointwise
    ${declare_outputs}
    pointwise(${pointwise_arguments});

    // integrate
% if plan.target == "functional":
    r_sum += (accum)(weight * f0[0]);
% elif plan.target == "state":
    for (int i = 0; i < NUM_STATE; ++i) d_state[STATE(cell, q, i)] = s[i];
% elif plan.target == "diagonal":
% for i, test in enumerate(plan.tests):
    UNROLL
    for (int b = 0; b < ${test.num_basis}; ++b) {
      const real phi = TABLE_B(${test.table}, q)[b];
      real phi_x[DIM];
      basis_gradient(TABLE_D(${test.table}, q), b, J_inv, phi_x);
% if trial_hessian:
      real phi_xx[DIM * DIM];
      basis_hessian(TABLE_H(${test.table}, q), b, J_inv, phi_x, ${'r_map_xx' if plan.bends else 'phi_x'}, ${int(plan.bends)}, phi_xx);
% endif
      for (int c = 0; c < ${test.num_comp}; ++c) {
        const int cc = (${test.offset} + c) * NUM_COMP + ${test.offset} + c;
        real h0 = 0, h1[DIM];
        for (int j = 0; j < DIM; ++j) h1[j] = 0;
        ${apply_blocks("cc")}
        real sum = h0 * phi;
        for (int j = 0; j < DIM; ++j) sum += h1[j] * phi_x[j];
% if trial_hessian:
        for (int j = 0; j < DIM * DIM; ++j) sum += h2[j] * phi_xx[j];
% endif
        r_f${i}_e[b * ${test.num_comp} + c] += (accum)(weight * sum);
      }
    }
% endfor
% else:
% for i, test in enumerate(plan.tests):
% if test.value:
    integrate_value(${test.num_basis}, ${test.num_comp}, TABLE_B(${test.table}, q), weight, f0 + ${test.offset}, r_f${i}_e);
% endif
% if test.gradient:
    integrate_gradient(${test.num_basis}, ${test.num_comp}, TABLE_D(${test.table}, q), weight, J_inv, f1 + ${test.offset} * DIM, r_f${i}_e);
% endif
% endfor
% endif
  }

  // scatter
% if plan.target == "functional":
  d_out[cell] = r_sum;
% endif
% for i, test in enumerate(plan.tests):
  UNROLL
% if plan.scatter == "atomic":
  for (int b = 0; b < ${test.num_basis}; ++b) {
    const int offset = d_test${i}_offsets[ENTRY(cell, b, ${test.num_basis})];
    for (int c = 0; c < ${test.num_comp}; ++c) atomic_add_scalar(d_out + offset + c, (scalar)r_f${i}_e[b * ${test.num_comp} + c]);
  }
% else:
  for (int b = 0; b < ${test.num_basis}; ++b)
    for (int c = 0; c < ${test.num_comp}; ++c)
      d_out[E_ENTRY(cell, b, c, ${test.first_row}, ${test.num_basis}, ${test.num_comp})] = (scalar)r_f${i}_e[b * ${test.num_comp} + c];
% endif
% endfor
}
