## Values and gradients of the fields at point q, from r_<field>_e, J_inv and r_x_e.
% for name, size in pointwise_arrays:
    real r_${name}[${size}];
% endfor
% for field in plan.fields:
% if field.value:
    interpolate_value(${field.num_basis}, ${field.num_comp}, TABLE_B(${field.table}, q), r_${field.name}_e, r_${field.array} + ${field.offset});
% endif
% if field.gradient:
    interpolate_gradient(${field.num_basis}, ${field.num_comp}, TABLE_D(${field.table}, q), r_${field.name}_e, J_inv, r_${field.array}_x + ${field.offset} * DIM);
% endif
% endfor
% if plan.needs_x:
    interpolate_value(NUM_COORD_BASIS, DIM, TABLE_B(${plan.coord_table}, q), r_x_e, r_x);
% endif
