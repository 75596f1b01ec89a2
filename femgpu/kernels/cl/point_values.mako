<%page args="parity=0"/>\
<%namespace name="mirrors" file="mirrors.mako"/>\
## Values and derivatives of the fields at point q, from r_<field>_e, J_inv and r_x_e; weight or, in reference coordinates, what
## the pointwise function reads of the geometry.
% for name, size in pointwise_arrays:
    real r_${name}[${size}];
% endfor
% if work.bends:
% for side in work.sides:
    real ${side.name("r_map_xx")}[DIM * DIM * DIM];
    reference_hessian(${side.name("NUM_COORD_BASIS")}, DIM, TABLE_H(${side.coord_table}, q), ${side.name("r_x_e")}, ${side.name("r_map_xx")});
% endfor
% endif
% for field in work.fields:
<% side = work.sides[field.side]; J_inv = side.name("J_inv") %>\
% if plan.mirrored:
${mirrors.interpolate(work, parity, field, J_inv)}\
<% continue %>\
% endif
% if field.value:
    interpolate_value(${field.num_basis}, ${field.num_comp}, TABLE_B(${field.table}, q), r_${field.name}_e, r_${field.array} + ${field.offset});
% endif
% if field.gradient and work.reference:
    interpolate_reference_gradient(${field.num_basis}, ${field.num_comp}, TABLE_D(${field.table}, q), r_${field.name}_e, r_${field.array}_x + ${field.offset} * DIM);
% elif field.gradient and plan.expanded == "frame":
<% scales = "map_along[12] * across_det, R(1)" if field.array == "w" and plan.divides_fluxes else "map_along[12], inverse_det" %>\
    gradient_in_frame(${field.num_comp}, r_${field.name}_e, ${J_inv}, ${scales}, r_${field.array}_x + ${field.offset} * DIM);
% elif field.gradient:
    interpolate_gradient(${field.num_basis}, ${field.num_comp}, TABLE_D(${field.table}, q), r_${field.name}_e, ${J_inv}, r_${field.array}_x + ${field.offset} * DIM);
% if plan.adjugates and not (field.array == "w" and plan.divides_fluxes):
    for (int i = 0; i < ${field.num_comp} * DIM; ++i) r_${field.array}_x[${field.offset} * DIM + i] *= inverse_det;
% endif
% endif
% if field.hessian and work.reference:
    reference_hessian(${field.num_basis}, ${field.num_comp}, TABLE_H(${field.table}, q), r_${field.name}_e, r_${field.array}_xx + ${field.offset} * DIM * DIM);
% elif field.hessian:
    {
      real reference_xx[${field.num_comp} * DIM * DIM];
      reference_hessian(${field.num_basis}, ${field.num_comp}, TABLE_H(${field.table}, q), r_${field.name}_e, reference_xx);
% if work.bends:
      real gradient[${field.num_comp} * DIM];
      interpolate_gradient(${field.num_basis}, ${field.num_comp}, TABLE_D(${field.table}, q), r_${field.name}_e, ${J_inv}, gradient);
      subtract_map(${field.num_comp}, gradient, ${side.name("r_map_xx")}, reference_xx);
% endif
      for (int c = 0; c < ${field.num_comp}; ++c)
        push_hessian(${J_inv}, reference_xx + c * DIM * DIM, r_${field.array}_xx + (${field.offset} + c) * DIM * DIM);
    }
% endif
% endfor
% if "x" in work.reads:
    interpolate_value(NUM_COORD_BASIS, DIM, TABLE_B(${work.coord_table}, q), r_x_e, r_x);
% endif
% if work.facet and work.maps:
    real normal[DIM];
    const real measure = det_J * facet_normal(TABLE_N, J_inv, normal);
% if "n" in work.reads:
    for (int d = 0; d < DIM; ++d) r_n[d] = normal[d];
% endif
% elif work.maps:
    const real measure = det_J;
% endif
% if not work.reference:
    const real weight = TABLE_W(q) * measure;
% else:
    r_weight[0] = TABLE_W(q);
% if "det" in work.reads:
    r_det[0] = measure;
% endif
% if "K" in work.reads:
    for (int i = 0; i < DIM * DIM; ++i) r_K[i] = J_inv[i];
% endif
% endif
