// Schedule transposed: a work-group serves NUM_BATCHES batches of CELLS cells in sequence. In the evaluation phase an item
// stands for (cell, point), after the barrier for (cell, basis row), and walks over the batch (cells of one point are as many as
// items). As ITEMS is a multiple of
// the points and of the rows (unless the device is too small for a block), an item keeps its point and its row. The last
// batch is masked by first + count.
// Index space: a group holds CHUNKS chunks of ITEMS = num_blocks * block_size items; local id = chunk * ITEMS + item.
// All arrays hold the words of a cell together, so that AT_<array>(cell, i) runs on into the following cells.
## All words of a cell, in vectors where they fill these.
<%def name="load_words(target, array, kind, size)">\
<%
width = next(width for width in (4, 2, 1) if size % width == 0 and width * plan.itemsize(kind) <= 16)
%>\
% for k in range(0, size, width):
% if width == 1:
      ${target}[${k}] = ${array}[AT_${array}(number, ${k})];
% else:
      {
        const ${plan.ctype(kind)}${width} words = *(__global const ${plan.ctype(kind)}${width} *)(${array} + AT_${array}(number, ${k}));
% for i in range(width):
        ${target}[${k + i}] = words.s${i};
% endfor
      }
% endif
% endfor
</%def>\
#define WORDS (HAS_F0 + DIM * HAS_F1 + DIM * DIM * HAS_F2)
#define FLUX_STRIDE ${plan.flux_stride}
% if plan.framed:
// An inverse whose second row is given along and across the first one, and the determinant of J behind it: no difference of products
// that nearly cancel where a triangle is flat.
inline void unframe(real *geometry) {
  const real x = geometry[0], y = geometry[1], along = geometry[2], across = geometry[3];
  geometry[2] = along * x - across * y;
  geometry[3] = along * y + across * x;
  geometry[4] = reciprocal(across * (x * x + y * y));
}
% endif
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int item = (int)get_local_id(0) % ITEMS;
  const int chunk = (int)get_local_id(0) / ITEMS;
% if plan.staged:
% for field in work.fields:
  __local real s_all_${field.name}[CHUNKS * CELLS * ${field.size}];
  __local real *s_${field.name} = s_all_${field.name} + chunk * CELLS * ${field.size};
% endfor
% if plan.needs_coords:
  __local real s_all_x[CHUNKS * CELLS * NUM_COORD_BASIS * DIM];
  __local real *s_x = s_all_x + chunk * CELLS * NUM_COORD_BASIS * DIM;
% endif
% if stages_geometry:
  __local real s_all_geometry[CHUNKS * CELLS * (DIM * DIM + 1)];
  __local real *s_geometry = s_all_geometry + chunk * CELLS * (DIM * DIM + 1);
% endif
% endif
% for i, row in enumerate(work.rows):
% if plan.keeps_row(row):
  // what tables have of the item's row
  const int b${i} = item % ${row.size} / ${row.num_comp}, c${i} = item % ${row.num_comp};
% if row.value:
  const real value${i} = TABLE_B(${row.table}, 0)[b${i}];
% endif
% if row.gradient:
  const real gradient${i}[DIM] = {${", ".join(f"TABLE_D({row.table}, 0)[b{i} * DIM + {k}]" for k in range(work.dim))}};
% endif
% endif
% endfor
% if plan.flux_buffers > 1:
  // No barrier parts the integration of one batch from the evaluation of the next: they take turns between two buffers.
