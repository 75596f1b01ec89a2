<%namespace name="mirrors" file="mirrors.mako"/>\
// Schedule cell with sums in local memory: one cell per work-item, or a few one after the other, everything private but at nodes.
// Values at the nodes of the group's cells are read once; each cell writes its results to places of their own (where the values were, or
// behind these if items have several cells), and each node's are added up there before they are added to the vector.
// Index space: a group has as many cells for each turn as items, behind groups that write zeros (zeros.cl); items past the last
// cell repeat it: they write the same numbers to the same places.
// A place is the node's slot, and which of the node's results it is in the upper bits.
#define SLOT(place) ((place) % ${plan.slots or most_slots})
#define RESULT(place) ((place) / ${plan.slots or most_slots})
// A loop of few passes, most often one: unrolled it would be mostly tests of how many there are.
#define FEW _Pragma("unroll 1") for
// Loads that wait for other loads are asked for together, for some nodes at a time.
#define READS(n) _Pragma("unroll") for (int k = 0; k < n; ++k)
#define EACH_READ(n, slots) READS(n) if (begin + k * GROUP_SIZE < slots)
// The cells of an item.
#define EACH_TURN _Pragma("unroll") for (int turn = 0; turn < ${plan.turns}; ++turn)
#define CELL(turn) (first + min((group * ${plan.turns} + (turn)) * GROUP_SIZE + item, count - 1))
<%def name="load_places(entry)">\
<% n, together = entry.number, entry.together %>\
% if entry.packed:
  {
    uint places = d_places${n}[AT_d_places${n}(cell, 0)];
% for b in range(entry.num_basis):
    r_places${n}[${b}] = ${f"places % {entry.place_range}" if b + 1 < entry.num_basis else "places"};
    places /= ${entry.place_range};
% endfor
  }
% endif
% for b in range(0, 0 if entry.packed else entry.place_words, together):
  {
    const ushort${together} places = *(__global const ushort${together} *)(d_places${n} + AT_d_places${n}(cell, ${b}));
% for k in range(together):
    r_places${n}[${b + k}] = places.s${k};
% endfor
  }
% endfor
</%def>\
<%def name="result(entry, number='result')">s_sums${entry.number}[c * ${entry.comp_step} + place + ${number} * ${entry.row}]</%def>\
<%
def each_read(entry, reads):
    """The head of a loop over nodes that an item reads at a time: only where there may be fewer it asks for each."""
    return f"READS({reads})" if plan.reads_all(entry) else f"EACH_READ({reads}, slots{entry.number})"
%>\
## Reads numbers, counts and first places of so many nodes of a list, from slot `begin` on, GROUP_SIZE apart; other loads wait for these.
<%def name="find_nodes(entry, reads)">\
<% n, slots = entry.number, f"slots{entry.number}"; each = each_read(entry, reads) %>\
    int r_nodes${n}[${reads}]${f", r_vertices{n}[{reads}]" * entry.coords};
% if not entry.slots:
    ushort r_bases${n}[${reads}];
% endif
    uchar r_counts${n}[${reads}];
    ${each} {
      const uint i = begin + k * GROUP_SIZE, slot = ${slots} * group + i;
      r_nodes${n}[k] = d_nodes${n}[slot];
% if entry.coords:
      r_vertices${n}[k] = d_at${n}[slot];
% endif
% if not entry.slots:
      r_bases${n}[k] = d_bases${n}[group * slices${n} + i / ${slice}];
% endif
      r_counts${n}[k] = d_counts${n}[slot];
    }
</%def>\
## Keeps those in local memory, with what is wanted at the nodes.
<%def name="read_nodes(entry, reads)">\
<%
n, slots, each = entry.number, f"slots{entry.number}", each_read(entry, reads)
its_fields = [field for field in work.fields if field.name in entry.fields]
%>\
% if entry.coords:
    real r_x[${reads} * DIM];
    ${each} for (int d = 0; d < DIM; ++d) r_x[k * DIM + d] = d_coords[${f"NODE(r_vertices{n}[k])" if entry.masked else f"r_vertices{n}[k]"} * scale${n} + d];
% endif
% for field in its_fields:
    real r_${field.name}[${reads * field.num_comp}];
    ${each} for (int c = 0, offset = r_nodes${n}[k]; c < ${field.num_comp}; ++c) r_${field.name}[k * ${field.num_comp} + c] = ${at_node(field, entry)};
