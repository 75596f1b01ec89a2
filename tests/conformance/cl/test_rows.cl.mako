// Second step of a plan of tests: one row of one cell per work-item.
// Index space: global id = (cell - first) * num_rows + row.
__kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
void ${step.name}(${arguments}) {
  const int cell = first + (int)(get_global_id(0) / NUM_ROWS);
  const int number = (int)(get_global_id(0) % NUM_ROWS);
  if (cell >= first + count) return;
% for i, row in enumerate(work.rows):
  if (number >= ${row.first_row} && number < ${row.first_row + row.size}) {
    const int row = number - ${row.first_row};
    const int b = row / ${row.num_comp}, c = ${row.offset} + row % ${row.num_comp};
    accum sum = 0;
    for (int q = 0; q < NUM_QPTS; ++q) {
% if row.value:
      sum += TABLE_B(${row.table}, q)[b] * d_work[AT_d_work(cell - first, (q * NUM_COMP + c) * (1 + DIM))];
% endif
% if row.gradient:
      for (int k = 0; k < DIM; ++k)
        sum += TABLE_D(${row.table}, q)[b * DIM + k] * d_work[AT_d_work(cell - first, (q * NUM_COMP + c) * (1 + DIM) + 1 + k)];
% endif
    }
% if plan.scatter == "evector":
    d_out${i}[AT_d_out${i}(cell, row)] = (scalar)sum;
% else:
    atomic_add_scalar(d_out + d_test${i}_offsets[AT_d_test${i}_offsets(cell, b)] + row % ${row.num_comp}, (scalar)sum);
% endif
  }
% endfor
}
