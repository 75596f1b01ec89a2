## Combinations of a cell's coefficients that are even or odd, as `work.symmetry` has them, in r_<field>_m, and of its results, in
## r_f<row>_m. Polynomials q are those of a class, `parity`; loops go over combinations that have coefficients of them.
## Where loops are not unrolled they take places from tables, which stand before the kernel.
<%def name="tables(plan)">\
% for number, mirror in plan.work.symmetry.mirrors:
__constant ushort d_order${number}[] = {${", ".join(map(str, mirror.order))}};
% for i, pairs in enumerate(mirror.rounds):
% if pairs:
__constant ushort d_pairs${number}_${i}[] = {${", ".join(f"{one}, {other}" for one, other in pairs)}};
% endif
% endfor
% endfor
</%def>\
<%def name="sums(plan, table, round, array, ctype, comps)">\
<%
pairs = plan.work.symmetry.mirror(table).rounds[round]
written = [(f"{{ const int i = {i}, j = {j};", "}") for i, j in pairs]
name = f"d_pairs{table}_{round}"
looped = [(f"for (int b = 0; b < {len(pairs)}; ++b) {{ const int i = {name}[2 * b], j = {name}[2 * b + 1];", "}")] * bool(pairs)
%>\
% for begin, end in written if plan.unrolls_points else looped:
  ${begin}
    for (int c = 0; c < ${comps}; ++c) {
      const ${ctype} one = ${array}[i * ${comps} + c], other = ${array}[j * ${comps} + c];
      ${array}[i * ${comps} + c] = one + other;
      ${array}[j * ${comps} + c] = one - other;
    }
  ${end}
% endfor
</%def>\
## What the caller does with combination b, which stands at `place`.
<%def name="placed(plan, table)">\
<% order = plan.work.symmetry.mirror(table).order %>\
% if plan.unrolls_points:
% for b, place in enumerate(order):
  { const int b = ${b}, place = ${place}; ${caller.body()} }
% endfor
% else:
  for (int b = 0; b < ${len(order)}; ++b) { const int place = d_order${table}[b]; ${caller.body()} }
% endif
</%def>\
## Of the coefficients, which stay; no results yet.
<%def name="fold(plan)">\
% for field in plan.work.fields:
<% comps = field.num_comp %>\
  real r_${field.name}_m[${field.size}];
<%self:placed plan="${plan}" table="${field.table}">for (int c = 0; c < ${comps}; ++c) r_${field.name}_m[b * ${comps} + c] = r_${field.name}_e[place * ${comps} + c];</%self:placed>\
% for round in range(len(plan.work.symmetry.mirror(field.table).rounds)):
${sums(plan, field.table, round, f"r_{field.name}_m", "real", comps)}\
% endfor
% endfor
% for i, row in enumerate(plan.work.rows):
  accum r_f${i}_m[${row.size}];
  UNROLL
  for (int i = 0; i < ${row.size}; ++i) r_f${i}_m[i] = 0;
% endfor
</%def>\
## Results of the basis functions, into r_f<row>_e.
<%def name="unfold(plan)">\
% for i, row in enumerate(plan.work.rows):
<% comps = row.num_comp %>\
% for round in reversed(range(len(plan.work.symmetry.mirror(row.table).rounds))):
${sums(plan, row.table, round, f"r_f{i}_m", "accum", comps)}\
% endfor
<%self:placed plan="${plan}" table="${row.table}">for (int c = 0; c < ${comps}; ++c) r_f${i}_e[place * ${comps} + c] = r_f${i}_m[b * ${comps} + c];</%self:placed>\
% endfor
</%def>\
## Direction times result, which is that of the combinations.
<%def name="dots(plan, kept)">\
  double r_folded = 0;
  if (d_dots) {
% for i, (row, field) in enumerate((row, kept(row)) for row in plan.work.rows):
% if field:
    UNROLL for (int i = 0; i < ${row.size}; ++i) r_folded += (double)r_f${i}_m[i] * r_${field.name}_m[i];
% endif
% endfor
  }
</%def>\
## A loop over these, around what the caller does with combination b.
<%def name="each(work, parity, table, applied=0)">\
<% functions = work.symmetry.functions(table, parity, applied) %>\
    UNROLL for (int b = ${functions.start}; b < ${functions.stop}; ++b)
      ${"if (b >= q) " * work.symmetry.triangular}${caller.body()}
</%def>\
## Values and gradients of a field, in place of `interpolate_value` and `interpolate_gradient`.
<%def name="interpolate(work, parity, field, J_inv)">\
<% comps, into = field.num_comp, f"r_{field.array}" %>\
% if field.value:
    for (int c = 0; c < ${comps}; ++c) ${into}[${field.offset} + c] = 0;
<%self:each work="${work}" parity="${parity}" table="${field.table}">\
for (int c = 0; c < ${comps}; ++c) ${into}[${field.offset} + c] += TABLE_B(${field.table}, q)[b] * r_${field.name}_m[b * ${comps} + c];\
</%self:each>\
% endif
% if field.gradient:
    {
      real parts[${comps} * DIM];
      for (int i = 0; i < ${comps} * DIM; ++i) parts[i] = 0;
% for k, applied in enumerate(work.symmetry.directions):
<%self:each work="${work}" parity="${parity}" table="${field.table}" applied="${applied}">\
for (int c = 0; c < ${comps}; ++c) parts[c * DIM + ${k}] += TABLE_D(${field.table}, q)[b * DIM + ${k}] * r_${field.name}_m[b * ${comps} + c];\
</%self:each>\
% endfor
      for (int c = 0; c < ${comps}; ++c) {
        real reference[DIM];
        from_parts(parts + c * DIM, reference);
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
<%def name="integrate(work, parity, i, row, J_inv, weight, flux_weight)">\
<% comps = row.num_comp %>\
% if row.value:
<%self:each work="${work}" parity="${parity}" table="${row.table}">\
for (int c = 0; c < ${comps}; ++c) r_f${i}_m[b * ${comps} + c] += (accum)(TABLE_B(${row.table}, q)[b] * (${weight} * f0[${row.offset} + c]));\
</%self:each>\
% endif
% if row.gradient:
    {
      real parts[${comps} * DIM];
      for (int c = 0; c < ${comps}; ++c) {
% if work.reference:
        to_parts(f1 + (${row.offset} + c) * DIM, parts + c * DIM);
% else:
        real flux[DIM];
        pull_back_flux(${J_inv}, ${flux_weight}, f1 + (${row.offset} + c) * DIM, flux);
        to_parts(flux, parts + c * DIM);
% endif
      }
% for k, applied in enumerate(work.symmetry.directions):
<%self:each work="${work}" parity="${parity}" table="${row.table}" applied="${applied}">\
for (int c = 0; c < ${comps}; ++c) r_f${i}_m[b * ${comps} + c] += (accum)(TABLE_D(${row.table}, q)[b * DIM + ${k}] * parts[c * DIM + ${k}]);\
</%self:each>\
% endfor
    }
% endif
</%def>\
