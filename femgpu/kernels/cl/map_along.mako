% if plan.expanded == "determinant":
#define MAP_WORDS 3
// The determinant of a J with columns along, b + r b_r and c + r c_r, in this order or one that follows round: sum_i out[i] r^i.
inline void determinant_along(const real *along, const real *b, const real *b_r, const real *c, const real *c_r, real *out) {
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
% if plan.expanded == "frame":
#define MAP_WORDS 14
<% a, b, c = (f"num_comp + c * DIM + {(plan.line_axis + i) % 3}" for i in range(3)) %>\
// 1 / sqrt(x) for ordinary x: as `reciprocal` does.
inline real inverse_root(const real x) {
#ifdef RECIPROCAL_PTX64
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  const double error = fma(-x * y, y, 1.0);
  return fma(fma(0.375, error, 0.5) * error, y, y);
#elif defined(RECIPROCAL_PTX32)
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fma(0.5f * fma(-x * y, y, 1.0f), y, y);
#else
  return R(1) / sqrt(x);
#endif
}

// The columns of a J in an orthonormal frame whose first direction is that of its column `along`, l: out[0] = b l / l l, out[1], out[2]
// its other coordinates, out[3] to out[5] those of c, the next six what r multiplies. Householder's reflection takes l to the first axis
// times -|l| with l_0's sign; with that axis turned round it is a rotation, in which det J keeps its sign. out[12] and out[13]: 1 / |l|
// and |l|, both with l_0's sign.
inline void frame_along(const real *along, const real *b, const real *b_r, const real *c, const real *c_r, real *out) {
  const real square = along[0] * along[0] + along[1] * along[1] + along[2] * along[2], inverse = inverse_root(square);
  const real length = square * inverse, signed_length = copysign(length, along[0]), scale = reciprocal(square + fabs(along[0]) * length);
  const real *columns[4] = {b, c, b_r, c_r};
  for (int i = 0; i < 4; ++i) {
    const real *x = columns[i];
    const real product = along[0] * x[0] + along[1] * x[1] + along[2] * x[2], reflected = scale * (signed_length * x[0] + product);
    out[3 * i] = inverse * inverse * product;
    out[3 * i + 1] = x[1] - along[1] * reflected;
    out[3 * i + 2] = x[2] - along[2] * reflected;
  }
  out[12] = copysign(inverse, along[0]);
  out[13] = signed_length;
}

// Gradients at a point in the row's frame, times what its coordinates along the row and across it are multiplied by.
inline void gradient_in_frame(const int num_comp, const real *e, const real *J, const real scale_along,
                              const real scale_across, real *gradient) {
  for (int c = 0; c < num_comp; ++c) {
    const real first = e[${a}], second = e[${b}] - J[0] * first, third = e[${c}] - J[3] * first;
    gradient[c * DIM] = scale_along * first;
    gradient[c * DIM + 1] = scale_across * (J[5] * second - J[2] * third);
    gradient[c * DIM + 2] = scale_across * (J[1] * third - J[4] * second);
  }
}

// ... and what derivatives of the test function multiply, from fluxes there.
inline void flux_in_frame(const int num_comp, const real *J, const real scale_along, const real scale_across, const real *f1,
                          accum *e) {
  for (int c = 0; c < num_comp; ++c) {
    const real y = scale_across * f1[c * DIM + 1], z = scale_across * f1[c * DIM + 2];
    const real second = J[5] * y - J[4] * z, third = J[1] * z - J[2] * y;
    e[${a}] = (accum)(scale_along * f1[c * DIM] - J[0] * second - J[3] * third);
    e[${b}] = (accum)second;
    e[${c}] = (accum)third;
  }
}
% endif
% if plan.expanded == "adjugate":
#define MAP_WORDS 24
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
