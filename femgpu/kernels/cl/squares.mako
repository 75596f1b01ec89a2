## What the rows of a diagonal get of a point, by the products of a node's values and derivatives that it multiplies: of component c the
## blocks that couple it with itself, or the one `work.shift` further, in reference coordinates.
% for i, row in enumerate(work.rows):
<% J_inv = work.sides[row.side].name("J_inv") %>\
    for (int c = 0; c < ${row.num_comp}; ++c) {
      const int cc = (${row.offset} + c) * NUM_COMP + ${row.offset} + ${f'(c + {work.shift}) % {row.num_comp}' if work.shift else 'c'};
      int slot = c;
% if "g0" in work.writes:
      r_f${i}_e[AT_POINT(slot, place)] = (accum)(weight * g0[cc]);
      slot += ${row.num_comp};
% endif
% if work.writes & {"g1", "g2"}:
      real sides[DIM], flux[DIM];
      for (int d = 0; d < DIM; ++d) sides[d] = ${" + ".join(f"{name}[cc * DIM + d]" for name in ("g1", "g2") if name in work.writes)};
      pull_back_flux(${J_inv}, weight, sides, flux);
      for (int k = 0; k < DIM; ++k, slot += ${row.num_comp}) r_f${i}_e[AT_POINT(slot, place)] = (accum)flux[k];
% endif
% if "g3" in work.writes:
      real tensor[DIM * DIM];
      pull_back_hessian(${J_inv}, weight, g3 + cc * DIM * DIM, tensor);
      for (int k = 0; k < DIM; ++k)
        for (int l = k; l < DIM; ++l, slot += ${row.num_comp}) {
          const real both = tensor[k * DIM + l] + (k < l ? tensor[l * DIM + k] : R(0));
          r_f${i}_e[AT_POINT(slot, place)] = (accum)both;
        }
% endif
    }
% endfor
