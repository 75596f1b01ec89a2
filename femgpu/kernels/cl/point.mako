<%page args="parity=0"/>\
<%namespace name="mirrors" file="mirrors.mako"/>\
## One point q of a cell: values and derivatives there, the pointwise function, what the rows get of it; of a diagonal only as squares.
    // tabulate
<%include file="point_geometry.mako"/>
<%include file="point_values.mako" args="parity=parity"/>
% if work.num_state and work.target != "state":
    for (int i = 0; i < NUM_STATE; ++i) r_s[i] = ${plan.state("i")};
% endif

    // pointwise
    ${declare_outputs}
    ${plan.pointwise}(${pointwise_arguments});

    // integrate
% if work.target == "functional":
    r_sum[0] += (accum)(${'f0[0]' if work.reference else 'weight * f0[0]'});
% elif work.target == "state":
% if work.num_state:
    for (int i = 0; i < NUM_STATE; ++i) d_state[AT_d_state(cell, ${plan.state_word("i")})] = s[i];
% endif
% if work.num_cell_state:
    if (q == 0)
      for (int i = 0; i < NUM_CELL_STATE; ++i) d_cell_state[AT_d_cell_state(cell, i)] = c[i];
% endif
% elif work.target == "diagonal" and (plan.lines or plan.tile_tables()):
<%include file="squares.mako"/>\
% elif work.target != "diagonal":
<%
divides = plan.adjugates and plan.divides_fluxes
weight = "R(1)" if work.reference else "TABLE_W(q)" if divides else "weight"
flux_weight = "TABLE_W(q) * inverse_det" if divides else "TABLE_W(q)" if plan.adjugates else "weight"
%>\
% for i, row in enumerate(work.rows):
<% side = work.sides[row.side]; J_inv = side.name("J_inv") %>\
% if plan.mirrored:
${mirrors.integrate(work, parity, i, row, J_inv, weight, flux_weight)}\
<% continue %>\
% endif
% if row.value:
    integrate_value(${row.num_basis}, ${row.num_comp}, TABLE_B(${row.table}, q), ${weight}, f0 + ${row.offset}, r_f${i}_e);
% endif
% if row.hessian and not work.reference:
    {
      real flux_xx[${row.num_comp} * DIM * DIM];
% if row.gradient or work.bends:
      real flux_x[${row.num_comp} * DIM];
% endif
      for (int c = 0; c < ${row.num_comp}; ++c) {
        pull_back_hessian(${J_inv}, weight, f2 + (${row.offset} + c) * DIM * DIM, flux_xx + c * DIM * DIM);
% if row.gradient:
        pull_back_flux(${J_inv}, weight, f1 + (${row.offset} + c) * DIM, flux_x + c * DIM);
% elif work.bends:
        for (int k = 0; k < DIM; ++k) flux_x[c * DIM + k] = 0;
% endif
% if work.bends:
        pull_back_map(${J_inv}, flux_xx + c * DIM * DIM, ${side.name("r_map_xx")}, flux_x + c * DIM);
% endif
      }
      integrate_reference_hessian(${row.num_basis}, ${row.num_comp}, TABLE_H(${row.table}, q), flux_xx, r_f${i}_e);
% if row.gradient or work.bends:
      integrate_reference_gradient(${row.num_basis}, ${row.num_comp}, TABLE_D(${row.table}, q), flux_x, r_f${i}_e);
% endif
    }
% elif row.gradient and work.reference:
    integrate_reference_gradient(${row.num_basis}, ${row.num_comp}, TABLE_D(${row.table}, q), f1 + ${row.offset} * DIM, r_f${i}_e);
% elif row.gradient and plan.expanded == "frame":
<% along, across = ("", " * inverse_det") if divides else (" * across_det", "") %>\
    flux_in_frame(${row.num_comp}, ${J_inv}, TABLE_W(q)${along}, TABLE_W(q) * map_along[13]${across}, f1 + ${row.offset} * DIM, r_f${i}_e);
% elif row.gradient:
    integrate_gradient(${row.num_basis}, ${row.num_comp}, TABLE_D(${row.table}, q), ${flux_weight}, ${J_inv}, f1 + ${row.offset} * DIM, r_f${i}_e);
% endif
% if row.hessian and work.reference:
    integrate_reference_hessian(${row.num_basis}, ${row.num_comp}, TABLE_H(${row.table}, q), f2 + ${row.offset} * DIM * DIM, r_f${i}_e);
% endif
% endfor
% endif
