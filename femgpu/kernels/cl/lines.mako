## 1D matrices times lines of numbers in registers. SHORT stands before loops that are unrolled there.
## target[r] = sum_c matrix[r, c] source[c]; the bounds stand in the text, for functions would be unrolled before these are known.
<%def name="multiply(rows, columns, row_step, column_step, matrix, source, target, type='real')">\
SHORT for (int r = 0; r < ${rows}; ++r) {
        ${type} sum = 0;
        SHORT for (int m = 0; m < ${columns}; ++m) sum += (${type})${matrix}[r * ${row_step} + m * ${column_step}] * ${source}[m];
        ${target}[r] = sum;
      }\
</%def>\
## The same by even and odd parts of the source, for matrices whose last row is the first one backwards, times `sign`: half the
## multiply-adds. `matrix`_EVEN and `matrix`_ODD are its first rows' even and odd parts; of the transposed, whose rows are columns there.
<%def name="multiply_parts(rows, columns, transposed, sign, matrix, source, target, type='real')">\
<%
half, middle, wide, odd = rows // 2, rows % 2, -(-columns // 2), columns // 2
names = ["ODD", "EVEN"] if transposed and sign < 0 else ["EVEN", "ODD"]
widths = {"EVEN": -(-(rows if transposed else columns) // 2), "ODD": (rows if transposed else columns) // 2}
even, odds = (f"{matrix}_{name}[" + (f"m * {widths[name]} + r" if transposed else f"r * {widths[name]} + m") + "]" for name in names)
%>\
{
        ${type} even[${wide}], odd[${wide}];
        SHORT for (int m = 0; m < ${odd}; ++m) {
          even[m] = ${source}[m] + ${source}[${columns - 1} - m];
          odd[m] = ${source}[m] - ${source}[${columns - 1} - m];
        }
% if columns % 2:
        even[${odd}] = ${source}[${odd}];
% endif
        SHORT for (int r = 0; r < ${half}; ++r) {
          ${type} sum = 0, difference = 0;
          SHORT for (int m = 0; m < ${wide}; ++m) sum += (${type})${even} * even[m];
          SHORT for (int m = 0; m < ${odd}; ++m) difference += (${type})${odds} * odd[m];
          ${target}[r] = sum + difference;
          ${target}[${rows - 1} - r] = ${"sum - difference" if sign > 0 else "difference - sum"};
        }
% if middle:
        {
          const int r = ${half};
          ${type} sum = 0;
          SHORT for (int m = 0; m < ${wide if sign > 0 else odd}; ++m) sum += (${type})${even if sign > 0 else odds} * ${"even" if sign > 0 else "odd"}[m];
          ${target}[r] = sum;
        }
% endif
      }\
</%def>\
## Derivatives along a line of points, and back.
<%def name="derive(plan, source, target)">\
% if plan.splits:
${multiply_parts(plan.q1d, plan.q1d, False, -1, "LINE_D", source, target)}\
% else:
${multiply(plan.q1d, plan.q1d, plan.q1d, 1, "LINE_D", source, target)}\
% endif
</%def>\
<%def name="derive_back(plan, source, target)">\
% if plan.splits:
${multiply_parts(plan.q1d, plan.q1d, True, -1, "LINE_D", source, target, "accum")}\
% else:
${multiply(plan.q1d, plan.q1d, 1, plan.q1d, "LINE_D", source, target, "accum")}\
% endif
</%def>\
## Values along a line at the nodes to those at the points, and back.
<%def name="interpolate(plan, sums, source, target)">\
% if plan.splits:
${multiply_parts(sums.sizes.q1d, sums.sizes.p1d, False, 1, f"LINE_B{sums.sizes.table}", source, target)}\
% else:
${multiply(sums.sizes.q1d, sums.sizes.p1d, sums.sizes.p1d, 1, f"LINE_B{sums.sizes.table}", source, target)}\
% endif
</%def>\
<%def name="gather_back(plan, sums, source, target)">\
% if plan.splits:
${multiply_parts(sums.sizes.p1d, sums.sizes.q1d, True, 1, f"LINE_B{sums.sizes.table}", source, target, "accum")}\
% else:
${multiply(sums.sizes.p1d, sums.sizes.q1d, 1, sums.sizes.p1d, f"LINE_B{sums.sizes.table}", source, target, "accum")}\
% endif
</%def>\
