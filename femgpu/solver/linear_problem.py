"""Linear problems: one solve by KSP, with a matrix that is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from petsc4py import PETSc

from femgpu.errors import FormError
from femgpu.forms import Form, LinearSystem
from femgpu.solver.conditions import Conditions
from femgpu.solver.problem import NonlinearProblem
from femgpu.solver.unknowns import Unknowns
from femgpu.spaces import Function


class LinearProblem(NonlinearProblem):
    """Find u with a(u, v) = L(v) for all v, and u = value on the prescribed parts of the boundary.

    One solve by KSP from u as it is, to a residual of 1e-10 of the first (1e-6 where kernels compute in single precision) unless
    -ksp_rtol says otherwise. The matrix, assembled or matrix-free as the options say, and its preconditioner are kept from solve
    to solve for as long as the mesh stays where it is and the Functions and Constants in a keep their values; those in L and in
    boundary values may change.

    Args:
        a: a bilinear form; an equation `a == L` or `F == 0`; or a form F with bilinear and linear terms.
        L: the linear form, where a is bilinear; None: zero, or in a.
        bcs: Dirichlet conditions, or a single one; None: none.
        u: the unknown, in the space of the trial function, or several of them, see `NonlinearProblem`; default new Functions.
        options_prefix: prefix of this problem's options.
        petsc_options: options of this problem alone, as for `NonlinearProblem`.

    Attributes:
        a: the bilinear form.
        L: the linear form; None where it is zero.
        ksp: the PETSc.KSP.

    Raises:
        FemgpuError: as for `NonlinearProblem`; also for forms that contain u beside the trial function, or are not linear in that.
    """

    def __init__(
        self,
        a: Any,
        L: Any = None,
        bcs: Conditions = None,
        u: Function | Sequence[Function] | None = None,
        options_prefix: str = "",
        petsc_options: Mapping[str, Any] | None = None,
    ):
        unknowns = Unknowns.of_forms(a, L) if u is None else Unknowns.of(u, "LinearProblem(a, L, bcs, u)")
        if unknowns is not None:
            a, L = unknowns.form(a), unknowns.form(L)
        system = LinearSystem.of(a, L)
        self.a, self.L = system.a, system.L
        unknowns = Unknowns(Function(system.space)) if unknowns is None else unknowns
        super().__init__(system.residual(unknowns.whole), unknowns, bcs, options_prefix=options_prefix, petsc_options=petsc_options)

    @property
    def ksp(self) -> PETSc.KSP:
        """The linear solver."""
        return self.snes.getKSP()

    def _prepare(self, u: Function, bcs: Conditions, lower: Callable[[], Form], scale: float | None = None) -> None:
        """Makes what lies below the solver, for forms that are linear; collective."""
        super()._prepare(u, bcs, lambda: _linear(lower()), scale)

    def insert_boundary_values(self, x: PETSc.Vec) -> None:
        """Sets the prescribed entries of a T-vector to their values, evaluated anew; collective."""
        if self._pair.watch.changed():
            self.operator.refresh()
        else:
            self.operator.refresh_values()
        self.operator.insert_values(x)

    def _attach(self) -> None:
        """Hands callbacks and matrices to a SNES that is one linear solve."""
        self.snes.setType(PETSc.SNES.Type.KSPONLY)
        self.ksp.setTolerances(rtol=1e-10 if self.settings.precision == "double" else 1e-6)
        super()._attach()

    def _form_jacobian(self, snes: PETSc.SNES, x: PETSc.Vec, J: PETSc.Mat, P: PETSc.Mat) -> None:
        if self._pair.watch.changed() or self.operator.factor != 1.0:  # that somebody scaled
            super()._form_jacobian(snes, x, J, P)


def _linear(form: Form) -> Form:
    """The form, whose Jacobian must be the same at all states.

    Raises:
        FormError: where it is not.
    """
    if form.depends_on_unknown:
        raise FormError(
            "the bilinear form of a LinearProblem is not linear in its trial function: its derivative depends on the solution; "
            "expected NonlinearProblem(F, u), in which the Function u stands in place of the trial function"
        )
    return form
