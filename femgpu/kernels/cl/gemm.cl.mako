<%namespace name="nodes" file="nodes.mako"/>\
// Schedule gemm: the lines of the lattices of CELLS cells along one direction are the columns of a matrix, which all items of the work-group
// multiply by the 1D matrices of values and derivatives; a barrier, then the next direction. Products along the last direction stay in
// registers for the pointwise function, which leaves there what is multiplied back. Line by line an item has the same numbers of
// what is multiplied, of products and in local memory, which so are read and written by one item between two barriers.
// Index space: local id = (cell, item) for what a cell has once. Past the last cell of the launch items repeat it and write nothing.
<%
last, q = work.dim - 1, plan.q1d
fields = [(sums, field) for sums, field in zip(plan.lattices, work.fields) if sums.orders]
%>\
#define LATTICE
#define AT_POINT(slot, p) (slot)
// a + x b at a point of a line
#define ALONG(x, a, b) ((a) + (x) * (b))
#define SHORT${' _Pragma("unroll")' if plan.unroll else ""}
// Of a < 255 n, n < 256; compilers take more operations for a division of numbers that they know to be short.
#define QUOTIENT(a, n) ((a) * ((1u << 24) / (n) + 1) >> 24)
#define EACH(i, n) for (int i = item, i##_end = (n) + item; i < i##_end; i += ITEMS) if (i < (n))
% if plan.mma:
// Four items have a line; 32 have eight, or sixteen, which they multiply together.
% if plan.splits:
// An item has numbers of a line in pairs, as far from its begin as from its end; where they are one it is the first.
#define NUMBER(j, n) ((j) % 2 ? (n) - 1 - (j) / 2 * 4 - quarter : (j) / 2 * 4 + quarter)
#define HAS(j, n) ((j) / 2 * 4 + quarter < ((n) + 1 - (j) % 2) / 2)
#define PLACE(start, j, n, step) ((j) % 2 ? start[TILE + i] + ((n) - 1 - (j) / 2 * 4) * (step) : start[i] + (j) / 2 * 4 * (step))
% else:
#define NUMBER(j, n) (4 * (j) + quarter)
#define HAS(j, n) (NUMBER(j, n) < (n))
#define PLACE(start, j, n, step) (start[i] + 4 * (j) * (step))
% endif
#define LINE(turn, i) ((((turn) * (GROUP_SIZE / 32u) + id / 32u) * TILE + (i)) * 8u + id % 32u / 4u)
% else:
#define NUMBER(j, n) (j)
#define HAS(j, n) 1
#define PLACE(start, j, n, step) (start[i] + (j) * (step))
#define LINE(turn, i) (((turn) * TILE + (i)) * (uint)GROUP_SIZE + id)
% endif
% if plan.mma and not plan.exchanges:
#define MULTIPLY(sums, numbers, entry) \
  { \
% if plan.mma == 16:
    double s0 = (sums)[0], s1 = (sums)[1], s2 = (sums)[2], s3 = (sums)[3]; \
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : "+d"(s0), "+d"(s2), "+d"(s1), "+d"(s3) : "d"((numbers)[0]), "d"((numbers)[1]), "d"(entry)); \
    (sums)[0] = s0; (sums)[1] = s1; (sums)[2] = s2; (sums)[3] = s3; \
% else:
    double s0 = (sums)[0], s1 = (sums)[1]; \
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" \
                 : "+d"(s0), "+d"(s1) : "d"((numbers)[0]), "d"(entry)); \
    (sums)[0] = s0; (sums)[1] = s1; \
% endif
  }
