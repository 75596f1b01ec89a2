// Schedule cell: one cell per work-item, everything private, no barrier.
// Index space: global id = cell, rounded up to the work-group; items past the last cell leave at once.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${plan.name}(${arguments}) {
  const int cell = (int)get_global_id(0);
  if (cell >= num_cells) return;

  // gather
% for field in plan.fields:
  real r_${field.name}_e[${field.size}];
% if plan.source == "evector":
  for (int i = 0; i < ${field.size}; ++i)
    r_${field.name}_e[i] = (real)d_${field.name}[ENTRY(cell, i / ${field.num_comp}, ${field.num_basis}) * ${field.num_comp} + i % ${field.num_comp}];
% else:
  UNROLL
  for (int b = 0; b < ${field.num_basis}; ++b) {
    const int offset = d_${field.name}_offsets[ENTRY(cell, b, ${field.num_basis})];
    for (int c = 0; c < ${field.num_comp}; ++c) r_${field.name}_e[b * ${field.num_comp} + c] = (real)d_${field.name}[offset + c];
  }
% endif
% endfor
% if plan.needs_coords:
  real r_x_e[NUM_COORD_BASIS * DIM];
  UNROLL
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
% if plan.target == "functional":
  accum r_sum = 0;
% else:
  accum r_f_e[NUM_BASIS * NUM_COMP];
  for (int i = 0; i < NUM_BASIS * NUM_COMP; ++i) r_f_e[i] = 0;
% endif

  UNROLL_POINTS
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

    // integrate
% if plan.target == "functional":
    r_sum += (accum)(weight * f0[0]);
% elif plan.target == "diagonal":
    UNROLL
    for (int b = 0; b < NUM_BASIS; ++b) {
      real phi_x[DIM];
      const real phi = TABLE_B(0, q)[b];
      basis_gradient(TABLE_D(0, q), b, J_inv, phi_x);
      for (int c = 0; c < NUM_COMP; ++c) {
        const int cc = c * NUM_COMP + c;
        real sum = 0;
% if "g0" in plan.writes:
        sum += phi * g0[cc] * phi;
% endif
        for (int i = 0; i < DIM; ++i) {
% if "g1" in plan.writes:
          sum += phi * g1[cc * DIM + i] * phi_x[i];
% endif
% if "g2" in plan.writes:
          sum += phi_x[i] * g2[cc * DIM + i] * phi;
% endif
% if "g3" in plan.writes:
          for (int j = 0; j < DIM; ++j) sum += phi_x[i] * g3[(cc * DIM + i) * DIM + j] * phi_x[j];
% endif
        }
        r_f_e[b * NUM_COMP + c] += (accum)(weight * sum);
      }
    }
% else:
% if "f0" in plan.writes:
    integrate_value(NUM_BASIS, NUM_COMP, TABLE_B(0, q), weight, f0, r_f_e);
% endif
% if "f1" in plan.writes:
    integrate_gradient(NUM_BASIS, NUM_COMP, TABLE_D(0, q), weight, J_inv, f1, r_f_e);
% endif
% endif
  }

  // scatter
% if plan.target == "functional":
  d_out[cell] = r_sum;
% elif plan.scatter == "atomic":
  UNROLL
  for (int b = 0; b < NUM_BASIS; ++b) {
    const int offset = d_test_offsets[ENTRY(cell, b, NUM_BASIS)];
    for (int c = 0; c < NUM_COMP; ++c) atomic_add_scalar(d_out + offset + c, (scalar)r_f_e[b * NUM_COMP + c]);
  }
% else:
  UNROLL
  for (int b = 0; b < NUM_BASIS; ++b)
    for (int c = 0; c < NUM_COMP; ++c) d_out[ENTRY(cell, b, NUM_BASIS) * NUM_COMP + c] = (scalar)r_f_e[b * NUM_COMP + c];
% endif
}
