## The user's integrand at one point, in PETSc's layouts. Outputs are zero on entry.
inline void pointwise(const real *u, const real *u_x, const real *u_xx, const real *w, const real *w_x, const real *w_xx,
                      const real *a, const real *a_x, const real *a_xx, const real *x, const real *n, const real *${'state' if 's' in outputs else 's'},
                      __global const real *constants, ${', '.join(f'real *{name}' for name in outputs)}) {
  const int dim = DIM;
  (void)dim;
${body}
}
