<%namespace name="mirrors" file="mirrors.mako"/>\
// Schedule cell with sums in local memory: one cell per work-item, everything private but at nodes.
// Values at the nodes of the group's cells are read once; each cell writes its results to places of their own, where the values were,
// and each node's are added up there before they are added to the vector.
// Index space: global id = cell - first, rounded up to the work-group, behind groups that write zeros (zeros.cl); items past the last
// cell repeat it: they write the same numbers to the same places.
// A place is the node's slot, and which of the node's results it is in the upper bits.
#define SLOT(place) ((place) % ${most_slots})
#define RESULT(place) ((place) / ${most_slots})
// A loop of few passes, most often one: unrolled it would be mostly tests of how many there are.
#define FEW _Pragma("unroll 1") for
// Loads that wait for other loads are asked for together, for some nodes at a time; past the last node items write what stands there.
#define EACH_READ(n) _Pragma("unroll") for (int k = 0; k < n; ++k)
<% fields = {field.name: field for field in work.fields} %>\
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
% if plan.zeroes:
  if (get_group_id(0) < zeroing) {
    write_zeros(zeroing, num_zeros, d_out, d_zeros);
    return;
  }
% endif
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}];
% endfor
  // A list's slots, as many as the mesh needs, then values at nodes, whose place results take over.
<% local = "s_local" %>\
% for entry in plan.lists:
<% n = entry.number %>\
  const int slots${n} = ${slice} * slices${n};
  __local int *s_nodes${n} = (__local int *)${local};
  __local ushort *s_firsts${n} = (__local ushort *)(s_nodes${n} + slots${n});
  __local uchar *s_counts${n} = (__local uchar *)(s_firsts${n} + slots${n});
<% local = f"(s_counts{n} + slots{n})" %>\
% endfor
<% local = f"(__local real *){local}" %>\
% for n, name, comps in plan.values:
  __local real *${name} = ${local};
<% local = f"{name} + {comps} * slots{n}" %>\
% endfor
<% local = f"(__local real *)(s_counts{plan.lists[-1].number} + slots{plan.lists[-1].number})" %>\
% for entry in plan.lists:
  __local real *s_sums${entry.number} = ${local};
<% local = f"s_sums{entry.number} + {entry.num_comp * entry.comp_step}" %>\
% endfor
  const int group = (int)get_group_id(0)${' - (int)zeroing' * plan.zeroes}, item = (int)get_local_id(0);
  const int cell = first + min(group * GROUP_SIZE + item, count - 1);

  // gather
% for entry in plan.lists:
<% n, together = entry.number, entry.together %>\
  ushort r_places${n}[${entry.place_words}];
% for b in range(0, entry.place_words, together):
  {
    const ushort${together} places = *(__global const ushort${together} *)(d_places${n} + AT_d_places${n}(cell, ${b}));
% for k in range(together):
    r_places${n}[${b + k}] = places.s${k};
% endfor
  }
% endfor
% endfor
% for entry in plan.lists:
<%
n, reads, slots = entry.number, plan.reads(entry), f"slots{entry.number}"
its_fields = [fields[name] for name in entry.fields]
%>\
  FEW (int begin = item; begin < ${slots}; begin += ${reads} * GROUP_SIZE) {
    int r_slots[${reads}], r_nodes[${reads}];
    EACH_READ(${reads}) {
      r_slots[k] = min(begin + k * GROUP_SIZE, ${slots} - 1);
      r_nodes[k] = d_nodes${n}[${slots} * group + r_slots[k]];
    }
% if entry.coords:
    real r_x[${reads} * DIM];
    EACH_READ(${reads}) for (int d = 0; d < DIM; ++d) r_x[k * DIM + d] = d_coords[d_vertices${n}[${slots} * group + r_slots[k]] + d];
% endif
% for field in its_fields:
    real r_${field.name}[${reads * field.num_comp}];
    EACH_READ(${reads}) for (int c = 0, offset = r_nodes[k]; c < ${field.num_comp}; ++c) r_${field.name}[k * ${field.num_comp} + c] = ${at_node(field, entry)};
% endfor
    EACH_READ(${reads}) {
      const int i = r_slots[k];
      s_firsts${n}[i] = d_bases${n}[group * slices${n} + (uint)i / ${slice}] + (uint)i * ${slice_step} % ${slice};
      s_counts${n}[i] = d_counts${n}[${slots} * group + i];
      s_nodes${n}[i] = r_nodes[k];
% if entry.coords:
      for (int d = 0; d < DIM; ++d) s_x[d * ${slots} + i] = r_x[k * DIM + d];
% endif
% for field in its_fields:
      for (int c = 0; c < ${field.num_comp}; ++c) s_${field.name}[c * ${slots} + i] = r_${field.name}[k * ${field.num_comp} + c];
% endfor
    }
  }
% endfor
% if plan.zeroes:
  uint r_missing = 0;
  if (zeroing && item == 0) r_missing = missing_zeros(group, zeroing, d_zeros);
% endif
  barrier(CLK_LOCAL_MEM_FENCE);
<%include file="gather.mako"/>
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
${mirrors.unfold(plan)}\
% endif
  barrier(CLK_LOCAL_MEM_FENCE);

% for entry in plan.lists:
<% n = entry.number %>\
  UNROLL
  for (int b = 0; b < ${entry.num_basis}; ++b) {
    const int place = s_firsts${n}[SLOT(r_places${n}[b])] + RESULT(r_places${n}[b]) * ${slice_row};
    for (int c = 0; c < ${entry.num_comp}; ++c) s_sums${n}[c * ${entry.comp_step} + place] = r_f${n}_e[b * ${entry.num_comp} + c];
  }
% endfor
% if plan.zeroes:
  await_zeros(group, r_missing, d_zeros);
% endif
  barrier(CLK_LOCAL_MEM_FENCE);

  // scatter
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
% endif
## Neighbouring items add neighbouring components: a device adds faster to numbers side by side.
% for entry in plan.lists:
<% n, comps = entry.number, entry.num_comp %>\
  FEW (int k = item; k < ${comps} * slots${n}; k += GROUP_SIZE) {
    const int i = k / ${comps}, c = k % ${comps};
    const int results = s_counts${n}[i], offset = s_nodes${n}[i], place = s_firsts${n}[i];
    if (!results${f" || {'IS_PRESCRIBED(offset, c)' if comps > 1 else 'offset < 0'}" * entry.masked}) continue;
    accum sum = 0;
    ${'_Pragma("unroll 4") for' if plan.unrolls_results else "FEW"} (int result = 0; result < results; ++result) sum += s_sums${n}[c * ${entry.comp_step} + place + result * ${slice_row}];
    atomic_add_scalar(d_out + ${"NODE(offset)" if entry.masked else "offset"} + c, (scalar)sum${" * r_scale" * plan.sums_dots});
% if plan.sums_dots:
    if (d_dots) r_dot += (double)sum * d_w[${"NODE(offset)" if entry.masked else "offset"} + c];
% endif
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
