// Schedule cell: one cell (or one facet of a cell) per work-item, everything private, no barrier.
// Index space: global id = cell - first, rounded up to the work-group; items past the last cell leave at once.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int cell = first + (int)get_global_id(0);
  if (cell >= first + count) return;

  // gather
<%include file="gather.mako"/>
% if work.target == "functional":
  accum r_sum = 0;
% endif
% for i, row in enumerate(work.rows):
  accum r_f${i}_e[${row.size}];
  UNROLL
  for (int i = 0; i < ${row.size}; ++i) r_f${i}_e[i] = 0;
% endfor

  POINTS_UNROLL
  for (int q = 0; q < NUM_QPTS; ++q) {
    // tabulate
<%include file="point_geometry.mako"/>
<%include file="point_values.mako"/>
% if work.num_state and work.target != "state":
    for (int i = 0; i < NUM_STATE; ++i) r_s[i] = d_state[AT_d_state(cell, q * NUM_STATE + i)];
% endif

    // pointwise
    ${declare_outputs}
    pointwise(${pointwise_arguments});

    // integrate
% if work.target == "functional":
    r_sum += (accum)(${'f0[0]' if work.reference else 'weight * f0[0]'});
% elif work.target == "state":
% if work.num_state:
    for (int i = 0; i < NUM_STATE; ++i) d_state[AT_d_state(cell, q * NUM_STATE + i)] = s[i];
% endif
% if work.num_cell_state:
    if (q == 0)
      for (int i = 0; i < NUM_CELL_STATE; ++i) d_cell_state[AT_d_cell_state(cell, i)] = c[i];
% endif
% elif work.target == "diagonal":
% for i, row in enumerate(work.rows):
    UNROLL
    for (int b = 0; b < ${row.num_basis}; ++b) {
      const real phi = TABLE_B(${row.table}, q)[b];
      real phi_x[DIM];
      basis_gradient(TABLE_D(${row.table}, q), b, J_inv, phi_x);
% if trial_hessian:
      real phi_xx[DIM * DIM];
      basis_hessian(TABLE_H(${row.table}, q), b, J_inv, phi_x, ${'r_map_xx' if work.bends else 'phi_x'}, ${int(work.bends)}, phi_xx);
% endif
      for (int c = 0; c < ${row.num_comp}; ++c) {
        const int cc = (${row.offset} + c) * NUM_COMP + ${row.offset} + c;
        real h0 = 0, h1[DIM];
        for (int j = 0; j < DIM; ++j) h1[j] = 0;
        ${apply_blocks("cc")}
        real sum = h0 * phi;
        for (int j = 0; j < DIM; ++j) sum += h1[j] * phi_x[j];
% if trial_hessian:
        for (int j = 0; j < DIM * DIM; ++j) sum += h2[j] * phi_xx[j];
% endif
        r_f${i}_e[b * ${row.num_comp} + c] += (accum)(weight * sum);
      }
    }
% endfor
% else:
% for i, row in enumerate(work.rows):
% if row.value:
    integrate_value(${row.num_basis}, ${row.num_comp}, TABLE_B(${row.table}, q), ${'R(1)' if work.reference else 'weight'}, f0 + ${row.offset}, r_f${i}_e);
% endif
% if row.gradient and work.reference:
    integrate_reference_gradient(${row.num_basis}, ${row.num_comp}, TABLE_D(${row.table}, q), f1 + ${row.offset} * DIM, r_f${i}_e);
% elif row.gradient:
    integrate_gradient(${row.num_basis}, ${row.num_comp}, TABLE_D(${row.table}, q), weight, J_inv, f1 + ${row.offset} * DIM, r_f${i}_e);
% endif
% endfor
% endif
  }

  // scatter
% if work.target == "functional":
  d_out[AT_d_out(cell, 0)] = r_sum;
% endif
% for i, row in enumerate(work.rows):
  UNROLL
% if plan.scatter == "atomic":
  for (int b = 0; b < ${row.num_basis}; ++b) {
    const int offset = d_test${i}_offsets[AT_d_test${i}_offsets(cell, b)];
% if not row.masked:
    for (int c = 0; c < ${row.num_comp}; ++c) atomic_add_scalar(d_out + offset + c, (scalar)r_f${i}_e[b * ${row.num_comp} + c]);
% elif row.num_comp == 1:
    if (offset >= 0) atomic_add_scalar(d_out + offset, (scalar)r_f${i}_e[b]);
% else:
    for (int c = 0; c < ${row.num_comp}; ++c)
      if (!IS_PRESCRIBED(offset, c)) atomic_add_scalar(d_out + NODE(offset) + c, (scalar)r_f${i}_e[b * ${row.num_comp} + c]);
% endif
  }
% else:
  for (int i = 0; i < ${row.size}; ++i) d_out${i}[AT_d_out${i}(cell, i)] = (scalar)r_f${i}_e[i];
% endif
% endfor
% if plan.sums_dots:
  if (d_dots) {
    double r_dot = 0;
% for i, row in enumerate(work.rows):
    UNROLL
    for (int i = 0; i < ${row.size}; ++i) r_dot += (double)r_f${i}_e[i] * (${direction(i, row, "i")});
% endfor
    add_dot(d_dots, r_dot);
  }
% endif
}
