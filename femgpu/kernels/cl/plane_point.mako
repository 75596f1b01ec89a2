## Point i of row k of an item's plane: r_<field>_e, coordinates, what is stored, the pointwise function, r_<row>_e.
% if plan.coords_line:
        const real here = LINE_X[i];
        real r_x_e[DIM * (1 + DIM)];
        SHORT for (int d = 0; d < DIM; ++d) {
          const real t = LINE_X[k];
          r_x_e[d] = (x0[d] + t * xt[d]) + here * (xr[d] + t * xrt[d]);
          r_x_e[DIM + d * DIM + ${plan.axes[0]}] = xr[d] + t * xrt[d];
          r_x_e[DIM + d * DIM + ${plan.axes[1]}] = (y0[d] + t * yt[d]) + here * (yr[d] + t * yrt[d]);
          r_x_e[DIM + d * DIM + ${plan.axes[2]}] = xt[d] + here * xrt[d];
        }
% endif
% for sums in plan.rows:
        accum r_${sums.name}_e[${plan.slots(sums)}];
% endfor
% if work.num_cell_state:
        real r_c[NUM_CELL_STATE];
        for (int l = 0; l < NUM_CELL_STATE; ++l) r_c[l] = d_cell_state[AT_d_cell_state(cell, l)];
% endif
% if work.maps:
        real J_inv[DIM * DIM], det_J;
% if work.affine and plan.geometry == "stored":
        for (int l = 0; l < DIM * DIM; ++l) J_inv[l] = d_geometry[AT_d_geometry(cell, l)];
        det_J = d_geometry[AT_d_geometry(cell, DIM * DIM)];
% endif
% endif
<%include file="point.mako"/>
