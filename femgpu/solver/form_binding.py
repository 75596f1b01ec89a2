"""A form named on the command line, bound to the DM of a program that knows nothing of Python.

A form function gets the `FunctionSpace` of the DM's own field and section and returns `(F, u, bcs)`: a UFL residual or a
`PointwiseForm`, its unknown, and a sequence of Dirichlet conditions. Dofs that the DM's section constrains stay out of the
vectors and need no condition.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from petsc4py import PETSc

from femgpu import options
from femgpu.errors import DataError, FormError, OptionError, collective
from femgpu.forms import lower_form
from femgpu.operators.device import choose_runtime
from femgpu.solver.global_operator import GlobalOperator
from femgpu.spaces import Function, FunctionSpace

# Name under which a program composes the vector to linearise at with its Mat.
STATE = "femgpu_state"
_EXPECTED = "expected path/to/file.py:function or package.module:function"


class BoundForm:
    """The operators of the form that `-femgpu_form` names, on a DM; collective to make and to use.

    Rows of dofs prescribed by the form's own conditions are those of the identity: the program's residual there is u - value.

    Args:
        dm: a DMPlex with one PetscFE field; dofs that its section constrains are not part of the vectors.
        prefix: options prefix.

    Attributes:
        name: what `-femgpu_form` says.
        operator: the operators.
        template: a T-vector.

    Raises:
        FemgpuError: on all ranks, for a form, an option or a DM that does not fit.
    """

    def __init__(self, dm: PETSc.DM, prefix: str):
        mpi = dm.comm.tompi4py()
        with collective(mpi):
            settings = options.read(prefix)
            self.name = settings.form
            function = load(settings.form, prefix)
        space = FunctionSpace(dm)
        # Spaces, boundary regions and coefficients are made together, on all ranks: errors there are collective already.
        residual, u, bcs = _call(function, space, settings.form)
        with collective(mpi):
            form = lower_form(residual, u)
            if not form.has_jacobian:
                raise FormError(f"-{prefix}femgpu_form {self.name}: the PointwiseForm has no Jacobian; give it g0 to g3")
        runtime = choose_runtime(settings, [u.vec], mpi)
        self.template = dm.createGlobalVec()
        self.operator = GlobalOperator(form, bcs, settings, runtime, scale=1.0)

    def linearise(self, *holders: PETSc.Mat) -> None:
        """Moves the state to the vector composed as `STATE` with the first of the Mats that has one; to zero without any.

        Args:
            holders: the Mats.

        Raises:
            DataError: when the vector does not fit the DM.
        """
        states = (holder.query(STATE) for holder in holders)
        state = next((entry for entry in states if entry is not None), None)
        self.operator.refresh()
        if state is None:
            state = self.template.duplicate()
            state.set(0)
        elif not isinstance(state, PETSc.Vec) or state.getSizes() != self.template.getSizes():
            raise DataError(
                f"the object composed as {STATE!r} is {_describe(state)}; expected a global vector of the Mat's DM, with sizes "
                f"{self.template.getSizes()} (on this rank, in all)"
            )
        self.operator.linearise(state)


def load(name: str, prefix: str = "") -> Callable[[FunctionSpace], Any]:
    """The function that `-femgpu_form` names.

    Args:
        name: `path/to/file.py:function` or `package.module:function`.
        prefix: options prefix, for messages.

    Raises:
        OptionError: when there is no such function.
    """
    option = f"-{prefix}femgpu_form {name or '(not given)'}"
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise OptionError(f"{option}: {_EXPECTED}")
    try:
        module = _load_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except (ImportError, OSError) as error:
        raise OptionError(f"{option}: cannot load {where} ({error}); {_EXPECTED}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [
            key for key, entry in vars(module).items() if callable(entry) and getattr(entry, "__module__", "") == module.__name__
        ]
        raise OptionError(f"{option}: {where} has no function {attribute}; it has {', '.join(known) or 'none'}")
    return function


def _load_file(path: Path) -> Any:
    # As for a script: it may import what stands beside it, and some decorators look their module up.
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"femgpu_form_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _call(function: Callable[[FunctionSpace], Any], space: FunctionSpace, name: str) -> tuple[Any, Function, Any]:
    result = function(space)
    if not isinstance(result, tuple) or len(result) != 3 or not isinstance(result[1], Function):
        raise FormError(f"-femgpu_form {name} returned {result!r}; expected (F, u, bcs) with u a Function of the given space")
    residual, u, bcs = result
    if u.space is not space:
        raise FormError(f"-femgpu_form {name}: the unknown {u} is in another space ({u.space}); make it on the space that is given")
    return residual, u, bcs


def _describe(state: Any) -> str:
    return f"a Vec of sizes {state.getSizes()}" if isinstance(state, PETSc.Vec) else f"a {type(state).__name__}"
