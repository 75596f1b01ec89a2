## The coordinates and their derivatives, along an item's line of points: all directions but the last contracted.
<%
last = work.dim - 1
p = plan.coords_line.sizes.p1d if plan.coords_line else 0
%>\
% if plan.coords_line:
% if plan.multilinear:
    // Linear along the item's points: what is there in the middle, and by how much it grows.
    const real r = LINE_X[g]${", s = LINE_X[h]" if last == 2 else ""};
    real r_x_line[${work.dim} * DIM * 2];
    SHORT for (int d = 0; d < DIM; ++d) {
      const __local real *map = l_map + (d << DIM);
% if last == 1:
      r_x_line[2 * d] = map[1];
      r_x_line[2 * d + 1] = map[3];
      r_x_line[2 * (DIM + d)] = map[0] + r * map[1];
      r_x_line[2 * (DIM + d) + 1] = map[2] + r * map[3];
% else:
      const real along_s = map[2] + r * map[3], along_st = map[6] + r * map[7];
      r_x_line[2 * d] = map[1] + s * map[3];
      r_x_line[2 * d + 1] = map[5] + s * map[7];
      r_x_line[2 * (DIM + d)] = along_s;
      r_x_line[2 * (DIM + d) + 1] = along_st;
      r_x_line[2 * (2 * DIM + d)] = map[0] + r * map[1] + s * along_s;
      r_x_line[2 * (2 * DIM + d) + 1] = map[4] + r * map[5] + s * along_st;
% endif
    }
% if plan.expanded:
    real along[DIM], columns[4][DIM], map_along[MAP_WORDS];
    SHORT for (int d = 0; d < DIM; ++d) {
      along[d] = r_x_line[2 * (2 * DIM + d) + 1];
      SHORT for (int l = 0; l < 4; ++l) columns[l][d] = r_x_line[2 * (l / 2 * DIM + d) + l % 2];
    }
    ${plan.expanded}_along(along, columns[0], columns[1], columns[2], columns[3], map_along);
% endif
% else:
    // The coordinates and their derivatives along the other directions, contracted but for the last.
    real r_x_line[${work.dim} * DIM * ${p}];
    SHORT for (int d = 0; d < DIM; ++d)
      SHORT for (int n = 0; n < ${p}; ++n) {
        const __local real *nodes = l_x + (d * ${p} + n) * ${p**last};
% if last == 1:
        real sum0 = 0, sum1 = 0;
        SHORT for (int m = 0; m < ${p}; ++m) {
          sum0 += LINE_D${work.coord_table}[g * ${p} + m] * nodes[m];
          sum1 += LINE_B${work.coord_table}[g * ${p} + m] * nodes[m];
        }
% else:
        real sum0 = 0, sum1 = 0, sum2 = 0;
        SHORT for (int l = 0; l < ${p}; ++l) {
          real slope = 0, value = 0;
          SHORT for (int m = 0; m < ${p}; ++m) {
            slope += LINE_D${work.coord_table}[g * ${p} + m] * nodes[l * ${p} + m];
            value += LINE_B${work.coord_table}[g * ${p} + m] * nodes[l * ${p} + m];
          }
          sum0 += LINE_B${work.coord_table}[h * ${p} + l] * slope;
          sum1 += LINE_D${work.coord_table}[h * ${p} + l] * value;
          sum2 += LINE_B${work.coord_table}[h * ${p} + l] * value;
        }
% endif
% for axis in range(work.dim):
        r_x_line[(${axis} * DIM + d) * ${p} + n] = sum${axis};
% endfor
      }
% endif
% endif
