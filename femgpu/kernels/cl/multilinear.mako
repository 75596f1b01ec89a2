## A map given by vertices, from l_x to l_map, by all items of a cell.
% if plan.multilinear:
  // The map is a polynomial: word m of l_map multiplies the product of the coordinates whose bits are set in m.
  EACH(i, DIM << DIM) {
    const __local real *x = l_x + (i >> DIM << DIM);
    const real minus0 = i & 1 ? -1 : 1, minus1 = i & 2 ? -1 : 1;
% if work.dim == 2:
    l_map[i] = R(0.25) * ((x[3] + minus0 * x[2]) + minus1 * (x[1] + minus0 * x[0]));
% else:
    const real low = (x[3] + minus0 * x[2]) + minus1 * (x[1] + minus0 * x[0]);
    const real high = (x[7] + minus0 * x[6]) + minus1 * (x[5] + minus0 * x[4]);
    l_map[i] = R(0.125) * (i & 4 ? high - low : high + low);
% endif
  }
% endif
