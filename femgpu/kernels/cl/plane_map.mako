## The map of a cell on an item's plane, across the second axis at `item`, from the polynomials in l_x.
% if plan.coords_line:
    // x = x0 + r xr + t xt + r t xrt on the plane, whose normal derivative is y0 + r yr + t yt + r t yrt.
    const real s = LINE_X[item];
    real x0[DIM], xr[DIM], xt[DIM], xrt[DIM], y0[DIM], yr[DIM], yt[DIM], yrt[DIM];
    SHORT for (int d = 0; d < DIM; ++d) {
      const __local real *map = l_x + 8 * d;
      y0[d] = ${plan.monomial(1)}, x0[d] = map[0] + s * y0[d];
      yr[d] = ${plan.monomial(0, 1)}, xr[d] = ${plan.monomial(0)} + s * yr[d];
      yt[d] = ${plan.monomial(1, 2)}, xt[d] = ${plan.monomial(2)} + s * yt[d];
      yrt[d] = ${plan.monomial(0, 1, 2)}, xrt[d] = ${plan.monomial(0, 2)} + s * yrt[d];
    }
% endif
