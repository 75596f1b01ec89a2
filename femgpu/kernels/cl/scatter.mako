<%page args="folded=False"/>\
## A cell's results, r_f<row>_e or r_sum, into d_out, and their share of direction times result: r_folded, if it is `folded`, and what
## no coefficients were kept for.
  // scatter
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
% endif
% if work.target == "functional":
  d_out[AT_d_out(cell, 0)] = r_sum[0];
% endif
% for i, row in enumerate(work.rows):
<% component = "c" if row.num_comp > 1 else "0" %>\
<% entry = f"(scalar)r_f{i}_e[{plan.place(row.num_basis, row.num_comp, 'b', component)}]" + " * r_scale" * plan.sums_dots %>\
  UNROLL
% if plan.scatter == "atomic":
  ${plan.each("b", row.num_basis)} {
    const int offset = d_test${i}_offsets[AT_d_test${i}_offsets(cell, b)];
% if not row.masked:
    for (int c = 0; c < ${row.num_comp}; ++c) atomic_add_scalar(d_out + offset + c, ${entry});
% elif row.num_comp == 1:
    if (offset >= 0) atomic_add_scalar(d_out + offset, ${entry});
% else:
    for (int c = 0; c < ${row.num_comp}; ++c)
      if (!IS_PRESCRIBED(offset, c)) atomic_add_scalar(d_out + NODE(offset) + c, ${entry});
% endif
  }
% else:
  ${plan.each("b", row.num_basis)}
    for (int c = 0; c < ${row.num_comp}; ++c) d_out${i}[AT_d_out${i}(cell, b * ${row.num_comp} + c)] = ${entry};
% endif
% endfor
% if plan.sums_dots:
  if (d_dots) {
    double r_dot = ${"r_folded" if folded else "0"};
% for i, row in enumerate(work.rows):
<% if folded and kept(row): continue %>\
    UNROLL
    ${plan.each("b", row.num_basis)}
      for (int c = 0; c < ${row.num_comp}; ++c)
        r_dot += (double)r_f${i}_e[${plan.place(row.num_basis, row.num_comp, "b", "c")}] * (${direction(i, row)});
% endfor
    add_dot(d_dots, r_dot);
  }
% endif
