"""The PETSc way in: pointwise functions as OpenCL C bodies with PETSc's argument names and layouts.

A body sees `dim, Nf, uOff, uOff_x, u, u_x, NfAux, aOff, aOff_x, a, a_x, t, x, numConstants, constants` and writes its
output, which is zeroed before. It is pasted into a kernel, so it must not `return`. Numbers are `real` (or
`PetscScalar`, `PetscReal`), counters `int` (or `PetscInt`). The time t is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import ufl

from femgpu.errors import FormError
from femgpu.forms.c_bodies import DIRECTION_READS, DIRECTION_WRITES, Body, Context
from femgpu.forms.check import check_space
from femgpu.forms.records import Form, Integral, Kind, Pointwise, Read, components, signature
from femgpu.forms.show import show

_DIFFERENCE = "pointwise functions without g0 to g3: the Jacobian action is a matrix-free difference of residuals"


class PointwiseForm:
    """A form given by pointwise functions, integrated with PETSc's own quadrature points.

    The residual of a test function phi is the integral of `f0 phi + f1 . grad phi`; g0 (phi, w), g1 (phi, grad w), g2
    (grad phi, w) and g3 (grad phi, grad w) are its derivative. Layouts: see `records`. Without any g the Jacobian
    action is a difference of residuals.

    Args:
        V: the FunctionSpace of unknown and test function.
        f0: C body that writes f0.
        f1: C body that writes f1.
        g0: C body that writes g0.
        g1: C body that writes g1.
        g2: C body that writes g2.
        g3: C body that writes g3.
        aux: Functions behind `a` and `a_x`, in order.
        constants: Constants behind `constants`, flattened in order.
        facets: not yet.
        degree: quadrature degree; default: PETSc's points.

    Raises:
        FormError: naming the argument that is not what is expected.
    """

    def __init__(
        self,
        V: Any,
        f0: str | None = None,
        f1: str | None = None,
        g0: str | None = None,
        g1: str | None = None,
        g2: str | None = None,
        g3: str | None = None,
        *,
        aux: Sequence[Any] = (),
        constants: Sequence[Any] = (),
        facets: Mapping[Any, Any] | None = None,
        degree: int | None = None,
    ) -> None:
        given = {"f0": f0, "f1": f1, "g0": g0, "g1": g1, "g2": g2, "g3": g3}
        self.bodies = {name: Body(name, text) for name, text in given.items() if text is not None}
        self.space = V
        self.aux = tuple(aux)
        self.constants = tuple(constants)
        self.degree = degree
        if facets:
            raise FormError("PointwiseForm: facets is not supported yet; expected cell terms only")
        self._check_bodies()
        self._check_space()
        self._check_data()

    def lower(self, u: Any = None) -> Form:
        """Builds the record of the form.

        Args:
            u: the unknown Function.

        Raises:
            FormError: if the unknown is not a Function in the form's space.
        """
        if u is not None and not (isinstance(u, ufl.Coefficient) and u.ufl_function_space() == self.space):
            raise FormError(f"PointwiseForm: the unknown {u} is not a Function in the form's space, {self.space.ufl_element()}")
        g_bodies = self._present("g0", "g1", "g2", "g3")
        integral = Integral(
            "cell",
            (),
            self.degree,
            residual=self._pointwise("residual", self._present("f0", "f1")),
            action=self._action(g_bodies) if g_bodies else None,
            jacobian=self._pointwise("jacobian", g_bodies) if g_bodies else None,
        )
        notes = () if g_bodies else (_DIFFERENCE,)
        text = signature(self.space, self.aux, self.constants, (integral,))
        return Form(self.space, u, self.aux, self.constants, (integral,), text, notes, has_jacobian=bool(g_bodies))

    @property
    def _context(self) -> Context:
        return Context(
            self.space.ufl_domain().geometric_dimension,
            prod(self.space.value_shape),
            tuple(map(components, self.aux)),
            sum(map(components, self.constants)),
        )

    def _present(self, *names: str) -> list[Body]:
        return [self.bodies[name] for name in names if name in self.bodies]

    def _pointwise(self, kind: Kind, bodies: list[Body]) -> Pointwise:
        writes = frozenset((body.name, i) for body in bodies for i in range(self._context.num_comp))
        return Pointwise(kind, self._context.block(bodies), self._reads(bodies), writes, flops=0)

    def _action(self, bodies: list[Body]) -> Pointwise:
        components = range(self._context.num_comp)
        reads = self._reads(bodies) | {(DIRECTION_READS[body.name], i) for body in bodies for i in components}
        writes = frozenset((DIRECTION_WRITES[body.name], i) for body in bodies for i in components)
        return Pointwise("action", self._context.action(bodies), reads, writes, flops=0)

    def _reads(self, bodies: list[Body]) -> frozenset[Read]:
        return frozenset().union(*(body.reads(self._context.num_comp, sum(self._context.aux)) for body in bodies))

    def _check_bodies(self) -> None:
        for body in self.bodies.values():
            body.check()
        if not self._present("f0", "f1"):
            raise FormError("PointwiseForm: neither f0 nor f1 is given; expected at least one")
        if self.degree is not None and (not isinstance(self.degree, int) or self.degree < 0):
            raise FormError(f"PointwiseForm: degree {self.degree!r}; expected an integer of at least 0, or None for PETSc's points")

    def _check_space(self) -> None:
        if not isinstance(self.space, ufl.FunctionSpace):
            kind = type(self.space).__name__
            raise FormError(f"PointwiseForm: V is of type {kind}; several fields are not supported yet, expected one FunctionSpace")
        check_space(self.space, "PointwiseForm: the unknown")

    def _check_data(self) -> None:
        for function in self.aux:
            if not isinstance(function, ufl.Coefficient):
                raise FormError(f"PointwiseForm: aux holds {function!r}; expected Functions")
            check_space(function.ufl_function_space(), f"PointwiseForm: the coefficient {show(function)}")
            domain = function.ufl_function_space().ufl_domain()
            if domain != self.space.ufl_domain():
                raise FormError(
                    f"PointwiseForm: two meshes in one form: {show(function)} lives on {domain}, the unknown on "
                    f"{self.space.ufl_domain()}; build all spaces from one DM"
                )
        for constant in self.constants:
            if not isinstance(constant, ufl.Constant):
                raise FormError(f"PointwiseForm: constants holds {constant!r}; expected Constants: femgpu.Constant(dm, value)")