% endfor
    ${each} {
      const int i = begin + k * GROUP_SIZE;
% if not entry.slots:
      s_firsts${n}[i] = r_bases${n}[k] + (uint)i * ${slice_step} % ${slice};
% endif
% if not entry.kept:
      s_counts${n}[i] = r_counts${n}[k];
      s_nodes${n}[i] = r_nodes${n}[k];
% endif
% for array in entry.vector_arrays:
<% numbers = ", ".join(f"r_{name}[k * {count} + {c}]" for name, count, c in array.numbers) %>\
      ((__local ${array.ctype} *)${array.name})[i] = (${array.ctype})(${numbers});
% endfor
% if not entry.vector_widths:
% if entry.coords:
      for (int d = 0; d < DIM; ++d) s_x[d * ${slots} + i] = r_x[k * DIM + d];
% endif
% for field in its_fields:
      for (int c = 0; c < ${field.num_comp}; ++c) s_${field.name}[c * ${slots} + i] = r_${field.name}[k * ${field.num_comp} + c];
% endfor
% endif
    }
</%def>\
<% unlisted = [field for field in work.fields if not any(field.name in entry.fields for entry in plan.lists)] %>\
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
  // What is known of slots, then values at nodes, whose place results take over unless they stand behind them.
<% local = "s_local" %>\
% for entry in plan.lists:
<% n = entry.number %>\
  const int slots${n} = ${entry.slots or f"{slice} * slices{n}"};
% if not entry.kept:
  __local int *s_nodes${n} = (__local int *)${local};
<% local = f"(s_nodes{n} + slots{n})" %>\
% if not entry.slots:
  __local ushort *s_firsts${n} = (__local ushort *)${local};
<% local = f"(s_firsts{n} + slots{n})" %>\
% endif
  __local uchar *s_counts${n} = (__local uchar *)${local};
<% local = f"(s_counts{n} + slots{n})" %>\
% endif
% endfor
<% values = local = f"(__local real *){local}" %>\
% for n, name, comps in plan.values:
  __local real *${name} = ${local};
<% local = f"{name} + {comps} * slots{n}" %>\
% endfor
% if plan.turns == 1:
<% local = values %>\
% endif
% for entry in plan.lists:
  __local real *s_sums${entry.number} = ${local};
<% local = f"s_sums{entry.number} + {entry.num_sums}" %>\
% endfor
  const int group = (int)get_group_id(0)${' - (int)zeroing' * plan.zeroes}, item = (int)get_local_id(0);
% if plan.turns == 1:
  const int cell = CELL(0);
% endif

% if plan.zeroes:
  // The item that has the fewest nodes to read.
  const bool waits = zeroing && item == GROUP_SIZE - 1;
  uint2 r_asked;
  if (waits) r_asked = ask_zeros(group, d_zeros);
% endif

  // gather
% for entry in plan.lists:
<% n, together = entry.number, entry.together %>\
% if plan.turns == 1:
  ushort r_places${n}[${entry.place_words}];
${load_places(entry)}\
% else:
  ushort r_turns${n}[${plan.turns}][${entry.place_words}];
  EACH_TURN {
    const int cell = CELL(turn);
    ushort *r_places${n} = r_turns${n}[turn];
${load_places(entry)}\
  }
% endif
% endfor
  int begin = item;
