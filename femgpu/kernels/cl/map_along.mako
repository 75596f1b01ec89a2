% if plan.expanded == "determinant":
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
% if plan.expanded == "adjugate":
// The adjugate and the determinant of a J with columns along, b + r b_r and c + r c_r, in this order or one that follows round, as
// polynomials in r: rows of `along` (coefficients of 1, r and r^2), of b and of c (of 1 and r), then the determinant's three.
inline void adjugate_along(const real *along, const real *b, const real *b_r, const real *c, const real *c_r, real *out) {
  for (int d = 0; d < DIM; ++d) {
    const int i = (d + 1) % DIM, j = (d + 2) % DIM;
    out[d] = b[i] * c[j] - b[j] * c[i];
    out[3 + d] = b[i] * c_r[j] - b[j] * c_r[i];
    out[3 + d] += b_r[i] * c[j];
    out[3 + d] -= b_r[j] * c[i];
    out[6 + d] = b_r[i] * c_r[j] - b_r[j] * c_r[i];
    out[9 + d] = c[i] * along[j] - c[j] * along[i];
    out[12 + d] = c_r[i] * along[j] - c_r[j] * along[i];
    out[15 + d] = along[i] * b[j] - along[j] * b[i];
    out[18 + d] = along[i] * b_r[j] - along[j] * b_r[i];
  }
  for (int l = 0; l < 3; ++l) out[21 + l] = along[0] * out[3 * l] + along[1] * out[3 * l + 1] + along[2] * out[3 * l + 2];
}
% endif
