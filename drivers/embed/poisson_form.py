"""The forms of poisson.c, for `-femgpu_form poisson_form.py:linear` and `:nonlinear`.

A form function gets the FunctionSpace of the program's DM and returns the residual, its unknown and Dirichlet conditions; here
the section of the DM constrains the boundary, so there are none. Only the Jacobian is used: the source term does not matter.
"""

import ufl
from ufl import dx, grad, inner

import femgpu


def linear(V):
    """Poisson's equation in UFL."""
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    return inner(grad(u), grad(v)) * dx, u, []


def nonlinear(V):
    """Diffusion with 1 + u^2, as PETSc's pointwise functions at PETSc's quadrature points."""
    form = femgpu.PointwiseForm(
        V,
        f1="for (int d = 0; d < dim; ++d) f1[d] = (1 + u[0] * u[0]) * u_x[d];",
        g2="for (int d = 0; d < dim; ++d) g2[d] = 2 * u[0] * u_x[d];",
        g3="for (int d = 0; d < dim; ++d) g3[d * dim + d] = 1 + u[0] * u[0];",
    )
    return form, femgpu.Function(V), []