% endif
  __local real s_all_f[${plan.flux_buffers} * CHUNKS * CELLS * NUM_QPTS * FLUX_STRIDE];

  for (int batch = 0; batch < NUM_BATCHES; ++batch) {
    // The mask does not look at `first`: with it in both, an H200 takes 8 registers more and up to 8 % more time.
    const int past = (((int)get_group_id(0) * CHUNKS + chunk) * NUM_BATCHES + batch) * CELLS;
    const int begin = first + past, cells = clamp(count - past, 0, CELLS);
    __local real *s_f = s_all_f + (batch % ${plan.flux_buffers} * CHUNKS + chunk) * CELLS * NUM_QPTS * FLUX_STRIDE;

% if plan.staged:
    // gather: consecutive items read consecutive words
% for field in work.fields:
    for (int i = item; i < cells * ${field.size}; i += ITEMS)
      s_${field.name}[i] = ${coefficient(field, "begin", "i")};
% endfor
% if plan.needs_coords:
    for (int i = item; i < cells * NUM_COORD_BASIS * DIM; i += ITEMS)
      s_x[i] = d_coords[d_coord_offsets[AT_d_coord_offsets(begin, i / DIM)] + i % DIM];
% endif
% if stages_geometry:
    for (int i = item; i < cells * (DIM * DIM + 1); i += ITEMS) s_geometry[i] = d_geometry[AT_d_geometry(begin, i)];
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
% endif

    // evaluation phase: tabulate and pointwise
% if not plan.staged:
    // Each item has a cell and asks for all that it reads of it; those past the last cell repeat it, for loads behind a test come later.
% for field in work.fields:
    real r_${field.name}_e[${field.size}];
% endfor
% if plan.needs_coords:
    real r_x_e[NUM_COORD_BASIS * DIM];
% endif
% if plan.geometry_words:
    real r_geometry[DIM * DIM + 1];
% endif
    {
      const int number = first + min(past + min(item, CELLS - 1), count - 1);
% for field in work.fields:
% if work.source == "evector":
${load_words(f"r_{field.name}_e", f"d_{field.name}", "scalar", field.size)}\
% else:
      UNROLL
      for (int k = 0; k < ${field.size}; ++k) r_${field.name}_e[k] = ${coefficient(field, "number", "k")};
% endif
% endfor
% if plan.needs_coords:
      int x_offsets[NUM_COORD_BASIS];
${load_words("x_offsets", "d_coord_offsets", "int", work.num_coord_basis)}\
      UNROLL
      for (int k = 0; k < NUM_COORD_BASIS * DIM; ++k) r_x_e[k] = d_coords[x_offsets[k / DIM] + k % DIM];
% endif
% if plan.geometry_words:
${load_words("r_geometry", "d_geometry", "real", plan.geometry_words)}\
% if plan.framed:
      unframe(r_geometry);
% endif
% endif
    }
    if (item < cells) {
      const int cell = item, q = 0;
% if plan.geometry_words:
      const real *J_inv = r_geometry, det_J = r_geometry[DIM * DIM];
% endif
% else:
    for (int i = item; i < cells * NUM_QPTS; i += ITEMS) {
      const int cell = i / NUM_QPTS, q = i % NUM_QPTS;
% for field in work.fields:
      real r_${field.name}_e[${field.size}];
      UNROLL
      for (int k = 0; k < ${field.size}; ++k) r_${field.name}_e[k] = s_${field.name}[cell * ${field.size} + k];
% endfor
% if plan.needs_coords:
      real r_x_e[NUM_COORD_BASIS * DIM];
      UNROLL
      for (int k = 0; k < NUM_COORD_BASIS * DIM; ++k) r_x_e[k] = s_x[cell * NUM_COORD_BASIS * DIM + k];
% endif
% if plan.geometry_words:
      real J_inv[DIM * DIM];
% if stages_geometry:
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = s_geometry[cell * (DIM * DIM + 1) + k];
      const real det_J = s_geometry[cell * (DIM * DIM + 1) + DIM * DIM];
% else:
      for (int k = 0; k < DIM * DIM; ++k) J_inv[k] = d_geometry[AT_d_geometry(begin + cell, q * (DIM * DIM + 1) + k)];
      const real det_J = d_geometry[AT_d_geometry(begin + cell, q * (DIM * DIM + 1) + DIM * DIM)];
% endif
% endif
% endif
% if work.maps and not plan.geometry_words:
      real J_inv[DIM * DIM];
      const real det_J = rebuild(NUM_COORD_BASIS, TABLE_D(${work.coord_table}, ${'0' if work.affine else 'q'}), r_x_e, J_inv);
% endif
<%include file="point_values.mako"/>
% if work.num_state:
      for (int k = 0; k < NUM_STATE; ++k) r_s[k] = d_state[AT_d_state(begin + cell, ${plan.state_word("k")})];
% endif
% if work.num_cell_state:
      real r_c[NUM_CELL_STATE];
      for (int k = 0; k < NUM_CELL_STATE; ++k) r_c[k] = d_cell_state[AT_d_cell_state(begin + cell, k)];
% endif
      ${declare_outputs}
      pointwise(${pointwise_arguments});
      for (int c = 0; c < NUM_COMP; ++c) {
        __local real *s_out = s_f + (cell * NUM_QPTS + q) * FLUX_STRIDE + c * WORDS;
% if "f0" in work.writes:
        s_out[0] = ${'' if work.reference else 'weight * '}f0[c];
% endif
% if "f1" in work.writes and work.reference:
        for (int k = 0; k < DIM; ++k) s_out[HAS_F0 + k] = f1[c * DIM + k];
% elif plan.has_gradient:
        real flux[DIM];
% if "f1" in work.writes:
        pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
% else:
        for (int k = 0; k < DIM; ++k) flux[k] = 0;
% endif
% endif
% if "f2" in work.writes and work.reference:
        for (int k = 0; k < DIM * DIM; ++k) s_out[HAS_F0 + DIM * HAS_F1 + k] = f2[c * DIM * DIM + k];
% elif "f2" in work.writes:
        real flux_xx[DIM * DIM];
        pull_back_hessian(J_inv, weight, f2 + c * DIM * DIM, flux_xx);
        for (int k = 0; k < DIM * DIM; ++k) s_out[HAS_F0 + DIM * HAS_F1 + k] = flux_xx[k];
% if work.bends:
        pull_back_map(J_inv, flux_xx, r_map_xx, flux);
% endif
% endif
% if plan.has_gradient and not work.reference:
        for (int k = 0; k < DIM; ++k) s_out[HAS_F0 + k] = flux[k];
% endif
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // integration phase and scatter
% for i, row in enumerate(work.rows):
<% keeps, size, comps = plan.keeps_row(row), row.size, row.num_comp %>\
% if keeps:
    for (int cell = item / ${size}; cell < cells; cell += ITEMS / ${size}) {
      const int row = item % ${size}, c = c${i};
% else:
    for (int i = item; i < cells * ${size}; i += ITEMS) {
      const int cell = i / ${size}, row = i % ${size};
      const int b = row / ${comps}, c = row % ${comps};
% endif
      accum sum = 0;
      for (int p = 0; p < NUM_QPTS; ++p) {
        __local const real *s_in = s_f + (cell * NUM_QPTS + p) * FLUX_STRIDE + (${row.offset} + c) * WORDS;
% if row.value:
        sum += ${f"value{i}" if keeps else f"TABLE_B({row.table}, p)[b]"} * s_in[0];
% endif
% if row.gradient or (row.hessian and work.bends):
<% entry = f"gradient{i}[k]" if keeps else f"TABLE_D({row.table}, p)[b * DIM + k]" %>\
        for (int k = 0; k < DIM; ++k) sum += ${entry} * s_in[HAS_F0 + k];
% endif
% if row.hessian:
        for (int k = 0; k < DIM * DIM; ++k) sum += TABLE_H(${row.table}, p)[b * DIM * DIM + k] * s_in[HAS_F0 + DIM * HAS_F1 + k];
% endif
      }
% if plan.scatter == "evector":
      d_out${i}[AT_d_out${i}(begin + cell, row)] = (scalar)sum;
% else:
      const int offset = d_test${i}_offsets[AT_d_test${i}_offsets(begin + cell, ${f"b{i}" if keeps else "b"})];
% if not row.masked:
      atomic_add_scalar(d_out + offset + c, (scalar)sum);
% elif row.num_comp == 1:
      if (offset >= 0) atomic_add_scalar(d_out + offset, (scalar)sum);
% else:
      if (!IS_PRESCRIBED(offset, c)) atomic_add_scalar(d_out + NODE(offset) + c, (scalar)sum);
% endif
% endif
    }
% endfor
  }
}
