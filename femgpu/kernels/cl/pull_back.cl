// What multiplies second derivatives of a basis function, from physical to reference coordinates. J_inv[k * DIM + d] = dX_k / dx_d.

// out[k, l] = weight sum_ij J_inv[k, i] h[i, j] J_inv[l, j]
inline void pull_back_hessian(const real *J_inv, const real weight, const real *h, real *out) {
  for (int k = 0; k < DIM; ++k)
    for (int l = 0; l < DIM; ++l) {
      real sum = 0;
      for (int i = 0; i < DIM; ++i)
        for (int j = 0; j < DIM; ++j) sum += J_inv[k * DIM + i] * h[i * DIM + j] * J_inv[l * DIM + j];
      out[k * DIM + l] = weight * sum;
    }
}

// In cells whose map bends, what multiplies second derivatives, h, comes out at the gradient, too:
// out[k] -= sum_m J_inv[k, m] sum_ij h[i, j] d^2 x_m / dX_i dX_j
inline void pull_back_map(const real *J_inv, const real *h, const real *map_xx, real *out) {
  for (int m = 0; m < DIM; ++m) {
    real sum = 0;
    for (int i = 0; i < DIM * DIM; ++i) sum += h[i] * map_xx[m * DIM * DIM + i];
    for (int k = 0; k < DIM; ++k) out[k] -= J_inv[k * DIM + m] * sum;
  }
}
