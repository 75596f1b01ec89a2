// Schedule transposed: a work-group serves NUM_BATCHES batches of CELLS cells in sequence. In the evaluation phase an item
// stands for (cell, point), after the barrier for (cell, basis row), and walks over the batch. As ITEMS is a multiple of
// the points and of the rows (unless the device is too small for a block), an item keeps its point and its row. The last
// batch is masked by num_cells.
// Index space: a group holds CHUNKS chunks of ITEMS = num_blocks * block_size items; local id = chunk * ITEMS + item.
#define NUM_FLUX (NUM_COMP * (HAS_F0 + DIM * HAS_F1))
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${plan.name}(${arguments}) {
  const int item = (int)get_local_id(0) % ITEMS;
  const int chunk = (int)get_local_id(0) / ITEMS;
% if plan.staged:
% for field in plan.fields:
  __local real s_all_${field.name}[CHUNKS * CELLS * ${field.size}];
  __local real *s_${field.name} = s_all_${field.name} + chunk * CELLS * ${field.size};
% endfor
% if plan.needs_coords:
  __local real s_all_x[CHUNKS * CELLS * NUM_COORD_BASIS * DIM];
  __local real *s_x = s_all_x + chunk * CELLS * NUM_COORD_BASIS * DIM;
% endif
% if plan.geometry == "affine_stored":
  __local real s_all_geometry[CHUNKS * CELLS * (DIM * DIM + 1)];
  __local real *s_geometry = s_all_geometry + chunk * CELLS * (DIM * DIM + 1);
% endif
% endif
% if not plan.staged:
  // No barrier parts the integration of one batch from the evaluation of the next: they take turns between two buffers.
% endif
  __local real s_all_f[${plan.flux_buffers} * CHUNKS * CELLS * NUM_QPTS * NUM_FLUX];

  for (int batch = 0; batch < NUM_BATCHES; ++batch) {
    const int first = (((int)get_group_id(0) * CHUNKS + chunk) * NUM_BATCHES + batch) * CELLS;
    const int count = clamp(num_cells - first, 0, CELLS);
    __local real *s_f = s_all_f + (batch % ${plan.flux_buffers} * CHUNKS + chunk) * CELLS * NUM_QPTS * NUM_FLUX;

% if plan.staged:
    // gather: consecutive items read consecutive words
% for field in plan.fields:
    for (int i = item; i < count * ${field.size}; i += ITEMS)
% if plan.source == "evector":
      s_${field.name}[i] = (real)d_${field.name}[(size_t)first * ${field.size} + i];
% elif field.num_comp == 1:
      s_${field.name}[i] = (real)d_${field.name}[d_${field.name}_offsets[(size_t)first * ${field.size} + i]];
% else:
      s_${field.name}[i] = (real)d_${field.name}[d_${field.name}_offsets[(size_t)first * ${field.num_basis} + i / ${field.num_comp}] + i % ${field.num_comp}];
% endif
% endfor
% if plan.needs_coords:
    for (int i = item; i < count * NUM_COORD_BASIS * DIM; i += ITEMS)
      s_x[i] = d_coords[d_coord_offsets[(size_t)first * NUM_COORD_BASIS + i / DIM] + i % DIM];
% endif
% if plan.geometry == "affine_stored":
    for (int i = item; i < count * (DIM * DIM + 1); i += ITEMS)
      s_geometry[i] = d_geometry[(size_t)first * (DIM * DIM + 1) + i];
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
% endif

    // evaluation phase: tabulate and pointwise
    for (int i = item; i < count * NUM_QPTS; i += ITEMS) {
      const int cell = i / NUM_QPTS, q = i % NUM_QPTS;
% for field in plan.fields:
      real r_${field.name}_e[${field.size}];
      UNROLL
% if plan.staged:
      for (int k = 0; k < ${field.size}; ++k) r_${field.name}_e[k] = s_${field.name}[cell * ${field.size} + k];
% elif plan.source == "evector":
      for (int k = 0; k < ${field.size}; ++k) r_${field.name}_e[k] = (real)d_${field.name}[(size_t)(first + cell) * ${field.size} + k];
% else:
      for (int k = 0; k < ${field.size}; ++k)
        r_${field.name}_e[k] = (real)d_${field.name}[d_${field.name}_offsets[(size_t)(first + cell) * ${field.num_basis} + k / ${field.num_comp}] + k % ${field.num_comp}];
% endif
% endfor
% if plan.needs_coords:
      real r_x_e[NUM_COORD_BASIS * DIM];
      UNROLL
% if plan.staged:
      for (int k = 0; k < NUM_COORD_BASIS * DIM; ++k) r_x_e[k] = s_x[cell * NUM_COORD_BASIS * DIM + k];
% else:
      for (int k = 0; k < NUM_COORD_BASIS * DIM; ++k)
        r_x_e[k] = d_coords[d_coord_offsets[(size_t)(first + cell) * NUM_COORD_BASIS + k / DIM] + k % DIM];
% endif
% endif
      real J_inv[DIM * DIM];
% if plan.geometry == "affine_stored" and plan.staged:
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = s_geometry[cell * (DIM * DIM + 1) + k];
      const real det_J = s_geometry[cell * (DIM * DIM + 1) + DIM * DIM];
% elif plan.geometry == "affine_stored":
      const size_t at = (size_t)(first + cell) * (DIM * DIM + 1);
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = d_geometry[at + k];
      const real det_J = d_geometry[at + DIM * DIM];
% elif plan.geometry == "affine_recomputed":
      const real det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${plan.coord_table}, 0), r_x_e, J_inv);
% elif plan.geometry == "points_stored":
      const size_t at = ((size_t)(first + cell) * NUM_QPTS + q) * (DIM * DIM + 1);
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = d_geometry[at + k];
      const real det_J = d_geometry[at + DIM * DIM];
% else:
      const real det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${plan.coord_table}, q), r_x_e, J_inv);
