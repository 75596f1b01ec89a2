## What the points of row k of an item's plane share: the polynomials of the adjugate and of the determinant, or the latter's alone where
## nothing else is needed of the map, or of the columns of J in the row's frame. Columns go round from that along the row, which leaves
## the sign of the determinant.
% if plan.expanded:
<% columns = ("xt", "xrt", "across", "across_r"); cyclic = plan.axes[2] == (plan.axes[0] + 1) % 3 %>\
      real along[DIM], across[DIM], across_r[DIM], map_along[MAP_WORDS];
      SHORT for (int d = 0; d < DIM; ++d) {
        const real t = LINE_X[k];
        along[d] = xr[d] + t * xrt[d], across[d] = y0[d] + t * yt[d], across_r[d] = yr[d] + t * yrt[d];
      }
      ${plan.expanded}_along(along, ${", ".join(columns if cyclic else columns[2:] + columns[:2])}, map_along);
% endif
