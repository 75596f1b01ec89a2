// Schedule sumfact, ITEMS work-items for each of the CELLS cells of a work-group. An item takes lines of the lattices, which stand in
// local memory and are contracted in place; along the last direction its line of points stays in its registers, with the values there
// and the sums of the rows, and the other directions' derivatives are those of the values that its neighbours have put down.
// Index space: local id = (cell, item). Past the last cell of the launch items repeat it and write nothing.
<%
last = work.dim - 1
names = ("i", "j", "k")[: work.dim]
strides = ("1", "ROW", "PLANE")[: work.dim]
kinds = (("real", plan.lattices), ("accum", plan.rows))
%>\
#define LATTICE
#define AT_POINT(slot, p) (slot)
#define PENCIL_UNROLL _Pragma("unroll${'' if plan.unrolls_line else ' 1'}")
// Loops over components and numbers of a line, which stand in registers where all of them are unrolled.
#define SHORT${' _Pragma("unroll")' if plan.unroll else ""}
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
// target[r] = sum_c matrix[r * row_step + c * column_step] source[c]
<%def name="contraction(name, type)">\
inline void ${name}(const int rows, const int columns, const int row_step, const int column_step, __constant const real *matrix,
                    const ${type} *source, ${type} *target) {
  SHORT for (int r = 0; r < rows; ++r) {
    ${type} sum = 0;
    SHORT for (int c = 0; c < columns; ++c) sum += (${type})matrix[r * row_step + c * column_step] * source[c];
    target[r] = sum;
  }
}
inline void read_${name}(const int n, const int stride, __local const ${type} *line, ${type} *values) {
  SHORT for (int r = 0; r < n; ++r) values[r] = line[r * stride];
}
inline void write_${name}(const int n, const int stride, const ${type} *values, __local ${type} *line) {
  SHORT for (int r = 0; r < n; ++r) line[r * stride] = values[r];
}
</%def>\
## The lines along a direction that an item has, of those of the other directions that are at the nodes or at the points.
<%def name="line(axis, sums)">\
<% others = [other for other in range(work.dim) if other != axis] %>\
if (${" && ".join(f"{item} < {sums.sizes.p1d if other > axis else sums.sizes.q1d}" for item, other in zip("ab", others))})\
</%def>\
<%def name="start(axis)">\
<% others = [other for other in range(work.dim) if other != axis] %>\
${" + ".join(f"{item} * {strides[other]}" for item, other in zip("ab", others))}\
</%def>\
## In place: evaluation and, transposed, integration along a direction other than the last. No register outlives a component, which
## share their code where several fields would make it long; that takes a few per cent more time.
<%def name="stage(name, type, array, axis, sums, transposed)">\
<% p, q = sums.sizes.p1d, sums.sizes.q1d %>\
  ${line(axis, sums)} {
    ${'_Pragma("unroll 1")' if plan.unroll and len(plan.lattices) > 1 and sums.sizes.num_comp > 1 else "SHORT"} for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      ${type} before[N], after[N];
      __local ${type} *at = ${array} + c * SLAB + ${start(axis)};
% if transposed:
      read_${name}(${q}, ${strides[axis]}, at, before);
      ${name}(${p}, ${q}, 1, ${p}, LINE_B${sums.sizes.table}, before, after);
      write_${name}(${p}, ${strides[axis]}, after, at);
% else:
      read_${name}(${p}, ${strides[axis]}, at, before);
      ${name}(${q}, ${p}, ${p}, 1, LINE_B${sums.sizes.table}, before, after);
      write_${name}(${q}, ${strides[axis]}, after, at);
% endif
    }
  }
