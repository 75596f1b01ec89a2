// What `basis.cl` computes from tables at a point is read and written here as sums over the lattice: word `slot` of place p of one cell
// is e[(slot * NUM_QPTS + p) * LANES]; slots as in `contractions.py`.
// LATTICE is the address space.
#ifndef AT_POINT
#define AT_POINT(slot, p) (((slot) * NUM_QPTS + (p)) * LANES)
#endif
#define TABLE_B(i, q) place
#define TABLE_D(i, q) place
#define TABLE_H(i, q) place
#define TABLE_W(q) LATTICE_W(place)

// value[c]
inline void interpolate_value(const int num_basis, const int num_comp, const int p, LATTICE const real *e, real *value) {
  for (int c = 0; c < num_comp; ++c) value[c] = e[AT_POINT(c, p)];
}

// gradient[c, k], in reference coordinates
inline void interpolate_reference_gradient(const int num_basis, const int num_comp, const int p, LATTICE const real *e, real *gradient) {
  for (int i = 0; i < num_comp * DIM; ++i) gradient[i] = e[AT_POINT(num_comp + i, p)];
}

// gradient[c, d] = sum_k reference[c, k] J_inv[k, d]
inline void interpolate_gradient(const int num_basis, const int num_comp, const int p, LATTICE const real *e, const real *J_inv,
                                 real *gradient) {
  for (int c = 0; c < num_comp; ++c) {
    real reference[DIM];
    for (int k = 0; k < DIM; ++k) reference[k] = e[AT_POINT(num_comp + c * DIM + k, p)];
    for (int d = 0; d < DIM; ++d) {
      gradient[c * DIM + d] = 0;
      for (int k = 0; k < DIM; ++k) gradient[c * DIM + d] += reference[k] * J_inv[k * DIM + d];
    }
  }
}

// reference second derivatives out[c, k, l], which stand there for k <= l
inline void reference_hessian(const int num_basis, const int num_comp, const int p, LATTICE const real *e, real *out) {
  for (int c = 0; c < num_comp; ++c)
    for (int k = 0; k < DIM; ++k)
      for (int l = 0; l < DIM; ++l)
        out[(c * DIM + k) * DIM + l] = e[AT_POINT(num_comp * (1 + DIM) + (c * DIM + min(k, l)) * DIM + max(k, l), p)];
}

// The inverse Jacobian and, returned, the determinant from the gradients of the coordinates.
inline real rebuild(const int num_basis, const int p, LATTICE const real *x_e, real *J_inv) {
  real J[DIM * DIM];
  interpolate_reference_gradient(num_basis, DIM, p, x_e, J);
  return invert(J, J_inv);
}

// The inverse Jacobian times the determinant in its place.
inline real rebuild_adjugate(const int num_basis, const int p, LATTICE const real *x_e, real *out) {
  real J[DIM * DIM];
  interpolate_reference_gradient(num_basis, DIM, p, x_e, J);
  return adjugate(J, out);
}

// What multiplies the test function's values: weight f0[c]
inline void integrate_value(const int num_basis, const int num_comp, const int p, const real weight, const real *f0, LATTICE accum *e) {
  for (int c = 0; c < num_comp; ++c) e[AT_POINT(c, p)] = (accum)(weight * f0[c]);
}

// ... its gradients: the flux in reference coordinates
inline void integrate_reference_gradient(const int num_basis, const int num_comp, const int p, const real *f1, LATTICE accum *e) {
  for (int i = 0; i < num_comp * DIM; ++i) e[AT_POINT(num_comp + i, p)] = (accum)f1[i];
}

// ... weight J_inv f1[c]
inline void integrate_gradient(const int num_basis, const int num_comp, const int p, const real weight, const real *J_inv,
                               const real *f1, LATTICE accum *e) {
  for (int c = 0; c < num_comp; ++c) {
    real flux[DIM];
    pull_back_flux(J_inv, weight, f1 + c * DIM, flux);
    for (int k = 0; k < DIM; ++k) e[AT_POINT(num_comp + c * DIM + k, p)] = (accum)flux[k];
  }
}

// ... its second derivatives in reference coordinates, which stand there for k <= l
inline void integrate_reference_hessian(const int num_basis, const int num_comp, const int p, const real *f2, LATTICE accum *e) {
  for (int c = 0; c < num_comp; ++c)
    for (int k = 0; k < DIM; ++k)
      for (int l = k; l < DIM; ++l) {
        const real both = f2[(c * DIM + k) * DIM + l] + (k < l ? f2[(c * DIM + l) * DIM + k] : R(0));
        e[AT_POINT(num_comp * (1 + DIM) + (c * DIM + k) * DIM + l, p)] = (accum)both;
      }
}
