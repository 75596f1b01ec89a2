## What the rows of a diagonal get of point q. Where a node is in both cells of a facet, its four blocks add up.
<%def name="derivatives(row, b, name)">\
<% side = work.sides[row.side]; J_inv = side.name("J_inv") %>\
      const real ${name} = TABLE_B(${row.table}, q)[${b}];
      real ${name}_x[DIM];
      basis_gradient(TABLE_D(${row.table}, q), ${b}, ${J_inv}, ${name}_x);
% if test_hessian or trial_hessian:
      real ${name}_xx[DIM * DIM];
      basis_hessian(TABLE_H(${row.table}, q), ${b}, ${J_inv}, ${name}_x, ${side.name('r_map_xx') if work.bends else f'{name}_x'}, ${int(work.bends)}, ${name}_xx);
% endif
</%def>\
## The product of the test function's phi with the direction's function `name`, by the blocks that couple component c of the rows with
## that of the columns: the same, or `work.shift` further.
<%def name="product(row, other, name)">\
        const int cc = (${row.offset} + c) * NUM_COMP + ${other.offset} + ${f'(c + {work.shift}) % {other.num_comp}' if work.shift else 'c'};
        real h0 = 0, h1[DIM];
        for (int j = 0; j < DIM; ++j) h1[j] = 0;
        ${apply_blocks("cc")}
        real sum = h0 * ${name};
        for (int j = 0; j < DIM; ++j) sum += h1[j] * ${name}_x[j];
% if trial_hessian:
        for (int j = 0; j < DIM * DIM; ++j) sum += h2[j] * ${name}_xx[j];
% endif
</%def>\
% for i, row in enumerate(work.rows):
<% entry = f"r_f{i}_e[{plan.place(row.num_basis, row.num_comp, 'b', 'c')}]" %>\
    UNROLL
    for (int b = 0; b < ${row.num_basis}; ++b) {
${derivatives(row, "b", "phi")}\
      for (int c = 0; c < ${row.num_comp}; ++c) {
${product(row, row, "phi")}\
        ${entry} += (accum)(weight * sum);
      }
% if row.twin >= 0:
<% other = work.rows[row.twin]; mine, theirs = (f"d_test{k}_offsets[AT_d_test{k}_offsets(cell, {n})]" for k, n in ((i, "b"), (row.twin, "t"))) %>\
      for (int t = 0; t < ${other.num_basis}; ++t)
        if (${theirs} == ${mine}) {
${derivatives(other, "t", "psi")}\
          for (int c = 0; c < ${row.num_comp}; ++c) {
${product(row, other, "psi")}\
            ${entry} += (accum)(weight * sum);
          }
        }
% endif
    }
% endfor