</%def>\
${contraction("evaluate", "real")}
${contraction("integrate", "accum")}
<%include file="points.cl"/>
#undef TABLE_W
#define TABLE_W(q) (plane_weight * LINE_W[n])
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int item = (int)get_local_id(0) % ITEMS, own = (int)get_local_id(0) / ITEMS;
  const int past = (int)get_group_id(0) * CELLS + own, cell = first + min(past, count - 1);
  const int a = item % N, b = item / N;
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}]; // ${plan.itemsize(array.ctype) * array.words} bytes
% endfor
% for array in plan.cell_local:
  __local ${array.ctype} *${array.name.replace("s_", "l_", 1)} = ${array.name} + own * ${array.words};
% endfor

  // gather
  {
% for sums in plan.lattices:
    __local real *r_${sums.name}_e = l_${sums.name};
% endfor
% if plan.needs_coords:
    __local real *r_x_e = l_x;
% endif
<%include file="load.mako"/>
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // tabulate
% if plan.maps_once:
  if (item == 0) {
    real J[DIM * DIM], inverse[DIM * DIM];
    for (int d = 0; d < DIM; ++d)
      for (int k = 0; k < DIM; ++k) {
        real sum = 0;
        for (int n = 0; n < NUM_COORD_BASIS; ++n) sum += LINE_MAP[n * DIM + k] * l_x[d * NUM_COORD_BASIS + n];
        J[d * DIM + k] = sum;
      }
    l_map[DIM * DIM] = invert(J, inverse);
    for (int i = 0; i < DIM * DIM; ++i) l_map[i] = inverse[i];
  }
% endif
% for axis in range(last):
% for sums in plan.lattices:
% if sums.orders and not sums.sizes.collocated:
${stage("evaluate", "real", f"l_{sums.name}", axis, sums, False)}\
% endif
% endfor
% if axis == 0 and plan.maps_once or any(sums.orders and not sums.sizes.collocated for sums in plan.lattices):
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% endfor
% for sums in plan.lattices:
  real r_${sums.name}_line[${sums.sizes.num_comp * plan.q1d}];
% endfor
% for sums in plan.rows:
  accum r_${sums.name}_line[${sums.sizes.num_comp * plan.q1d}];
  SHORT for (int n = 0; n < ${sums.sizes.num_comp * plan.q1d}; ++n) r_${sums.name}_line[n] = 0;
% endfor
  const int at = ${start(last)};
  const int inside = ${" && ".join(f"{item} < {plan.q1d}" for item in "ab"[:last])};
% for sums in plan.lattices:
% if sums.orders:
  if (inside)
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
% if sums.sizes.collocated:
      read_evaluate(${plan.q1d}, ${strides[last]}, l_${sums.name} + c * SLAB + at, r_${sums.name}_line + c * ${plan.q1d});
% else:
      real before[N];
      read_evaluate(${sums.sizes.p1d}, ${strides[last]}, l_${sums.name} + c * SLAB + at, before);
      evaluate(${plan.q1d}, ${sums.sizes.p1d}, ${sums.sizes.p1d}, 1, LINE_B${sums.sizes.table}, before, r_${sums.name}_line + c * ${plan.q1d});
% if plan.derives(sums) or not plan.unrolls_line:
      write_evaluate(${plan.q1d}, ${strides[last]}, r_${sums.name}_line + c * ${plan.q1d}, l_${sums.name} + c * SLAB + at);
% endif
% endif
    }
% endif
% endfor
% if any(plan.derives(sums) and not sums.sizes.collocated for sums in plan.lattices):
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% if any(map(plan.derives, (*plan.lattices, *plan.rows))):
% for axis in range(last):
  // of derivatives along ${names[axis]}
  real r_derive${axis}[${plan.q1d}];
% endfor
% endif
% if plan.coords_line:
  // The coordinates and their derivatives along the other directions, contracted but for the last.
