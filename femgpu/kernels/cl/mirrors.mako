## Combinations of a cell's coefficients that are even or odd, as `work.symmetry` has them, in r_<field>_m, and of its results, in
## r_f<row>_m. Polynomials q are those of a class, `one`; loops go over combinations that have coefficients of them.
<%def name="sums(array, ctype, comps, pairs)">\
% for i, j in pairs:
  for (int c = 0; c < ${comps}; ++c) {
    const ${ctype} one = ${array}[${i} * ${comps} + c], other = ${array}[${j} * ${comps} + c];
    ${array}[${i} * ${comps} + c] = one + other;
    ${array}[${j} * ${comps} + c] = one - other;
  }
% endfor
</%def>\
## Of the coefficients; no results yet.
<%def name="fold(work)">\
% for field in work.fields:
<% mirror, comps = work.symmetry.mirror(field.table), field.num_comp %>\
% for pairs in mirror.rounds:
${sums(f"r_{field.name}_e", "real", comps, pairs)}\
% endfor
  real r_${field.name}_m[${field.size}];
% for b, place in enumerate(mirror.order):
  for (int c = 0; c < ${comps}; ++c) r_${field.name}_m[${b} * ${comps} + c] = r_${field.name}_e[${place} * ${comps} + c];
% endfor
% endfor
% for i, row in enumerate(work.rows):
  accum r_f${i}_m[${row.size}];
  UNROLL
  for (int i = 0; i < ${row.size}; ++i) r_f${i}_m[i] = 0;
% endfor
</%def>\
## Results of the basis functions, r_f<row>_e.
<%def name="unfold(work)">\
% for i, row in enumerate(work.rows):
<% mirror, comps = work.symmetry.mirror(row.table), row.num_comp %>\
  accum r_f${i}_e[${row.size}];
% for b, place in enumerate(mirror.order):
  for (int c = 0; c < ${comps}; ++c) r_f${i}_e[${place} * ${comps} + c] = r_f${i}_m[${b} * ${comps} + c];
% endfor
% for pairs in reversed(mirror.rounds):
${sums(f"r_f{i}_e", "accum", comps, pairs)}\
% endfor
% endfor
</%def>\
## A loop over these, around what the caller does with combination b.
<%def name="each(work, one, table, change=0)">\
<% functions = work.symmetry.functions(table, one, change) %>\
    UNROLL for (int b = ${functions.start}; b < ${functions.stop}; ++b)
      ${"if (b >= q) " * work.symmetry.triangular}${caller.body()}
</%def>\
## Values and gradients of a field, in place of `interpolate_value` and `interpolate_gradient`.
<%def name="interpolate(work, one, field, J_inv)">\
<% comps, into = field.num_comp, f"r_{field.array}" %>\
% if field.value:
    for (int c = 0; c < ${comps}; ++c) ${into}[${field.offset} + c] = 0;
<%self:each work="${work}" one="${one}" table="${field.table}">\
for (int c = 0; c < ${comps}; ++c) ${into}[${field.offset} + c] += TABLE_B(${field.table}, q)[b] * r_${field.name}_m[b * ${comps} + c];\
</%self:each>\
% endif
% if field.gradient:
    {
      real parts[${comps} * DIM];
      for (int i = 0; i < ${comps} * DIM; ++i) parts[i] = 0;
% for k, change in enumerate(work.symmetry.directions):
<%self:each work="${work}" one="${one}" table="${field.table}" change="${change}">\
for (int c = 0; c < ${comps}; ++c) parts[c * DIM + ${k}] += TABLE_D(${field.table}, q)[b * DIM + ${k}] * r_${field.name}_m[b * ${comps} + c];\
</%self:each>\
% endfor
      for (int c = 0; c < ${comps}; ++c) {
        real reference[DIM];
        derivatives(parts + c * DIM, reference);
% if work.reference:
        for (int k = 0; k < DIM; ++k) ${into}_x[(${field.offset} + c) * DIM + k] = reference[k];
% else:
        for (int d = 0; d < DIM; ++d) {
          real sum = 0;
          for (int k = 0; k < DIM; ++k) sum += reference[k] * ${J_inv}[k * DIM + d];
          ${into}_x[(${field.offset} + c) * DIM + d] = sum;
        }
% endif
      }
    }
% endif
</%def>\
## What the rows of a field get, in place of `integrate_value` and `integrate_gradient`.
<%def name="integrate(work, one, i, row, J_inv, weight, flux_weight)">\
<% comps = row.num_comp %>\
% if row.value:
<%self:each work="${work}" one="${one}" table="${row.table}">\
for (int c = 0; c < ${comps}; ++c) r_f${i}_m[b * ${comps} + c] += (accum)(TABLE_B(${row.table}, q)[b] * (${weight} * f0[${row.offset} + c]));\
</%self:each>\
% endif
% if row.gradient:
    {
      real parts[${comps} * DIM];
      for (int c = 0; c < ${comps}; ++c) {
% if work.reference:
        fluxes(f1 + (${row.offset} + c) * DIM, parts + c * DIM);
% else:
        real flux[DIM];
        pull_back_flux(${J_inv}, ${flux_weight}, f1 + (${row.offset} + c) * DIM, flux);
        fluxes(flux, parts + c * DIM);
% endif
      }
% for k, change in enumerate(work.symmetry.directions):
<%self:each work="${work}" one="${one}" table="${row.table}" change="${change}">\
for (int c = 0; c < ${comps}; ++c) r_f${i}_m[b * ${comps} + c] += (accum)(TABLE_D(${row.table}, q)[b * DIM + ${k}] * parts[c * DIM + ${k}]);\
</%self:each>\
% endfor
    }
% endif
</%def>\