% endif
## The head of a loop in which all items take lines along a direction, `ends` of them in the directions across: cells, places there and
## where an item's numbers begin, in the lattices and, with `n1d`, among the cell's nodes or points, so many per direction. Lines side by
## side belong to one cell, and are neighbours along the first direction across.
<%def name="lines(axis, ends, n1d=0)">\
<%
count = ends[0] * (ends[1] if last == 2 else 1)
across = (other for other in range(work.dim) if other != axis)
first = [*zip(("g[i]", "h[i]"), across), *[("quarter", axis)] * (plan.mma > 0)]
start = " + ".join(f"{index} * STRIDE{other}" for index, other in first)
origin = " + ".join(f"{index} * {n1d**other}" for index, other in first)
ways = 1 + plan.splits
%>\
  for (int turn = 0; turn < ${plan.turns(count)}; ++turn) {
% if not (plan.fills(count) or plan.exchanges):
    if (LINE(turn, 0)${" / 8 * 8" if plan.mma else ""} >= CELLS * ${count}) break;${" // no line for any of 32 items" if plan.mma else ""}
% endif
    int owner[TILE], g[TILE], h[TILE], inside[TILE];
    // In 64 bits, so that steps from there on become offsets of one address.
    size_t at[${ways} * TILE]${f", origin[{ways} * TILE]" if n1d else ""};
    SHORT for (int i = 0; i < TILE; ++i) {
% if plan.fills(count):
      const uint line = LINE(turn, i);
      inside[i] = 1;
% else:
      const uint line = min(LINE(turn, i), (uint)(CELLS * ${count} - 1));
      inside[i] = LINE(turn, i) < CELLS * ${count};
% endif
      owner[i] = ${f"line / {count}" if plan.cells > 1 else 0};
      const uint own_line = line - owner[i] * ${count};
% if last == 2:
      h[i] = QUOTIENT(own_line, ${ends[0]}), g[i] = own_line - h[i] * ${ends[0]};
% else:
      g[i] = own_line, h[i] = 0;
% endif
      at[i] = (uint)(owner[i] * CELL + ${start});
% if plan.splits:
      // as much before the begin as the item's last number is before the end; may wrap around
      at[TILE + i] = at[i] - 2 * quarter * STRIDE${axis};
% endif
% if n1d:
      origin[i] = (uint)(${origin});
% if plan.splits:
      origin[TILE + i] = origin[i] - 2 * quarter * ${n1d**axis};
% endif
% endif
    }
</%def>\
## Numbers of lines between registers and a lattice; zeros past the last line and the last number.
<%def name="read(n, axis, lattice, numbers, type)">\
SHORT for (int j = 0; j < ${plan.held(n)}; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            ${numbers}[j * TILE + i] = inside[i] && HAS(j, ${n}) ? (${type})s_lattices[PLACE(at, j, ${n}, STRIDE${axis}) + ${lattice} * SLAB] : (${type})0;
</%def>\
<%def name="write(n, axis, numbers, lattice)">\
SHORT for (int j = 0; j < ${plan.held(n)}; ++j)
          SHORT for (int i = 0; i < TILE; ++i)
            if (inside[i] && HAS(j, ${n})) s_lattices[PLACE(at, j, ${n}, STRIDE${axis}) + ${lattice} * SLAB] = (accum)${numbers}[j * TILE + i];
</%def>\
<%def name="clear(numbers, count)">SHORT for (int j = 0; j < ${count} * TILE; ++j) ${numbers}[j] = 0;</%def>\
## An item's numbers of the matrices that lines are multiplied by along a direction.
<%def name="fragments(group, axis, back)">\
% if plan.mma and not plan.exchanges:
% for product in dict.fromkeys(plan.product(sums, order[axis], back) for sums in group for order in sums.orders):
% if product:
  double ${product.name}[${product.instructions}];
  SHORT for (int k = 0; k < ${product.instructions}; ++k) ${product.name}[k] = d_fragments[(size_t)(id % 32u) + ${plan.start(product)} + k * 32];
% endif
% endfor
% endif
</%def>\
## sums[r] += sum_m part[r, m] numbers[m] by matrix instructions, of a part of a product's matrix before which it has `begin` others.
<%def name="multiply_part(product, part, begin, sums, numbers)">\
% if plan.exchanges:
        for (int j = 0; j < ${part.fours} * TILE; ++j) s_exchange[j * GROUP_SIZE + id] = (${numbers})[j];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < ${-(-part.rows // 4)}; ++j)
          for (int m = 0; m < ${part.columns}; ++m) {
            const real entry = d_fragments[${plan.start(product) + 32 * begin} + (j / 2 * ${part.fours} + m / 4) * 32 + (2 * quarter + j % 2) * 4 + m % 4];
            for (int i = 0; i < TILE; ++i)
              (${sums})[j * TILE + i] += entry * s_exchange[(m / 4 * TILE + i) * GROUP_SIZE + id - quarter + m % 4];
          }
        barrier(CLK_LOCAL_MEM_FENCE);
% else:
        SHORT for (int n = 0; n < ${part.eights}; ++n)
          SHORT for (int s = 0; s < ${part.fours}; ++s)
            MULTIPLY(${sums} + 2 * n * TILE, ${numbers} + s * TILE, ${product.name}[${begin} + n * ${part.fours} + s])
% endif
</%def>\
## sums[r] += sum_m matrix[r, m] numbers[m] for an item's lines. Without `adds` sums are zeros, which those of parts need not be added
## to.
<%def name="multiply(product, count, sums, numbers, type, adds=True)">\
% if product is None:
        SHORT for (int j = 0; j < ${plan.held(count)} * TILE; ++j) (${sums})[j] += ${numbers}[j];
% elif product.splits:
<% even, odd = product.parts %>\
        {
          ${type} even[${plan.held(product.columns) // 2} * TILE], odd[${plan.held(product.columns) // 2} * TILE], evens[${2 * even.eights} * TILE], odds[${2 * odd.eights} * TILE];
          SHORT for (int j = 0; j < ${plan.held(product.columns) // 2}; ++j)
            SHORT for (int i = 0; i < TILE; ++i) {
              const ${type} near = ${numbers}[2 * j * TILE + i], far = ${numbers}[(2 * j + 1) * TILE + i];
              even[j * TILE + i] = near + far, odd[j * TILE + i] = near - far;
            }
          ${clear("evens", 2 * even.eights)}
          ${clear("odds", 2 * odd.eights)}
${multiply_part(product, even, 0, "evens", "even")}\
${multiply_part(product, odd, even.instructions, "odds", "odd")}\
% for j in range(plan.held(product.rows) // 2):
<% e, o = (f"{name}[{j} * TILE + i]" if j < 2 * part.eights else "0" for name, part in (("evens", even), ("odds", odd))) %>\
          SHORT for (int i = 0; i < TILE; ++i) {
            (${sums})[${2 * j} * TILE + i] ${"+" * adds}= ${e} + ${o};
            (${sums})[${2 * j + 1} * TILE + i] ${"+" * adds}= ${f"{e} - {o}" if product.sign > 0 else f"{o} - {e}"};
          }
% endfor
        }
% elif plan.mma:
${multiply_part(product, product.parts[0], 0, sums, numbers)}\
% else:
        SHORT for (int r = 0; r < ${product.rows}; ++r)
          SHORT for (int m = 0; m < ${product.columns}; ++m)
            SHORT for (int i = 0; i < TILE; ++i)
              (${sums})[r * TILE + i] += (${type})${product.matrix}[${f"m * {product.p1d} + r" if product.back else f"r * {product.p1d} + m"}] * ${numbers}[m * TILE + i];
% endif
</%def>\
## Products of what is in `numbers`, component c, each into its lattice.
<%def name="spread(sums, axis, place, branch)">\
% for times, target in branch:
<% product = plan.product(sums, times, False) %>\
% if product or place is None or str(place) != target:
        {
          real products[${plan.held(q)} * TILE];
          ${clear("products", plan.held(q))}
${multiply(product, q, "products", "numbers", "real", False)}\
          ${write(q, axis, "products", plan.lattice_of(sums, target))}\
        }
% endif
% endfor
</%def>\
## The sum over derivatives of what lattices give back to the nodes, component c, in `sums`.
<%def name="collect(sums, axis, branch)">\
        accum sums[${plan.held(sums.sizes.p1d)} * TILE];
        ${clear("sums", plan.held(sums.sizes.p1d))}
% for turn, (times, source) in enumerate(branch):
        {
          accum numbers[${plan.held(q)} * TILE];
          ${read(q, axis, plan.lattice_of(sums, source), "numbers", "accum")}\
${multiply(plan.product(sums, times, True), q, "sums", "numbers", "accum", turn > 0)}\
        }
% endfor
</%def>\
<%include file="points.cl"/>
<%include file="map_along.mako"/>\
#undef TABLE_W
#define TABLE_W(q) (plane_weight * LINE_W[n])
__kernel${sized}
void ${step.name}(${arguments}) {
  const int id = (int)get_local_id(0), item = id % ITEMS, own = id / ITEMS;
% if plan.mma:
  const int quarter = id % 4u;
% endif
  const int base = (int)get_group_id(0) * CELLS, cell = first + min(base + own, count - 1);
% for array in step.local:
  __local ${array.ctype} ${array.name}[${array.words}]; // ${plan.itemsize(array.ctype) * array.words} bytes
% endfor
% if plan.needs_coords:
  __local real *l_x = s_x + own * (NUM_COORD_BASIS * DIM);
${nodes.coord_offsets(plan)}\
${nodes.coord_values(plan)}\
${nodes.keep_coords(plan)}\
% endif

  // gather, and tabulate along the first direction
% for sums, field in fields:
<% p, node = sums.sizes.p1d, f"PLACE(origin, j, {sums.sizes.p1d}, 1)" %>\
  {
${fragments([sums], 0, False)}\
${lines(0, plan.ends(0, sums), p)}\
% if work.source != "evector":
    int offsets[${plan.held(p)} * TILE];
    SHORT for (int j = 0; j < ${plan.held(p)}; ++j)
      SHORT for (int i = 0; i < TILE; ++i) {
        const int cell = first + min(base + owner[i], count - 1);
        offsets[j * TILE + i] = HAS(j, ${p}) ? ${nodes.offset(work, field.name, node)} : 0;
      }
% endif
    SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
      real numbers[${plan.held(p)} * TILE];
      SHORT for (int j = 0; j < ${plan.held(p)}; ++j)
        SHORT for (int i = 0; i < TILE; ++i) {
          const int cell = first + min(base + owner[i], count - 1);
          numbers[j * TILE + i] = HAS(j, ${p}) ? ${nodes.value(work, field, "offsets[j * TILE + i]", node)} : R(0);
        }
% for _, branch in plan.branches(sums, 0):
${spread(sums, 0, None, branch)}\
% endfor
    }
  }
  }
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);

  // tabulate along the others
% if plan.maps_in_local:
  __local real *l_map = s_map + own * ${next(array.words for array in plan.cell_local if array.name == "s_map")};
% endif
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
<%include file="multilinear.mako"/>\
% if last == 2:
% for sums, field in fields:
  {
${fragments([sums], 1, False)}\
${lines(1, plan.ends(1, sums))}\
    SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
% for place, branch in plan.branches(sums, 1):
      {
        real numbers[${plan.held(sums.sizes.p1d)} * TILE];
        ${read(sums.sizes.p1d, 1, plan.lattice_of(sums, place), "numbers", "real")}\
${spread(sums, 1, place, branch)}\
      }
% endfor
    }
  }
  }
% endfor
% endif
% if last == 2 or plan.maps_in_local:
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
  {
${fragments([sums for sums, _ in fields], last, False)}\
${fragments(plan.rows, last, True)}\
${lines(last, (q, q), q)}\
% if plan.loads_ahead:
    // What is stored at the points arrives while these are on their way.
    real ahead[${plan.held(q)} * TILE * NUM_STATE];
    SHORT for (int j = 0; j < ${plan.held(q)}; ++j)
      SHORT for (int i = 0; i < TILE; ++i)
        if (HAS(j, ${q})) {
          const int cell = first + min(base + owner[i], count - 1);
          const size_t q = PLACE(origin, j, ${q}, ${q**last});
          SHORT for (int k = 0; k < NUM_STATE; ++k) ahead[(j * TILE + i) * NUM_STATE + k] = ${plan.word("d_state", plan.state_word("k"))};
        }
% endif
% for sums, field in fields:
    real r_${sums.name}_q[${plan.slots(sums)} * ${plan.held(q)} * TILE];
    ${clear(f"r_{sums.name}_q", f"{plan.slots(sums)} * {plan.held(q)}")}
    SHORT for (int c = 0; c < ${field.num_comp}; ++c) {
% for place, branch in plan.branches(sums, last):
      {
        real numbers[${plan.held(sums.sizes.p1d)} * TILE];
        ${read(sums.sizes.p1d, last, plan.lattice_of(sums, place), "numbers", "real")}\
% for times, number in branch:
${multiply(plan.product(sums, times, False), q, f"r_{sums.name}_q + {number} * {plan.held(q)} * TILE", "numbers", "real", False)}\
% endfor
      }
% endfor
    }
% endfor
% for sums in plan.rows:
    accum r_${sums.name}_q[${plan.slots(sums)} * ${plan.held(q)} * TILE];
    ${clear(f"r_{sums.name}_q", f"{plan.slots(sums)} * {plan.held(q)}")}
% endfor
    SHORT for (int i = 0; i < TILE; ++i) {
      const int own = owner[i], cell = first + min(base + own, count - 1), row = g[i], plane = h[i];
      const int g = row, h = plane; // in place of the arrays
% if plan.needs_coords:
      const __local real *l_x = s_x + own * (NUM_COORD_BASIS * DIM);
% endif
% if plan.maps_in_local:
      const __local real *l_map = s_map + own * ${next(array.words for array in plan.cell_local if array.name == "s_map")};
% endif
      const real plane_weight = LINE_W[g]${" * LINE_W[h]" if last == 2 else ""};
<%include file="line_map.mako"/>\
      SHORT for (int j = 0; j < ${plan.held(q)}; ++j)
        if (inside[i] && HAS(j, ${q})) {
      const int n = NUMBER(j, ${q});
      const size_t place = PLACE(origin, j, ${q}, ${q**last}), q = place;
% if plan.loads_ahead:
      const real *stored = ahead + (j * TILE + i) * NUM_STATE;
% endif
% for sums in plan.lattices:
      real r_${sums.name}_e[${plan.slots(sums)}];
% if sums.orders:
      SHORT for (int k = 0; k < ${plan.slots(sums)}; ++k) r_${sums.name}_e[k] = r_${sums.name}_q[(k * ${plan.held(q)} + j) * TILE + i];
% endif
% endfor
<%include file="line_point.mako"/>\
% for sums in plan.rows:
      accum r_${sums.name}_e[${plan.slots(sums)}];
% endfor
% if work.num_cell_state:
      real r_c[NUM_CELL_STATE];
      for (int k = 0; k < NUM_CELL_STATE; ++k) r_c[k] = d_cell_state[AT_d_cell_state(cell, k)];
% endif
% if work.maps:
      real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = d_geometry[AT_d_geometry(cell, k)];
      det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
% elif work.affine:
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = l_map[k];
      det_J = l_map[DIM * DIM];
% endif
% endif
<%include file="point.mako"/>
% for sums in plan.rows:
% for begin, end in plan.written(sums):
      SHORT for (int k = ${begin}; k < ${end}; ++k) r_${sums.name}_q[(k * ${plan.held(q)} + j) * TILE + i] = r_${sums.name}_e[k];
% endfor
% endfor
        }
    }

    // integrate along the last direction
% for sums in plan.rows:
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
% for place, branch in plan.branches(sums, last):
      {
        accum sums[${plan.held(sums.sizes.p1d)} * TILE];
        ${clear("sums", plan.held(sums.sizes.p1d))}
% for turn, (times, number) in enumerate(branch):
        {
          const accum *numbers = r_${sums.name}_q + ${number} * ${plan.held(q)} * TILE;
${multiply(plan.product(sums, times, True), q, "sums", "numbers", "accum", turn > 0)}\
        }
% endfor
        ${write(sums.sizes.p1d, last, "sums", plan.lattice_of(sums, place))}\
      }
% endfor
    }
% endfor
  }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // integrate along the others
% if last == 2:
% for sums in plan.rows:
  {
${fragments([sums], 1, True)}\
${lines(1, plan.ends(1, sums))}\
    SHORT for (int c = 0; c < ${sums.sizes.num_comp}; ++c) {
% for place, branch in plan.branches(sums, 1):
      {
${collect(sums, 1, branch)}\
        ${write(sums.sizes.p1d, 1, "sums", plan.lattice_of(sums, place))}\
      }
% endfor
    }
  }
  }
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% endif

  // integrate along the first direction, and scatter
% if plan.sums_dots:
  const double r_scale = d_dots ? dot_scale(d_dots) : 1.0;
  double r_dot = 0;
% endif
% for k, (sums, row) in enumerate(zip(plan.rows, work.rows)):
<% p, node = sums.sizes.p1d, f"PLACE(origin, j, {sums.sizes.p1d}, 1)" %>\
  {
${fragments([sums], 0, True)}\
${lines(0, plan.ends(0, sums), p)}\
% if plan.scatter == "atomic":
    int offsets[${plan.held(p)} * TILE];
    SHORT for (int j = 0; j < ${plan.held(p)}; ++j)
      SHORT for (int i = 0; i < TILE; ++i) {
        const int cell = first + min(base + owner[i], count - 1);
        offsets[j * TILE + i] = HAS(j, ${p}) ? ${nodes.offset(work, f"test{k}", node)} : 0;
      }
% endif
    SHORT for (int c = 0; c < ${row.num_comp}; ++c) {
% for _, branch in plan.branches(sums, 0) or [(0, [])]:
${collect(sums, 0, branch)}\
% endfor
      SHORT for (int i = 0; i < TILE; ++i)
        if (inside[i] && base + owner[i] < count) {
          const int cell = first + base + owner[i];
% if plan.sums_dots:
          if (d_dots)
            SHORT for (int j = 0; j < ${plan.held(p)}; ++j) {
              if (HAS(j, ${p})) r_dot += (double)sums[j * TILE + i] * (${nodes.value(work, row.direction(k), "offsets[j * TILE + i]", node)});
            }
% endif
% if plan.stores_inside:
          const int stores = d_stores${"".join(f" && {name}[i] > 0 && {name}[i] < {p - 1}" for name in "gh"[:last])};
% endif
          SHORT for (int j = 0; j < ${plan.held(p)}; ++j) {
            if (HAS(j, ${p})) {
              ${nodes.add(plan, k, row, "offsets[j * TILE + i]", node, "sums[j * TILE + i]", f"NUMBER(j, {p}) > 0 && NUMBER(j, {p}) < {p - 1}")}
            }
          }
        }
    }
  }
  }
% endfor
% if plan.sums_dots:
  if (d_dots) add_dot(d_dots, r_dot);
% endif
}