<% p = plan.coords_line.sizes.p1d %>\
  real r_x_line[${work.dim} * DIM * ${p}];
  SHORT for (int d = 0; d < DIM; ++d)
    SHORT for (int n = 0; n < ${p}; ++n) {
% for axis in range(work.dim):
      real sum${axis} = 0;
% endfor
      SHORT for (int m = 0; m < ${p**last}; ++m) {
        const real node = l_x[(d * ${p} + n) * ${p**last} + m];
% for axis in range(work.dim):
<% factors = [f"LINE_{'D' if other == axis else 'B'}{work.coord_table}[min({item}, {plan.q1d - 1}) * {p} + m / {p**other} % {p}]" for item, other in zip("ab", range(last))] %>\
        sum${axis} += ${" * ".join(factors)} * node;
% endfor
      }
% for axis in range(work.dim):
      r_x_line[(${axis} * DIM + d) * ${p} + n] = sum${axis};
% endfor
    }
% endif

  if (inside) {
    const real plane_weight = ${" * ".join(f"LINE_W[{item}]" for item in "ab"[:last])};
% if any(map(plan.derives, plan.lattices)):
    SHORT for (int m = 0; m < ${plan.q1d}; ++m) {
% for axis in range(last):
      r_derive${axis}[m] = LINE_D[${"ab"[axis]} * ${plan.q1d} + m];
% endfor
    }
% endif
    PENCIL_UNROLL
    for (int n = 0; n < ${plan.q1d}; ++n) {
      const int place = ${" + ".join(f"{item} * {plan.q1d**axis}" for axis, item in enumerate([*"ab"[:last], "n"]))}, q = RULE(place);
% for sums in plan.lattices:
      real r_${sums.name}_e[${plan.slots(sums)}];
% if sums.orders:
      SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
        r_${sums.name}_e[c] = ${f"r_{sums.name}_line[c * {plan.q1d} + n]" if plan.unrolls_line else f"l_{sums.name}[c * SLAB + at + n * {strides[last]}]"};
% if plan.derives(sums):
% for axis in range(work.dim):
        real sum${axis} = 0;
% endfor
        SHORT for (int m = 0; m < ${plan.q1d}; ++m) {
<% offsets = [" + ".join(["n" if other == last else "m" if other == axis else "ab"[other]][0] + f" * {strides[other]}" for other in range(work.dim)) for axis in range(last)] %>\
% for axis in range(last):
          sum${axis} += r_derive${axis}[m] * l_${sums.name}[c * SLAB + ${offsets[axis]}];
% endfor
          sum${last} += LINE_D[n * ${plan.q1d} + m] * r_${sums.name}_line[c * ${plan.q1d} + m];
        }
% for axis in range(work.dim):
        r_${sums.name}_e[${sums.sizes.num_comp} + c * DIM + ${axis}] = sum${axis};
% endfor
% endif
      }
% endif
% endfor
% if plan.coords_line:
      real r_x_e[DIM * (1 + DIM)];
      SHORT for (int d = 0; d < DIM; ++d) {
% for axis in range(work.dim + 1):
        real sum${axis} = 0;
% endfor
        SHORT for (int m = 0; m < ${p}; ++m) {
% for axis in range(last):
          sum${axis} += LINE_B${work.coord_table}[n * ${p} + m] * r_x_line[(${axis} * DIM + d) * ${p} + m];
% endfor
          sum${last} += LINE_D${work.coord_table}[n * ${p} + m] * r_x_line[(${last} * DIM + d) * ${p} + m];
          sum${work.dim} += LINE_B${work.coord_table}[n * ${p} + m] * r_x_line[(${last} * DIM + d) * ${p} + m];
        }
        r_x_e[d] = sum${work.dim};
% for axis in range(work.dim):
        r_x_e[DIM + d * DIM + ${axis}] = sum${axis};
% endfor
      }
% endif
% for sums in plan.rows:
      accum r_${sums.name}_e[${plan.slots(sums)}];
% endfor
% if work.num_cell_state:
      real r_c[NUM_CELL_STATE];
      for (int i = 0; i < NUM_CELL_STATE; ++i) r_c[i] = d_cell_state[AT_d_cell_state(cell, i)];
% endif
% if work.maps:
      real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
      for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = d_geometry[AT_d_geometry(cell, i)];
      det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
% elif work.affine:
      for (int i = 0; i < DIM * DIM; ++i) J_inv[i] = l_map[i];
      det_J = l_map[DIM * DIM];
% endif
% endif
<%include file="point.mako"/>
% for sums in plan.rows:
% if sums.orders:
      SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
% if plan.values(sums) and plan.unrolls_line:
        r_${sums.name}_line[c * ${plan.q1d} + n] += r_${sums.name}_e[c];
% elif plan.values(sums):
        // Registers have no changing numbers.
        SHORT for (int m = 0; m < ${plan.q1d}; ++m) r_${sums.name}_line[c * ${plan.q1d} + m] += m == n ? r_${sums.name}_e[c] : 0;
% endif
% if plan.derives(sums):
% for axis in range(last):
        l_${sums.name}[(${axis} * ${sums.sizes.num_comp} + c) * SLAB + at + n * ${strides[last]}] = r_${sums.name}_e[${sums.sizes.num_comp} + c * DIM + ${axis}];
% endfor
        SHORT for (int m = 0; m < ${plan.q1d}; ++m) r_${sums.name}_line[c * ${plan.q1d} + m] += (accum)LINE_D[n * ${plan.q1d} + m] * r_${sums.name}_e[${sums.sizes.num_comp} + c * DIM + ${last}];
% endif
      }
