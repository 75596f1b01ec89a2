<%namespace name="mirrors" file="mirrors.mako"/>\
// Schedule cell: one cell (or one facet of a cell) per work-item, everything private, no barrier.
// Index space: global id = cell - first, rounded up to the work-group; items past the last cell leave at once.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int cell = first + (int)get_global_id(0);
  if (cell >= first + count) return;

  // gather
<%include file="gather.mako"/>
% if work.target == "functional":
  accum r_sum[1] = {0};
% endif
% for i, row in enumerate(work.rows):
  accum r_f${i}_e[${row.size}];
  UNROLL
  for (int i = 0; i < ${row.size}; ++i) r_f${i}_e[i] = 0;
% endfor
% if plan.mirrored:
${mirrors.fold(plan)}\
% endif

% for parity, points in plan.points:
  POINTS_UNROLL
  for (int q = ${points.start}; q < ${points.stop}; ++q) {
<%include file="point.mako" args="parity=parity"/>
% if work.target == "diagonal":
<%include file="diagonal.mako"/>\
% endif
  }
% endfor
% if plan.mirrored:
${mirrors.dots(plan, kept) if plan.sums_dots else ""}\
${mirrors.unfold(plan)}\
% endif

<%include file="scatter.mako" args="folded=plan.mirrored"/>
}
