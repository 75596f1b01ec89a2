"""C text around the bodies of a user: declarations before them, and what becomes of their outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from femgpu.errors import FormError
from femgpu.forms.c.bodies import Body, Part
from femgpu.forms.graph.printer import number
from femgpu.forms.records import Read, Write

_TYPES = {"PetscScalar": "real", "PetscReal": "real", "PetscInt": "int"}
# What pointwise functions of PETSc programs use besides C.
_NAMES = ("Exp", "Log", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Sqrt", "Pow", "Floor", "Ceil")
_FUNCTIONS = {
    **{f"Petsc{name}{kind}": name.lower() for name in _NAMES for kind in ("Real", "Scalar")},
    **dict.fromkeys(("PetscAbsReal", "PetscAbsScalar", "PetscAbs"), "fabs"),
    "PetscAtan2Real": "atan2",
    "PetscMax": "fmax",
    "PetscMin": "fmin",
    "PetscRealPart": "",
}
# The Jacobian block, its number of derivatives in all, what it multiplies of the direction, and where that adds to.
_DERIVATIVES = {"g0": 0, "g1": 1, "g2": 1, "g3": 2}
_DIRECTION = {"g0": "w", "g1": "w_x", "g2": "w", "g3": "w_x"}
_RESULT = {"g0": "f0", "g1": "f0", "g2": "f1", "g3": "f1"}
_ABSENT = {
    "a": "there are no coefficients: give them in aux",
    "a_x": "there are no coefficients: give them in aux",
    "constants": "there are none: give them in constants",
    "n": "a normal exists on facets only",
}


@dataclass(frozen=True)
class Context:
    """What bodies may ask for.

    Attributes:
        dim: dimension of space.
        parts: the fields of the unknown, one after the other.
        aux: where each field of each coefficient begins in `a`; after these the end of `a`.
        aux_reads: components of `a` that bodies may read.
        num_constants: number of the user's values in `constants`.
        time: where the time is in `constants`, None for a time that is 0.
        shift: where u_tShift is in `constants`, if anywhere.
        rate: where u_t begins in `a`, if anywhere.
    """

    dim: int
    parts: tuple[Part, ...]
    aux: tuple[int, ...]
    aux_reads: tuple[int, ...]
    num_constants: int
    time: int | None = None
    shift: int | None = None
    rate: int | None = None

    @property
    def num_comp(self) -> int:
        """Components of the unknown."""
        return self.parts[-1].components.stop

    def reads(self, bodies: Iterable[Body]) -> frozenset[Read]:
        """What of the input arrays bodies mention; all components count if an array is mentioned."""
        words = _words(bodies)
        components: Sequence[int] = range(self.num_comp)
        found = {"u": components, "u_x": components, "a": self.aux_reads, "a_x": self.aux_reads, "x": (0,), "n": (0,)}
        reads = {(name, i) for name, entries in found.items() if name in words for i in entries}
        if "u_t" in words and self.rate is not None:
            reads |= {("a", self.rate + i) for i in components}
        return frozenset(reads)

    def check(self, bodies: Iterable[Body], facet: bool) -> None:
        """Refuses bodies that read or write where there is nothing.

        Args:
            bodies: of one integral.
            facet: whether it is over facets.

        Raises:
            FormError: for arrays that are absent, and for subscripts given as numbers that are too large.
        """
        sizes = self._sizes(facet)
        for body in bodies:
            for name in sorted(body.identifiers & {name for name, size in sizes.items() if not size}):
                raise FormError(f"{body} reads {name!r}, but {_ABSENT[name]}: {body.text.strip()}")
            own = sizes | {body.name: body.size(self.dim)}
            for name, index in body.subscripts:
                if name in own and index >= own[name]:
                    raise FormError(f"{body} has {name}[{index}]; expected an index below {own[name]}: {body.text.strip()}")

    def _sizes(self, facet: bool) -> dict[str, int]:
        """Entries of the input arrays; 0 for those that are absent."""
        aux, comp = max(self.aux_reads, default=-1) + 1, self.num_comp
        return {
            "u": comp, "u_t": comp, "u_x": comp * self.dim, "a": aux, "a_x": aux * self.dim, "x": self.dim,
            "n": self.dim * facet, "constants": self.num_constants,
        }  # fmt: skip

    def residual(self, bodies: Sequence[Body]) -> str:
        """A block with the bodies of f0 and f1, one after the other."""
        return _braces(*self._declarations(bodies), *(self._test_body(body) for body in bodies))

    def jacobian(self, bodies: Sequence[Body]) -> str:
        """A block with the bodies of g0 to g3, one after the other."""
        if len(self.parts) == 1:
            return _braces(*self._declarations(bodies), *(_braces(body.text) for body in bodies))
        return _braces(*self._declarations(bodies), *(self._pair_body(body, self._into_block(body)) for body in bodies))

    def action(self, bodies: Sequence[Body]) -> str:
        """A block that adds the products of g0 to g3 with the direction to f0 and f1."""
        return _braces(*self._declarations(bodies), *(self._pair_body(body, self._times_direction(body)) for body in bodies))

    def _declarations(self, bodies: Sequence[Body]) -> list[str]:
        words = _words(bodies)
        components = (*(part.offset for part in self.parts), self.num_comp)
        known = {name: f"typedef {kind} {name};" for name, kind in _TYPES.items()}
        known |= {name: f"#define {name} {function}" for name, function in _FUNCTIONS.items()}
        known["PetscSqr"] = "#define PetscSqr(FG_X) ((FG_X) * (FG_X))"
        known["PETSC_PI"] = f"#define PETSC_PI {number(math.pi)}"
        for name, value in (("Nf", len(self.parts)), ("NfAux", len(self.aux) - 1), ("numConstants", self.num_constants)):
            known[name] = f"const int {name} = {value};"
        for name, values in (("uOff", components), ("aOff", self.aux)):
            known[name] = f"const int {name}[] = {{{', '.join(map(str, values))}}};"
            known[f"{name}_x"] = f"const int {name}_x[] = {{{', '.join(str(value * self.dim) for value in values)}}};"
        known["t"] = f"const real t = {number(0.0) if self.time is None else f'constants[{self.time}]'};"
        if self.shift is not None:
            known["u_tShift"] = f"const real u_tShift = constants[{self.shift}];"
        if self.rate is not None:
            known["u_t"] = f"const real *const u_t = a + {self.rate};"
        return [text for name, text in known.items() if name in words]

    def _test_body(self, body: Body) -> str:
        """A body that sees its own field's part of the output."""
        if len(self.parts) == 1:
            return _braces(body.text)
        first = body.test.offset * (self.dim if body.name == "f1" else 1)
        return _braces(
            f"real *const fg_out = {body.name} + {first};", _braces(f"real *const {body.name} = fg_out;", _braces(body.text))
        )

    def _pair_body(self, body: Body, use: str) -> str:
        """A body that writes a block of its own pair of fields, zero before, and what is done with the block."""
        assert body.trial is not None
        length = body.test.num_comp * body.trial.num_comp * self.dim ** _DERIVATIVES[body.name]
        return _braces(
            f"real fg_block[{length}];",
            f"for (int fg_i = 0; fg_i < {length}; ++fg_i) fg_block[fg_i] = {number(0.0)};",
            _braces(f"real *const {body.name} = fg_block;", _braces(body.text)),
            f"for (int fg_f = 0; fg_f < {body.test.num_comp}; ++fg_f)",
            f"for (int fg_g = 0; fg_g < {body.trial.num_comp}; ++fg_g)",
            use,
        )

    def _into_block(self, body: Body) -> str:
        """Copies the entries of one pair of components to where they are among all fields."""
        assert body.trial is not None
        size = self.dim ** _DERIVATIVES[body.name]
        row = f"({body.test.offset} + fg_f)*{self.num_comp} + {body.trial.offset} + fg_g"
        return (
            f"for (int fg_d = 0; fg_d < {size}; ++fg_d)\n"
            f"  {body.name}[({row})*{size} + fg_d] = fg_block[(fg_f*{body.trial.num_comp} + fg_g)*{size} + fg_d];"
        )

    def _times_direction(self, body: Body) -> str:
        """Multiplies the entries of one pair of components with the direction."""
        assert body.trial is not None
        d = self.dim
        pair = f"fg_f*{body.trial.num_comp} + fg_g"
        f, g = f"{body.test.offset} + fg_f", f"{body.trial.offset} + fg_g"
        over_d, over_e = (f"for (int {name} = 0; {name} < {d}; ++{name})\n  " for name in ("fg_d", "fg_e"))
        return {
            "g0": f"f0[{f}] += fg_block[{pair}] * w[{g}];",
            "g1": f"{over_d}f0[{f}] += fg_block[({pair})*{d} + fg_d] * w_x[({g})*{d} + fg_d];",
            "g2": f"{over_d}f1[({f})*{d} + fg_d] += fg_block[({pair})*{d} + fg_d] * w[{g}];",
            "g3": f"{over_d}{over_e}f1[({f})*{d} + fg_d] += fg_block[(({pair})*{d} + fg_d)*{d} + fg_e] * w_x[({g})*{d} + fg_e];",
        }[body.name]


def direction_reads(body: Body) -> frozenset[Read]:
    """What the product of a Jacobian block with the direction reads of the direction."""
    assert body.trial is not None
    return frozenset((_DIRECTION[body.name], i) for i in body.trial.components)


def writes(body: Body, into: str | None = None) -> frozenset[Write]:
    """The outputs of a body, or of its product with the direction."""
    return frozenset((into or body.name, i) for i in body.test.components)


def action_writes(body: Body) -> frozenset[Write]:
    """The outputs of the product of a Jacobian block with the direction."""
    return writes(body, _RESULT[body.name])


def _words(bodies: Iterable[Body]) -> frozenset[str]:
    return frozenset().union(*(body.identifiers for body in bodies))


def _braces(*parts: str) -> str:
    return "{\n" + "\n".join(parts) + "\n}"
