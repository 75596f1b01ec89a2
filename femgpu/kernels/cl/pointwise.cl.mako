## The user's integrand at one point, in PETSc's layouts. Outputs are zero on entry.
inline void pointwise(${', '.join(f'const real *{name}' for name in inputs)},
                      __global const real *constants, ${', '.join(f'real *{name}' for name in outputs)}) {
  const int dim = DIM;
  (void)dim;
${body}
}
