// Geometry of a cell: J[d * DIM + k] = dx_d / dX_k, its inverse J_inv[k * DIM + d] = dX_k / dx_d, its determinant.

// Inverts J; returns the determinant.
inline real invert(const real *J, real *J_inv) {
#if DIM == 1
  J_inv[0] = R(1) / J[0];
  return J[0];
#elif DIM == 2
  const real det = J[0] * J[3] - J[1] * J[2];
  const real scale = R(1) / det;
  J_inv[0] = J[3] * scale;
  J_inv[1] = -J[1] * scale;
  J_inv[2] = -J[2] * scale;
  J_inv[3] = J[0] * scale;
  return det;
#else
  const real c0 = J[4] * J[8] - J[5] * J[7];
  const real c1 = J[5] * J[6] - J[3] * J[8];
  const real c2 = J[3] * J[7] - J[4] * J[6];
  const real det = J[0] * c0 + J[1] * c1 + J[2] * c2;
  const real scale = R(1) / det;
  J_inv[0] = c0 * scale;
  J_inv[1] = (J[2] * J[7] - J[1] * J[8]) * scale;
  J_inv[2] = (J[1] * J[5] - J[2] * J[4]) * scale;
  J_inv[3] = c1 * scale;
  J_inv[4] = (J[0] * J[8] - J[2] * J[6]) * scale;
  J_inv[5] = (J[2] * J[3] - J[0] * J[5]) * scale;
  J_inv[6] = c2 * scale;
  J_inv[7] = (J[1] * J[6] - J[0] * J[7]) * scale;
  J_inv[8] = (J[0] * J[4] - J[1] * J[3]) * scale;
  return det;
#endif
}

// From the coordinates x_e (num_basis, DIM) and the gradients D (num_basis, DIM) of the coordinate basis at the point.
inline real rebuild(const int num_basis, TABLE const real *D, const real *x_e, real *J_inv) {
  real J[DIM * DIM];
  for (int i = 0; i < DIM * DIM; ++i) J[i] = 0;
  UNROLL
  for (int b = 0; b < num_basis; ++b)
    for (int d = 0; d < DIM; ++d)
      for (int k = 0; k < DIM; ++k) J[d * DIM + k] += x_e[b * DIM + d] * D[b * DIM + k];
  return invert(J, J_inv);
}

// Outward unit normal n = J^-T N / |J^-T N| of a facet from that of the reference facet, N; returns |J^-T N|.
inline real facet_normal(TABLE const real *N, const real *J_inv, real *n) {
  real square = 0;
  for (int d = 0; d < DIM; ++d) {
    n[d] = 0;
    for (int k = 0; k < DIM; ++k) n[d] += J_inv[k * DIM + d] * N[k];
    square += n[d] * n[d];
  }
  const real length = sqrt(square);
  for (int d = 0; d < DIM; ++d) n[d] /= length;
  return length;
}
