// Derivatives along the reference coordinates from those that are even or odd, as `mirrored_derivatives` has them, and the transpose
// for fluxes.
#if DIM == 2
inline void from_parts(const real *parts, real *reference) {
  reference[0] = parts[1] + parts[0];
  reference[1] = parts[1] - parts[0];
}
inline void to_parts(const real *flux, real *parts) {
  parts[0] = flux[0] - flux[1];
  parts[1] = flux[0] + flux[1];
}
#else
inline void from_parts(const real *parts, real *reference) {
  const real even = parts[1] + parts[2];
  reference[0] = even + parts[0];
  reference[1] = even - parts[0];
  reference[2] = 2 * parts[2];
}
inline void to_parts(const real *flux, real *parts) {
  parts[0] = flux[0] - flux[1];
  parts[1] = flux[0] + flux[1];
  parts[2] = parts[1] + 2 * flux[2];
}
#endif