% endif
% endfor
    }
  }

  // integrate
% if any(map(plan.derives, plan.rows)):
  barrier(CLK_LOCAL_MEM_FENCE);
  if (inside) {
    SHORT for (int m = 0; m < ${plan.q1d}; ++m) {
% for axis in range(last):
      r_derive${axis}[m] = LINE_D[m * ${plan.q1d} + ${"ab"[axis]}];
% endfor
    }
% for sums in plan.rows:
% if plan.derives(sums):
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
      SHORT for (int n = 0; n < ${plan.q1d}; ++n) {
        accum sum = r_${sums.name}_line[c * ${plan.q1d} + n];
        SHORT for (int m = 0; m < ${plan.q1d}; ++m)
          sum += ${" + ".join(f"(accum)r_derive{axis}[m] * l_{sums.name}[({axis} * {sums.sizes.num_comp} + c) * SLAB + " + " + ".join(("n" if other == last else "m" if other == axis else "ab"[other]) + f" * {strides[other]}" for other in range(work.dim)) + "]" for axis in range(last))};
        r_${sums.name}_line[c * ${plan.q1d} + n] = sum;
      }
    }
% endif
% endfor
  }
% endif
  barrier(CLK_LOCAL_MEM_FENCE);
% for sums in plan.rows:
  if (inside)
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
% if sums.sizes.collocated:
      write_integrate(${plan.q1d}, ${strides[last]}, r_${sums.name}_line + c * ${plan.q1d}, l_${sums.name} + c * SLAB + at);
% else:
      accum after[N];
      integrate(${sums.sizes.p1d}, ${plan.q1d}, 1, ${sums.sizes.p1d}, LINE_B${sums.sizes.table}, r_${sums.name}_line + c * ${plan.q1d}, after);
      write_integrate(${sums.sizes.p1d}, ${strides[last]}, after, l_${sums.name} + c * SLAB + at);
% endif
    }
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% for axis in reversed(range(last)):
% for sums in plan.rows:
% if not sums.sizes.collocated:
${stage("integrate", "accum", f"l_{sums.name}", axis, sums, True)}\
% endif
% endfor
% if any(not sums.sizes.collocated for sums in plan.rows):
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
% endfor

  if (past < count) {
% for sums in plan.lattices:
    __local real *r_${sums.name}_e = l_${sums.name};
% endfor
% for sums in plan.rows:
    __local accum *r_${sums.name}_e = l_${sums.name};
% endfor
<%include file="scatter.mako"/>
  }
}