% for entry in plan.lists:
% if entry.coords:
  // Without a list of vertices nodes stand in their order.
  __global const int *d_at${entry.number} = d_vertices${entry.number} ? d_vertices${entry.number} : d_nodes${entry.number};
  const int scale${entry.number} = d_vertices${entry.number} ? 1 : ${work.dim // entry.num_comp};
% endif
${find_nodes(entry, plan.reads(entry))}\
% endfor
% for field in unlisted:
  real r_turns_${field.name}[${plan.turns}][${field.size}];
% endfor
% if unlisted:
  EACH_TURN {
    const int cell = CELL(turn);
% for field in unlisted:
    real *r_${field.name}_e = r_turns_${field.name}[turn];
% endfor
<%include file="load.mako" args="ahead=True"/>\
  }
% endif
% for entry in plan.lists:
  {
${read_nodes(entry, plan.reads(entry))}\
  }
% if not plan.reads_all(entry):
  FEW (begin = item + ${plan.reads(entry)} * GROUP_SIZE; begin < slots${entry.number}; begin += GROUP_SIZE) {
${find_nodes(entry, 1)}\
${read_nodes(entry, 1)}\
  }
  begin = item;
% endif
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% if plan.turns > 1:
  EACH_TURN {
  const int cell = CELL(turn);
% for entry in plan.lists:
  const ushort *r_places${entry.number} = r_turns${entry.number}[turn];
% endfor
% endif
% for field in unlisted:
  real *r_${field.name}_e = r_turns_${field.name}[${'turn' if plan.turns > 1 else '0'}];
% endfor
<%include file="gather.mako" args="ahead=False, reread=plan.reread"/>
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
% for field in plan.reread:
<% (entry,) = (entry for entry in plan.lists if field.name in entry.fields) %>\
    // Read anew, as compilers are told: kept from point to point they would be spilled.
    real r_${field.name}_e[${field.size}];
    UNROLL
    for (int b = 0; b < ${field.num_basis}; ++b)
      for (int c = 0; c < ${field.num_comp}; ++c) r_${field.name}_e[b * ${field.num_comp} + c] = ${listed(entry, f"((volatile __local real *)s_{field.name})", "c")};
% endfor
<%include file="point.mako" args="parity=parity"/>
% if work.target == "diagonal":
<%include file="diagonal.mako"/>\
% endif
  }
% endfor
% if plan.mirrored:
${mirrors.unfold(plan)}\
% endif
% if plan.turns == 1:
  barrier(CLK_LOCAL_MEM_FENCE);

% endif
% for entry in plan.lists:
<% n = entry.number %>\
  UNROLL
  for (int b = 0; b < ${entry.num_basis}; ++b) {
    const int slot = SLOT(r_places${n}[b]), place = ${"slot" if entry.slots else f"s_firsts{n}[slot]"} + RESULT(r_places${n}[b]) * ${entry.row};
    for (int c = 0; c < ${entry.num_comp}; ++c) s_sums${n}[c * ${entry.comp_step} + place] = r_f${n}_e[b * ${entry.num_comp} + c];
  }
% endfor
% if plan.turns > 1:
  }
% endif
% if plan.zeroes:
  if (waits) await_zeros(group, zeroing, r_asked, d_zeros);
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
% if entry.kept:
  READS(${plan.reads(entry)}) {
    const int i = item + k * GROUP_SIZE, c = 0, results = r_counts${n}[k], offset = r_nodes${n}[k], place = i;
% else:
% if plan.reads_all(entry) and plan.group_size % comps == 0:
  READS(${comps * plan.reads(entry)}) {
    const int i = item / ${comps} + k * (GROUP_SIZE / ${comps}), c = item % ${comps};
% else:
  ${"UNROLL for" if entry.slots else "FEW"} (int k = item; k < ${comps} * slots${n}; k += GROUP_SIZE) {
    const int i = k / ${comps}, c = k % ${comps};
% endif
    const int results = s_counts${n}[i], offset = s_nodes${n}[i], place = ${"i" if entry.slots else f"s_firsts{n}[i]"};
% endif
    if (!results${f" || {'IS_PRESCRIBED(offset, c)' if comps > 1 else 'offset < 0'}" * entry.masked}) continue;
% if plan.results_ahead(entry):
    accum sum = ${result(entry, 0)};
    _Pragma("unroll") for (int result = 1; result < ${plan.results_ahead(entry)}; ++result) if (result < results) sum += ${result(entry)};
% else:
    accum sum = 0;
% endif
% if not entry.slots:
    ${'_Pragma("unroll 4") for' if plan.unrolls_results else "FEW"} (int result = ${plan.results_ahead(entry)}; result < results; ++result) sum += ${result(entry)};
% endif
% if plan.scatter == "evector":
    d_out${n}[((size_t)slots${n} * group + i) * ${comps} + c] = (scalar)sum;
% else:
    atomic_add_scalar(d_out + ${"NODE(offset)" if entry.masked else "offset"} + c, (scalar)sum${" * r_scale" * plan.sums_dots});
% endif
% if plan.sums_dots:
    if (d_dots) r_dot += (double)sum * d_w[${"NODE(offset)" if entry.masked else "offset"} + c];
% endif
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
