// Bessel functions of integer order, in double precision whatever `real` is. Orders may be negative, and so may the arguments of J and I;
// Y and K of negative arguments are not numbers. Formulas: Abramowitz and Stegun, chapter 9, by their numbers.

#define EULER 0.57721566490153286061
// From here on Hankel's expansion is exact to double precision with HANKEL_TERMS terms; below it is not.
#define HANKEL_FROM 25.0
#define HANKEL_TERMS 24
#define LARGE 1e100

// J_n, J_0, J_1, Y_0 and Y_1 of x > 0 by Miller's algorithm: the recurrence 9.1.27 downwards from an order that does not count any
// more. The sum of squares 9.1.76 gives the size, without cancellation, 9.1.46 the sign; 9.1.88 are the Y.
inline void bessel_below(const int n, const double x, double *out) {
  const int start = (max(n, (int)x) + 38) / 2 * 2;
  double above = 0, value = 1e-100, at_n = 0, squares = 0, sum = 0, even = 0, odd = 0, one = 0;
  for (int k = start; k > 0; --k) {
    // value is J_k
    const int pair = k / 2;
    const double sign = pair % 2 ? -1 : 1;
    if (k == n) at_n = value;
    if (k == 1) one = value;
    squares += 2 * value * value;
    if (k % 2 == 0) {
      sum += 2 * value;
      even -= sign * value / pair;
    } else if (k > 1) {
      odd += sign * k / ((double)pair * (pair + 1)) * value;
    }
    const double below = 2 * k / x * value - above;
    above = value;
    value = below;
    if (fabs(value) > LARGE) {
      // Entries of far higher orders vanish beside these.
      const double down = 1 / fabs(value);
      value *= down;
      above *= down;
      at_n *= down;
      squares *= down * down;
      sum *= down;
      even *= down;
      odd *= down;
      one *= down;
    }
  }
  const double size = 1 / copysign(sqrt(squares + value * value), sum + value), log_x = log(x / 2) + EULER;
  const double zero = value * size;
  one *= size;
  out[0] = n == 0 ? zero : at_n * size;
  out[1] = zero;
  out[2] = one;
  out[3] = M_2_PI * (log_x * zero + 2 * even * size);
  out[4] = M_2_PI * (-zero / x + (log_x - 1) * one - odd * size);
}

