"""The PETSc way in: pointwise functions as OpenCL C bodies with PETSc's argument names and layouts.

A body sees `dim, Nf, uOff, uOff_x, u, u_t, u_x, NfAux, aOff, aOff_x, a, a_x, t, x, numConstants, constants`, on facets
also the outward unit normal `n`, in g0 to g3 also `u_tShift`, and writes its output, which is zeroed before. It is pasted
into a kernel, so it must not `return`. Numbers are `real` (or `PetscScalar`, `PetscReal`), counters `int` (or
`PetscInt`).

Fields stand one after the other in `u` and `u_x`: component c of field f is `u[uOff[f] + c]`, its derivative in
direction d `u_x[uOff_x[f] + c*dim + d]`; `aOff` and `aOff_x` do the same for the fields of all coefficients. Outputs are
those of one field, or pair of fields: `f0[c]`, `f1[c*dim + d]`, `g0[fc*Nc + gc]`, `g1[(fc*Nc + gc)*dim + dg]`,
`g2[(fc*Nc + gc)*dim + df]`, `g3[((fc*Nc + gc)*dim + df)*dim + dg]` with Nc components of the direction's field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import accumulate
from typing import Any

import ufl

from femgpu.errors import FormError, MeshError, told
from femgpu.forms.c.bodies import F_NAMES, G_NAMES, Body, Part, read_bodies
from femgpu.forms.c.context import Context, action_reads, action_writes, couples, writes
from femgpu.forms.graph.operations import length
from femgpu.forms.records import Form, Integral, Kind, Pointwise, Read, Write, components
from femgpu.forms.ufl.check import check_space, simple_elements
from femgpu.forms.ufl.show import show
from femgpu.mesh.regions import BOUNDARY, FACET_LABEL, parse_region
from femgpu.spaces import SubFunction, time_derivative, time_shift
from femgpu.spaces.ufl_element import num_components

_DIFFERENCE = "pointwise functions without g0 to g3: the Jacobian action is a matrix-free difference of residuals"


class PointwiseForm:
    """A form given by pointwise functions, integrated with PETSc's own quadrature points.

    The residual of a test function phi is the integral of `f0 phi + f1 . grad phi`; g0 (phi, w), g1 (phi, grad w), g2
    (grad phi, w) and g3 (grad phi, grad w) are its derivative. Where any g is given, those that are absent are zero;
    without any, the Jacobian action is a difference of residuals. Bodies that mention `u_t` read
    `femgpu.time_derivative(u)`, those that mention `u_tShift` read `femgpu.time_shift(u)`.

    Args:
        V: the FunctionSpace or MixedSpace of unknown and test function.
        f0: C body that writes f0; on a MixedSpace a dict with the body of each test field, `{"velocity": "..."}`.
        f1: C body that writes f1, or such a dict.
        g0: C body that writes g0; on a MixedSpace a dict, `{("velocity", "pressure"): "..."}`, test field first.
        g1: C body that writes g1, or such a dict.
        g2: C body that writes g2, or such a dict.
        g3: C body that writes g3, or such a dict.
        aux: Functions behind `a` and `a_x`, in order, of any degree; each field of a mixed one counts on its own.
        constants: Constants behind `constants`, flattened in order.
        facets: more of f0 to g3 for exterior facets, by value(s) of the label "Face Sets", name(s) of regions, (label, values), or
            "boundary" for all facets: `{3: dict(f0="..."), ("inlet", "outlet"): dict(f0="...", g0="...")}`. A facet in two
            regions counts twice.
        t: the Constant behind `t`; default: t is 0.
        degree: of the quadrature; default: PETSc's points for the highest degree k of V's fields and what is read of `aux`: k + 1
            per direction, exact to degree 2k + 1. -petscfe_default_quadrature_order overrules both.

    Raises:
        FormError: naming the argument that is not what is expected.
    """

    def __init__(
        self,
        V: Any,
        f0: Any = None,
        f1: Any = None,
        g0: Any = None,
        g1: Any = None,
        g2: Any = None,
        g3: Any = None,
        *,
        aux: Sequence[Any] = (),
        constants: Sequence[Any] = (),
        facets: Mapping[Any, Mapping[str, Any]] | None = None,
        t: Any = None,
        degree: int | None = None,
    ) -> None:
        self.space = V
        self.parts = _parts(V)
        cells = read_bodies({"f0": f0, "f1": f1, "g0": g0, "g1": g1, "g2": g2, "g3": g3}, self.parts)
        groups = {("exterior_facet", ids): bodies for ids, bodies in _read_facets(facets, self.parts).items()}
        self.groups: dict[tuple[str, tuple[Any, ...]], tuple[Body, ...]] = {("cell", ()): cells} if cells else {}
        self.groups |= groups
        for name, given in (("aux", aux), ("constants", constants)):
            if not isinstance(given, list | tuple):
                raise FormError(f"PointwiseForm: {name} is {told(given)}; expected a list")
        self.aux = tuple(aux)
        self.constants = tuple(constants)
        self.t = t
        self.degree = degree
        self._check()

    def lower(self, u: Any = None) -> Form:
        """Builds the record of the form.

        Args:
            u: the unknown Function.

        Raises:
            FormError: if the unknown is not a Function in the form's space, is in `aux`, or is absent although there is
                a body with `u_t` or `u_tShift`.
        """
        self._check_unknown(u)
        coefficients, constants, context = self._inputs(u)
        for (kind, _), bodies in self.groups.items():
            context.check(bodies, kind == "exterior_facet")
        has_jacobian = any(body.trial is not None for bodies in self.groups.values() for body in bodies)
        integrals = tuple(
            Integral(
                kind,
                ids,
                self.degree,
                residual=_residual(context, [body for body in bodies if body.trial is None]),
                action=_action(context, [body for body in bodies if body.trial is not None]),
                jacobian=_jacobian(context, [body for body in bodies if body.trial is not None]),
                transposed=_action(context, [body for body in bodies if body.trial is not None], transposed=True),
            )
            for (kind, ids), bodies in self.groups.items()
        )
        notes = self._notes() if has_jacobian else (_DIFFERENCE,)
        return Form(self.space, u, coefficients, constants, integrals, notes, has_jacobian)

    def at_time(self, t: Any) -> PointwiseForm:
        """The same form with t as its time.

        Raises:
            FormError: if the form has another time already.
        """
        if self.t is not None and self.t is not t:
            raise FormError(
                "PointwiseForm: its t is another Constant than that of the TimeProblem; expected the same, or none in the form"
            )
        form = copy(self)
        form.t = t
        return form

    def _inputs(self, u: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], Context]:
        """Coefficients, constants, and where bodies find them."""
        whole = [function.parent if isinstance(function, SubFunction) else function for function in self.aux]
        if self._mentions("u_t"):
            whole.append(time_derivative(u))
        coefficients = tuple(dict.fromkeys(whole))
        starts = dict(zip(coefficients, accumulate(map(components, coefficients), initial=0), strict=False))
        fields = [entry for function in self.aux for entry in _aux_fields(function, starts)]
        reads = tuple(dict.fromkeys(first + i for first, size in fields for i in range(size)))
        end = fields[-1][0] + fields[-1][1] if fields else 0
        constants, time, shift = list(self.constants), None, None
        num_constants = sum(map(components, constants))
        if self.t is not None and self._mentions("t"):
            time = num_constants
            constants.append(self.t)
        if self._mentions("u_tShift"):
            shift = num_constants + (time is not None)
            constants.append(time_shift(u))
        context = Context(
            self.space.ufl_domain().geometric_dimension,
            self.parts,
            (*(first for first, _ in fields), end),
            reads,
            num_constants,
            time,
            shift,
            starts[time_derivative(u)] if self._mentions("u_t") else None,
        )
        return coefficients, tuple(constants), context

    def _mentions(self, word: str) -> bool:
        return any(word in body.identifiers for bodies in self.groups.values() for body in bodies)

    def _notes(self) -> tuple[str, ...]:
        """Names the integrals that seem to lack a Jacobian."""
        notes = []
        for (kind, ids), bodies in self.groups.items():
            reads_state = any(body.identifiers & {"u", "u_x", "u_t"} for body in bodies)
            if reads_state and all(body.trial is None for body in bodies):
                where = "cells" if kind == "cell" else f"facets {ids or 'boundary'}"
                notes.append(f"pointwise functions of {where} read u, but have no g0 to g3: their Jacobian is taken as zero")
        return tuple(notes)

    def _check(self) -> None:
        if not self.groups:
            raise FormError("PointwiseForm: neither f0 nor f1 is given; expected at least one")
        if self.degree is not None and (not isinstance(self.degree, int) or self.degree < 0):
            raise FormError(f"PointwiseForm: degree {self.degree!r}; expected an integer of at least 0, or None for PETSc's points")
        for function in self.aux:
            self._check_coefficient(function)
        for constant in self.constants:
            if not isinstance(constant, ufl.Constant):
                raise FormError(f"PointwiseForm: constants holds {constant!r}; expected Constants: femgpu.Constant(dm, value)")
        if self.t is not None and (not isinstance(self.t, ufl.Constant) or self.t.ufl_shape):
            raise FormError(f"PointwiseForm: t is {self.t!r}; expected a scalar Constant: femgpu.Constant(dm, 0.0)")

    def _check_coefficient(self, function: Any) -> None:
        if not isinstance(function, ufl.Coefficient):
            raise FormError(f"PointwiseForm: aux holds {told(function)}; expected Functions")
        check_space(function.ufl_function_space(), f"PointwiseForm: the coefficient {show(function)}")
        domain = function.ufl_function_space().ufl_domain()
        if domain != self.space.ufl_domain():
            raise FormError(
                f"PointwiseForm: two meshes in one form: {show(function)} lives on {domain}, the unknown on "
                f"{self.space.ufl_domain()}; build all spaces from one DM"
            )

    def _check_unknown(self, u: Any) -> None:
        if u is None:
            for word in ("u_t", "u_tShift"):
                if self._mentions(word):
                    raise FormError(f"PointwiseForm: a body uses {word!r}, but there is no unknown to take it of; expected u")
            return
        if not isinstance(u, ufl.Coefficient) or isinstance(u, SubFunction) or u.ufl_function_space() != self.space:
            raise FormError(f"PointwiseForm: the unknown {u} is not a Function in the form's space, {self.space.ufl_element()}")
        if any(u in (function, getattr(function, "parent", None)) for function in self.aux):
            raise FormError(f"PointwiseForm: aux holds the unknown {show(u)}; expected bodies that read it as u and u_x")


def _parts(space: Any) -> tuple[Part, ...]:
    """The fields of a space."""
    if not isinstance(space, ufl.FunctionSpace):
        kind = type(space).__name__
        raise FormError(f"PointwiseForm: V is of type {kind}; expected a FunctionSpace, or femgpu.MixedSpace for several fields")
    check_space(space, "PointwiseForm: the unknown")
    if not isinstance(space.ufl_element().pullback, ufl.pullback.MixedPullback):
        return (Part("", 0, num_components(space.ufl_element())),)
    return tuple(Part(field.name, field.offset, field.num_comp) for field in space.fields)  # type: ignore[attr-defined]


def _read_facets(facets: Mapping[Any, Any] | None, parts: tuple[Part, ...]) -> dict[tuple[Any, ...], tuple[Body, ...]]:
    """Bodies by regions; the empty tuple stands for all facets."""
    found: dict[tuple[Any, ...], tuple[Body, ...]] = {}
    if not isinstance(facets, Mapping | None):
        raise FormError(f"PointwiseForm: facets is of type {type(facets).__name__}; expected a dict such as {{3: dict(f0=...)}}")
    for key, given in (facets or {}).items():
        ids = _facet_ids(key)
        earlier = [entry for other in found for entry in other]
        if ids in found or len({*ids, *earlier}) < len(ids) + len(earlier):
            raise FormError(
                f"PointwiseForm: facets has an id of {key!r} twice; expected each once, here {sorted(earlier, key=str)} before"
            )
        legal = F_NAMES + G_NAMES
        if not isinstance(given, Mapping) or not set(given) <= set(legal):
            raise FormError(f"PointwiseForm: facets[{key!r}] is {given!r}; expected a dict with some of {', '.join(legal)}")
        found[ids] = read_bodies({name: given.get(name) for name in legal}, parts, f" of facets[{key!r}]")
        if not found[ids]:
            raise FormError(f"PointwiseForm: facets[{key!r}] is empty; expected f0, f1 or both")
    return found


def _facet_ids(key: Any) -> tuple[Any, ...]:
    """The regions that a key names; none for all facets."""
    if key == BOUNDARY:
        return ()
    try:
        parts = parse_region(key)
    except MeshError as error:
        raise FormError(f"PointwiseForm: facets has the key {key!r}: {error}") from None
    return tuple(
        region
        for label, values in parts
        for region in ((label,) if values is None else values if label == FACET_LABEL else ((label, value) for value in values))
    )


def _aux_fields(function: Any, starts: Mapping[Any, int]) -> list[tuple[int, int]]:
    """Where each field of a coefficient begins in `a`, and its number of components."""
    if isinstance(function, SubFunction):
        return [(starts[function.parent] + function.field.offset, components(function))]
    sizes = [num_components(element) for element in simple_elements(function.ufl_element())]
    firsts = accumulate(sizes, initial=starts[function])
    return list(zip(firsts, sizes, strict=False))


def _residual(context: Context, bodies: list[Body]) -> Pointwise | None:
    written = frozenset().union(*map(writes, bodies))
    return _counted("residual", context.residual(bodies), context.reads(bodies), written, context.constants_read(bodies))


def _jacobian(context: Context, bodies: list[Body]) -> Pointwise | None:
    if not bodies:
        return None
    written = frozenset().union(*map(writes, bodies))
    found = _counted("jacobian", context.jacobian(bodies), context.reads(bodies), written, context.constants_read(bodies))
    return replace(found, couples=frozenset().union(*map(couples, bodies)))


def _action(context: Context, bodies: list[Body], transposed: bool = False) -> Pointwise | None:
    if not bodies:
        return None
    reads = context.reads(bodies).union(*(action_reads(body, transposed) for body in bodies))
    written = frozenset().union(*(action_writes(body, transposed) for body in bodies))
    return _counted("action", context.action(bodies, transposed), reads, written, context.constants_read(bodies))


def _counted(kind: Kind, body: str, reads: frozenset[Read], written: frozenset[Write], constants: frozenset[int]) -> Pointwise:
    """The record of C text, whose operators and functions say how long its program becomes."""
    return Pointwise(kind, body, reads, written, flops=0, size=length(body), constants=constants)
