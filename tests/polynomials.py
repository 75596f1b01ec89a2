"""Random polynomials, evaluated by numpy anywhere: functions that femgpu and an oracle both hold exactly."""

import itertools

import numpy as np


class Polynomial:
    """A polynomial of a total degree with positive random coefficients, so that nothing cancels on the unit box.

    Args:
        dim: number of variables.
        degree: total degree.
        rng: random numbers.
        num_comp: components.
    """

    def __init__(self, dim, degree, rng, num_comp=1):
        powers = itertools.product(range(degree + 1), repeat=dim)
        self.powers = np.array([entry for entry in powers if sum(entry) <= degree])
        self.coefficients = rng.uniform(0.2, 1.0, (num_comp, len(self.powers)))

    def __call__(self, x):
        """(num_comp, ...) values at x (dim, ...); without the first axis for one component."""
        monomials = np.stack([np.prod([x[d] ** p for d, p in enumerate(power)], axis=0) for power in self.powers])
        values = np.tensordot(self.coefficients, monomials, axes=1)
        return values[0] if len(values) == 1 else values
