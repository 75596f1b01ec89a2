// First step of a plan of tests: one cell per work-item writes what its points hand to the rows.
// Index space: global id = cell - first. The work array starts anew at the first cell of every launch.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int cell = first + (int)get_global_id(0);
  if (cell >= first + count) return;
<%include file="gather.mako"/>
  for (int q = 0; q < NUM_QPTS; ++q) {
<%include file="point_geometry.mako"/>
<%include file="point_values.mako"/>
    ${declare_outputs}
    pointwise(${pointwise_arguments});
    for (int c = 0; c < NUM_COMP; ++c) {
      real flux[DIM];
      pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
      d_work[AT_d_work(cell - first, (q * NUM_COMP + c) * (1 + DIM))] = weight * f0[c];
      for (int k = 0; k < DIM; ++k) d_work[AT_d_work(cell - first, (q * NUM_COMP + c) * (1 + DIM) + 1 + k)] = flux[k];
    }
  }
}
