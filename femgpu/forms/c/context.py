"""C text around the bodies of a user: declarations before them, and what becomes of their outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

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
# The derivatives of test function and direction that a Jacobian block multiplies.
_DERIVATIVES = {"g0": (0, 0), "g1": (0, 1), "g2": (1, 0), "g3": (1, 1)}
# By the number of derivatives.
_DIRECTION, _RESULT = ("w", "w_x"), ("f0", "f1")
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

    def constants_read(self, bodies: Iterable[Body]) -> frozenset[int]:
        """The entries of `constants` behind what bodies mention; all of the user's if any is."""
        words = _words(bodies)
        named = {i for name, i in (("t", self.time), ("u_tShift", self.shift)) if name in words and i is not None}
        return frozenset(named.union(range(self.num_constants) if "constants" in words else ()))

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

    def action(self, bodies: Sequence[Body], transposed: bool = False) -> str:
        """A block that adds the products of g0 to g3, or of their transposes, with the direction to f0 and f1."""
        uses = (self._pair_body(body, self._times_direction(body, transposed)) for body in bodies)
        return _braces(*self._declarations(bodies), *uses)

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
        length = body.test.num_comp * body.trial.num_comp * self.dim ** sum(_DERIVATIVES[body.name])
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
        size = self.dim ** sum(_DERIVATIVES[body.name])
        row = f"({body.test.offset} + fg_f)*{self.num_comp} + {body.trial.offset} + fg_g"
        return (
            f"for (int fg_d = 0; fg_d < {size}; ++fg_d)\n"
            f"  {body.name}[({row})*{size} + fg_d] = fg_block[(fg_f*{body.trial.num_comp} + fg_g)*{size} + fg_d];"
        )

    def _times_direction(self, body: Body, transposed: bool) -> str:
        """Multiplies the entries of one pair of components with the direction."""
        assert body.trial is not None
        on_test, on_trial = _DERIVATIVES[body.name]
        index, at = f"fg_f*{body.trial.num_comp} + fg_g", []
        loops = ""
        for name, first, order in (("fg_f", body.test.offset, on_test), ("fg_g", body.trial.offset, on_trial)):
            component = f"{first} + {name}"
            if order:
                d = "fg_e" if loops else "fg_d"
                loops += f"for (int {d} = 0; {d} < {self.dim}; ++{d})\n  "
                component, index = f"({component})*{self.dim} + {d}", f"({index})*{self.dim} + {d}"
            at.append(component)
        if transposed:
            on_test, on_trial, at = on_trial, on_test, at[::-1]
        return f"{loops}{_RESULT[on_test]}[{at[0]}] += fg_block[{index}] * {_DIRECTION[on_trial]}[{at[1]}];"


def action_reads(body: Body, transposed: bool = False) -> frozenset[Read]:
    """What the product of a Jacobian block, or of its transpose, with the direction reads of the direction."""
    field, order = _sides(body)[not transposed]
    return frozenset((_DIRECTION[order], i) for i in field.components)


def action_writes(body: Body, transposed: bool = False) -> frozenset[Write]:
    """The outputs of that product."""
    field, order = _sides(body)[transposed]
    return frozenset((_RESULT[order], i) for i in field.components)


def writes(body: Body) -> frozenset[Write]:
    """The outputs of a body."""
    return frozenset((body.name, i) for i in body.test.components)


def couples(body: Body) -> frozenset[tuple[int, int]]:
    """The components of test function and direction that a body of a Jacobian may couple."""
    assert body.trial is not None
    return frozenset(product(body.test.components, body.trial.components))


def _sides(body: Body) -> tuple[tuple[Part, int], tuple[Part, int]]:
    """The field and the number of derivatives of test function and direction."""
    assert body.trial is not None
    on_test, on_trial = _DERIVATIVES[body.name]
    return (body.test, on_test), (body.trial, on_trial)


def _words(bodies: Iterable[Body]) -> frozenset[str]:
    return frozenset().union(*(body.identifiers for body in bodies))


def _braces(*parts: str) -> str:
    return "{\n" + "\n".join(parts) + "\n}"
