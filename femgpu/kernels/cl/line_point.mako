## The coordinates and their derivatives, at point n of an item's line.
<%
last = work.dim - 1
p = plan.coords_line.sizes.p1d if plan.coords_line else 0
%>\
% if plan.coords_line:
      real r_x_e[DIM * (1 + DIM)];
% if plan.multilinear:
      const real here = LINE_X[n];
% endif
      SHORT for (int d = 0; d < DIM; ++d) {
% if plan.multilinear:
% for axis in range(last):
        r_x_e[DIM + d * DIM + ${axis}] = r_x_line[(${axis} * DIM + d) * 2] + here * r_x_line[(${axis} * DIM + d) * 2 + 1];
% endfor
        r_x_e[DIM + d * DIM + ${last}] = r_x_line[(${last} * DIM + d) * 2 + 1];
        r_x_e[d] = r_x_line[(${last} * DIM + d) * 2] + here * r_x_line[(${last} * DIM + d) * 2 + 1];
% else:
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
% endif
      }
% endif
