## 1D matrices times lines of numbers in registers, and even-odd decomposition: half the multiply-adds, where points and nodes are
## symmetric. SHORT stands before loops that are unrolled there.
<%!
def parity(matrix):
    """The sign of a matrix's last row backwards in terms of its first one: of values, or of derivatives."""
    return -1 if matrix.partition("_")[2].startswith("D") else 1


def parity_terms(matrix, rows, columns, transposed, even="even", odd="odd"):
    """What is summed for the even part of the result, and for the odd one: a matrix, the number in it, the source's part, its size.

    `matrix`_EVEN and `matrix`_ODD are even and odd parts of its first rows; of the transposed, whose rows are columns there.
    """
    sign = parity(matrix)
    halves = {"EVEN": -(-(rows if transposed else columns) // 2), "ODD": (rows if transposed else columns) // 2}
    sources = [(even, -(-columns // 2)), (odd, columns // 2)][::sign]
    names = ["EVEN", "ODD"] if transposed else ["EVEN", "ODD"][::sign]
    return [
        (f"{matrix}_{name}", f"m * {halves[name]} + r" if transposed else f"r * {halves[name]} + m", part, size)
        for name, (part, size) in zip(names, sources)
    ]
%>\
## target[r] (+)= sum_c matrix[r, c] source[c]; the bounds stand in the text, for functions would be unrolled before these are known.
## `along` and `to` are strides of the source and of the target.
<%def name="multiply(rows, columns, row_step, column_step, matrix, source, target, type='real', along=1, to=1, adds=False)">\
SHORT for (int r = 0; r < ${rows}; ++r) {
        ${type} sum = ${f"{target}[r * {to}]" if adds else 0};
        SHORT for (int m = 0; m < ${columns}; ++m) sum += (${type})${matrix}[r * ${row_step} + m * ${column_step}] * ${source}[m * ${along}];
        ${target}[r * ${to}] = sum;
      }\
</%def>\
## A matrix of the plan, or its transposed, times a line; results that are added to are had by whole matrices: parts would take as many
## operations.
<%def name="apply(plan, rows, columns, matrix, transposed, source, target, type='real', along=1, to=1, adds=False)">\
% if plan.splits and not adds:
{
        ${parts(columns, source, "even", "odd", type, along)}
        ${sum_parts(rows, [parity_terms(matrix, rows, columns, transposed)], target, type, to)}
      }\
% else:
${multiply(rows, columns, *((1, rows) if transposed else (columns, 1)), matrix, source, target, type, along, to, adds)}\
% endif
</%def>\
## Even and odd parts of a line.
<%def name="parts(columns, source, even, odd, type, along=1)">\
${type} ${even}[${-(-columns // 2)}], ${odd}[${columns // 2}];
        SHORT for (int m = 0; m < ${columns // 2}; ++m) {
          ${even}[m] = ${source}[m * ${along}] + ${source}[(${columns - 1} - m) * ${along}];
          ${odd}[m] = ${source}[m * ${along}] - ${source}[(${columns - 1} - m) * ${along}];
        }
% if columns % 2:
        ${even}[${columns // 2}] = ${source}[${columns // 2 * along}];
% endif
</%def>\
## Sums of `parity_terms`, for a line.
<%def name="sum_parts(rows, terms, target, type, to=1)">\
SHORT for (int r = 0; r < ${rows // 2}; ++r) {
          ${type} sum = 0, difference = 0;
% for pair in terms:
% for result, (matrix, number, part, size) in zip(("sum", "difference"), pair):
          SHORT for (int m = 0; m < ${size}; ++m) ${result} += (${type})${matrix}[${number}] * ${part}[m];
% endfor
% endfor
          ${target}[r * ${to}] = sum + difference;
          ${target}[(${rows - 1} - r) * ${to}] = sum - difference;
        }
% if rows % 2:
        {
          const int r = ${rows // 2};
          ${type} sum = 0;
% for (matrix, number, part, size), _ in terms:
          SHORT for (int m = 0; m < ${size}; ++m) sum += (${type})${matrix}[${number}] * ${part}[m];
% endfor
          ${target}[r * ${to}] = sum;
        }
% endif
</%def>\
## Derivatives along a line of points, and back.
<%def name="derive(plan, source, target)">${apply(plan, plan.q1d, plan.q1d, "LINE_D", False, source, target)}</%def>\
<%def name="derive_back(plan, source, target)">\
${apply(plan, plan.q1d, plan.q1d, f"{plan.backwards}_D", True, source, target, "accum")}\
</%def>\
## Values along a line at the nodes to those at the points, and back.
<%def name="interpolate(plan, sums, source, target)">\
${apply(plan, sums.sizes.q1d, sums.sizes.p1d, f"LINE_B{sums.sizes.table}", False, source, target)}\
</%def>\
<%def name="gather_back(plan, sums, source, target)">\
${apply(plan, sums.sizes.p1d, sums.sizes.q1d, f"{plan.backwards}_B{sums.sizes.table}", True, source, target, "accum")}\
</%def>\
## Values and derivatives along a line at the points from values at the nodes, and back.
<%def name="tabulate(plan, sums, source, values, slopes, step=1)">\
<% q, p, number = plan.q1d, sums.sizes.p1d, sums.sizes.table; matrices = (f"LINE_B{number}", values), (f"LINE_D{number}", slopes) %>\
{
% if plan.splits:
        ${parts(p, source, "even", "odd", "real", step)}
% for matrix, target in matrices:
        ${sum_parts(q, [parity_terms(matrix, q, p, False)], target, "real", step)}
% endfor
% else:
% for matrix, target in matrices:
        ${multiply(q, p, p, 1, matrix, source, target, "real", step, step)}
% endfor
% endif
      }\
</%def>\
<%def name="tabulate_back(plan, sums, values, slopes, target, step=1)">\
<%
q, p, number = plan.q1d, sums.sizes.p1d, sums.sizes.table
matrices = (f"{plan.backwards}_B{number}", values), (f"{plan.backwards}_D{number}", slopes)
terms = [parity_terms(matrix, p, q, True, f"even{i}", f"odd{i}") for i, (matrix, _) in enumerate(matrices)]
%>\
{
% for i, (matrix, source) in enumerate(matrices):
% if plan.splits:
        ${parts(q, source, f"even{i}", f"odd{i}", "accum", step)}
% else:
        ${multiply(p, q, 1, p, matrix, source, target, "accum", step, step, i > 0)}
% endif
% endfor
% if plan.splits:
        ${sum_parts(p, terms, target, "accum", step)}
% endif
      }\
</%def>\
