// Schedule cell: one cell (or one facet of a cell) per work-item, everything private, no barrier.
// Index space: global id = cell - first, rounded up to the work-group; items past the last cell leave at once.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int cell = first + (int)get_global_id(0);
  if (cell >= first + count) return;

  // gather
<%include file="gather.mako"/>
% if work.target == "functional":
  accum r_sum[1] = {0};
% endif
% for i, row in enumerate(work.rows):
  accum r_f${i}_e[${row.size}];
  UNROLL
  for (int i = 0; i < ${row.size}; ++i) r_f${i}_e[i] = 0;
% endfor

  POINTS_UNROLL
  for (int q = 0; q < NUM_QPTS; ++q) {
<%include file="point.mako"/>
% if work.target == "diagonal":
% for i, row in enumerate(work.rows):
    UNROLL
    for (int b = 0; b < ${row.num_basis}; ++b) {
      const real phi = TABLE_B(${row.table}, q)[b];
      real phi_x[DIM];
      basis_gradient(TABLE_D(${row.table}, q), b, J_inv, phi_x);
% if test_hessian or trial_hessian:
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
        r_f${i}_e[${plan.place(row.num_basis, row.num_comp, "b", "c")}] += (accum)(weight * sum);
      }
    }
% endfor
% endif
  }

<%include file="scatter.mako"/>
}
