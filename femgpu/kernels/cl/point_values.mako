## Values and derivatives of the fields at point q, from r_<field>_e, J_inv and r_x_e.
% for name, size in pointwise_arrays:
    real r_${name}[${size}];
% endfor
% if plan.bends:
    real r_map_xx[DIM * DIM * DIM];
    reference_hessian(NUM_COORD_BASIS, DIM, TABLE_H(${plan.coord_table}, q), r_x_e, r_map_xx);
% endif
% for field in plan.fields:
% if field.value:
    interpolate_value(${field.num_basis}, ${field.num_comp}, TABLE_B(${field.table}, q), r_${field.name}_e, r_${field.array} + ${field.offset});
% endif
% if field.gradient:
    interpolate_gradient(${field.num_basis}, ${field.num_comp}, TABLE_D(${field.table}, q), r_${field.name}_e, J_inv, r_${field.array}_x + ${field.offset} * DIM);
% endif
% if field.hessian:
    {
      real reference_xx[${field.num_comp} * DIM * DIM];
      reference_hessian(${field.num_basis}, ${field.num_comp}, TABLE_H(${field.table}, q), r_${field.name}_e, reference_xx);
% if plan.bends:
      real gradient[${field.num_comp} * DIM];
      interpolate_gradient(${field.num_basis}, ${field.num_comp}, TABLE_D(${field.table}, q), r_${field.name}_e, J_inv, gradient);
      subtract_map(${field.num_comp}, gradient, r_map_xx, reference_xx);
% endif
      for (int c = 0; c < ${field.num_comp}; ++c)
        push_hessian(J_inv, reference_xx + c * DIM * DIM, r_${field.array}_xx + (${field.offset} + c) * DIM * DIM);
    }
% endif
% endfor
% if plan.needs_x:
    interpolate_value(NUM_COORD_BASIS, DIM, TABLE_B(${plan.coord_table}, q), r_x_e, r_x);
% endif
% if plan.facet:
    real normal[DIM];
    const real weight = TABLE_W(q) * det_J * facet_normal(TABLE_N, J_inv, normal);
% if plan.needs_n:
    for (int d = 0; d < DIM; ++d) r_n[d] = normal[d];
% endif
% else:
    const real weight = TABLE_W(q) * det_J;
% endif
