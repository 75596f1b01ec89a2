## A map given by vertices becomes polynomials in place, in l_x: a coordinate takes an item, since a cell has few.
% if plan.multilinear:
  // Of each coordinate, from its values at the vertices: coefficient m multiplies the product of the directions whose bits are set in m.
  EACH(d, DIM) {
    __local real *x = l_x + 8 * d;
    real map[8];
    SHORT for (int m = 0; m < 8; ++m) map[m] = R(0.125) * x[m];
% for bit in (1, 2, 4):
    SHORT for (int m = 0; m < 8; ++m)
      if (!(m & ${bit})) {
        const real low = map[m], high = map[m + ${bit}];
        map[m] = high + low;
        map[m + ${bit}] = high - low;
      }
% endfor
    SHORT for (int m = 0; m < 8; ++m) x[m] = map[m];
  }
% endif
