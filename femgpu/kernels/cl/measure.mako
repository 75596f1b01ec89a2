% if plan.measures:
// The determinant of a J with columns along, b + r b_r and c + r c_r, in this order or one that follows round: sum_i out[i] r^i.
inline void measure_along(const real *along, const real *b, const real *b_r, const real *c, const real *c_r, real *out) {
  out[0] = out[1] = out[2] = 0;
  for (int d = 0; d < DIM; ++d) {
    const int i = (d + 1) % DIM, j = (d + 2) % DIM;
    const real normal = along[i] * b[j] - along[j] * b[i], normal_r = along[i] * b_r[j] - along[j] * b_r[i];
    out[0] += normal * c[d];
    out[1] += normal * c_r[d];
    out[1] += normal_r * c[d];
    out[2] += normal_r * c_r[d];
  }
}
% endif