// J_n and Y_n for n = 0 or 1 and large x by 9.2.5 to 9.2.10.
inline void bessel_hankel(const int n, const double x, double *J, double *Y) {
  double p = 1, q = 0, term = 1;
  for (int k = 1; k < HANKEL_TERMS; ++k) {
    term *= (4 * n * n - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
    const double signed_term = k / 2 % 2 ? -term : term;
    if (k % 2) q += signed_term;
    else p += signed_term;
  }
  // cosine and sine of x - pi / 4 - n pi / 2, times the square root of 2
  const double s = sin(x), c = cos(x), cosine = n ? s - c : c + s, sine = n ? -(c + s) : s - c;
  const double size = sqrt(1 / (M_PI * x));
  *J = size * (p * cosine - q * sine);
  *Y = size * (p * sine + q * cosine);
}

// One of two neighbouring orders 0 and 1 upwards: f_(k+1) = 2 k / x f_k + sign f_(k-1).
inline double bessel_upwards(const int n, const double x, double zero, double one, const double sign) {
  if (n == 0) return zero;
  for (int k = 1; k < n; ++k) {
    const double next = 2 * k / x * one + sign * zero;
    zero = one;
    one = next;
  }
  return one;
}

// (-1)^n where the order n or the argument is negative, not both
inline double bessel_sign(const int n, const int negative) { return negative && n % 2 ? -1 : 1; }

inline real bessel_j(const int order, const real argument) {
  const int n = abs(order);
  const double x = fabs((double)argument), sign = bessel_sign(n, (order < 0) != (argument < 0));
  if (x == 0) return n == 0;
  if (isinf(x)) return 0;
  double J[5], Y;
  if (x < HANKEL_FROM || n > x) {
    bessel_below(n, x, J);
    return sign * J[0];
  }
  bessel_hankel(0, x, J, &Y);
  bessel_hankel(1, x, J + 1, &Y);
  return sign * bessel_upwards(n, x, J[0], J[1], -1);
}

inline real bessel_y(const int order, const real argument) {
  const int n = abs(order);
  const double x = argument, sign = bessel_sign(n, order < 0);
  if (x < 0 || isnan(x)) return NAN;
  if (x == 0) return -sign * INFINITY;
  if (isinf(x)) return 0;
  double J[5], Y[2];
  if (x < HANKEL_FROM) {
    bessel_below(0, x, J);
    Y[0] = J[3];
    Y[1] = J[4];
  } else {
    bessel_hankel(0, x, J, Y);
    bessel_hankel(1, x, J, Y + 1);
  }
  const double value = bessel_upwards(n, x, Y[0], Y[1], -1);
  return isnan(value) ? -sign * INFINITY : sign * value;
}

// Miller's algorithm, with 9.6.37 for the size.
inline real bessel_i(const int order, const real argument) {
  const int n = abs(order);
  const double x = fabs((double)argument), sign = bessel_sign(n, argument < 0);
  if (x == 0 || isnan(x)) return x == 0 ? n == 0 : NAN;
  if (x > 750) return sign * INFINITY;
  double above = 0, value = 1e-100, at_n = 0, sum = 0;
  for (int k = n + 36 + (int)(9 * sqrt(x)); k > 0; --k) {
    if (k == n) at_n = value;
    sum += 2 * value;
    const double below = 2 * k / x * value + above;
    above = value;
    value = below;
    if (value > LARGE) {
      const double down = 1 / value;
      value *= down;
      above *= down;
      at_n *= down;
      sum *= down;
    }
  }
  // The exponential function alone overflows before.
  const double root = exp(x / 2);
  return sign * (n == 0 ? value : at_n) / (sum + value) * root * root;
}

// K_0 and K_1 by 9.6.13 and 9.6.11 for small x, else by Steed's continued fraction (Temme, J. Comput. Phys. 19, 1975).
inline real bessel_k(const int order, const real argument) {
  const int n = abs(order);
  const double x = argument;
  if (x < 0 || isnan(x)) return NAN;
  if (x == 0) return INFINITY;
  if (x > 750) return 0;
  double zero, one;
  if (x <= 2) {
    const double square = x * x / 4, log_x = log(x / 2) + EULER;
    // term is square^k / k!^2, harmonic the sum of 1 / j to k
    double term = 1, harmonic = 0, sum_zero = 0, sum_one = 0, I_zero = 0, I_one = 0;
    for (int k = 0; k < 20; ++k) {
      I_zero += term;
      I_one += term / (k + 1);
      sum_zero += term * harmonic;
      sum_one += term / (k + 1) * (2 * harmonic + 1.0 / (k + 1));
      harmonic += 1.0 / (k + 1);
      term *= square / ((k + 1.0) * (k + 1.0));
    }
    zero = sum_zero - log_x * I_zero;
    one = 1 / x + x / 2 * (log_x * I_one - sum_one / 2);
  } else {
    double a = -0.25, b = 2 * (1 + x), d = 1 / b, h = d, step = d, c = 0.25, q = 0.25, before = 0, now = 1, s = 1 + q * step;
    for (int k = 2; k < 200; ++k) {
      a -= 2 * (k - 1);
      c *= -a / k;
      const double next = (before - b * now) / a;
      before = now;
      now = next;
      q += c * next;
      b += 2;
      d = 1 / (b + a * d);
      step *= b * d - 1;
      h += step;
      s += q * step;
      if (fabs(q * step) < 1e-17 * fabs(s)) break;
    }
    zero = sqrt(M_PI / (2 * x)) * exp(-x) / s;
    one = zero * (x + 0.5 - 0.25 * h) / x;
  }
  return bessel_upwards(n, x, zero, one, 1);
}