% endif
<%include file="point_values.mako"/>
      ${declare_outputs}
      pointwise(${pointwise_arguments});
      for (int c = 0; c < NUM_COMP; ++c) {
        __local real *s_out = s_f + (cell * NUM_QPTS + q) * NUM_FLUX + c * (HAS_F0 + DIM * HAS_F1);
% if "f0" in plan.writes:
        s_out[0] = weight * f0[c];
% endif
% if "f1" in plan.writes:
        real flux[DIM];
        pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
        for (int k = 0; k < DIM; ++k) s_out[HAS_F0 + k] = flux[k];
% endif
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integration phase and scatter
% for i, test in enumerate(plan.tests):
    for (int i = item; i < count * ${test.size}; i += ITEMS) {
      const int cell = i / ${test.size}, row = i % ${test.size};
      const int b = row / ${test.num_comp}, c = row % ${test.num_comp};
      accum sum = 0;
      for (int p = 0; p < NUM_QPTS; ++p) {
        __local const real *s_in = s_f + (cell * NUM_QPTS + p) * NUM_FLUX + (${test.offset} + c) * (HAS_F0 + DIM * HAS_F1);
% if test.value:
        sum += TABLE_B(${test.table}, p)[b] * s_in[0];
% endif
% if test.gradient:
        for (int k = 0; k < DIM; ++k) sum += TABLE_D(${test.table}, p)[b * DIM + k] * s_in[HAS_F0 + k];
% endif
      }
% if plan.scatter == "atomic":
      atomic_add_scalar(d_out + d_test${i}_offsets[(size_t)(first + cell) * ${test.num_basis} + b] + c, (scalar)sum);
% else:
      d_out[E_ENTRY(first + cell, b, c, ${test.first_row}, ${test.num_basis}, ${test.num_comp})] = (scalar)sum;
% endif
    }
% endfor
  }
}
