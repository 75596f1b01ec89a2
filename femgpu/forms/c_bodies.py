"""C text around the pointwise bodies that a user writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from femgpu.errors import FormError
from femgpu.forms.printer import number
from femgpu.forms.records import Read

_COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)
_IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_REFUSED = {
    "u_t": "time derivatives are not supported yet",
    "a_t": "time derivatives are not supported yet",
    "u_tShift": "time derivatives are not supported yet",
    "return": "the body is pasted into a kernel; write an if instead",
}
_TYPES = {"PetscScalar": "real", "PetscReal": "real", "PetscInt": "int"}

# Shape of each Jacobian block, and its product with the direction. N is the number of components.
G_SHAPES = {"g0": "NN", "g1": "NNd", "g2": "NNd", "g3": "NNdd"}
_TIMES_DIRECTION = {
    "g0": "f0[fg_f] += g0[fg_f*{N} + fg_g] * w[fg_g];",
    "g1": "for (int fg_d = 0; fg_d < {d}; ++fg_d)\n"
    "  f0[fg_f] += g1[(fg_f*{N} + fg_g)*{d} + fg_d] * w_x[fg_g*{d} + fg_d];",
    "g2": "for (int fg_d = 0; fg_d < {d}; ++fg_d)\n"
    "  f1[fg_f*{d} + fg_d] += g2[(fg_f*{N} + fg_g)*{d} + fg_d] * w[fg_g];",
    "g3": "for (int fg_d = 0; fg_d < {d}; ++fg_d)\n"
    "  for (int fg_e = 0; fg_e < {d}; ++fg_e)\n"
    "    f1[fg_f*{d} + fg_d] += g3[((fg_f*{N} + fg_g)*{d} + fg_d)*{d} + fg_e] * w_x[fg_g*{d} + fg_e];",
}  # fmt: skip
DIRECTION_READS = {"g0": "w", "g1": "w_x", "g2": "w", "g3": "w_x"}
DIRECTION_WRITES = {"g0": "f0", "g1": "f0", "g2": "f1", "g3": "f1"}


@dataclass(frozen=True)
class Body:
    """One body.

    Attributes:
        name: the output that it writes.
        text: C statements.
    """

    name: str
    text: str

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The words in the text, without comments and strings."""
        return frozenset(_IDENTIFIER.findall(_COMMENT_OR_STRING.sub(" ", self.text)))

    def check(self) -> None:
        """Refuses bodies that cannot work.

        Raises:
            FormError: for text that is not a string, for time derivatives, and for `return`.
        """
        if not isinstance(self.text, str):
            raise FormError(f"{self.name} is of type {type(self.text).__name__}; expected a string with OpenCL C statements")
        for word, reason in _REFUSED.items():
            if word in self.identifiers:
                raise FormError(f"{self.name} uses {word!r}: {reason}: {self.text.strip()}")
        if self.name not in self.identifiers:
            raise FormError(f"{self.name} never writes {self.name}[...]: {self.text.strip()}")

    def reads(self, num_comp: int, num_aux: int) -> frozenset[Read]:
        """What of the input arrays the body mentions; all components count if an array is mentioned.

        Args:
            num_comp: components of the unknown.
            num_aux: components of all coefficients.
        """
        sizes = {"u": num_comp, "u_x": num_comp, "a": num_aux, "a_x": num_aux, "x": 1}
        return frozenset((name, i) for name, size in sizes.items() if name in self.identifiers for i in range(size))


@dataclass(frozen=True)
class Context:
    """Sizes that bodies may ask for.

    Attributes:
        dim: dimension of space.
        num_comp: components of the unknown.
        aux: components of each coefficient.
        num_constants: number of values in `constants`.
    """

    dim: int
    num_comp: int
    aux: tuple[int, ...]
    num_constants: int

    def block(self, bodies: Sequence[Body]) -> str:
        """The bodies one after the other, in a block with the declarations that they need."""
        return _braces(*self._declarations(bodies), *(_braces(body.text) for body in bodies))

    def action(self, bodies: Sequence[Body]) -> str:
        """A block that adds the products of g0 to g3 with the direction to f0 and f1."""
        lines = list(self._declarations(bodies))
        sizes = {"N": self.num_comp, "d": self.dim}
        for body in bodies:
            length = 1
            for letter in G_SHAPES[body.name]:
                length *= sizes[letter]
            lines.append(
                _braces(
                    f"real {body.name}[{length}];",
                    f"for (int fg_i = 0; fg_i < {length}; ++fg_i) {body.name}[fg_i] = {number(0.0)};",
                    _braces(body.text),
                    f"for (int fg_f = 0; fg_f < {self.num_comp}; ++fg_f)",
                    f"for (int fg_g = 0; fg_g < {self.num_comp}; ++fg_g)",
                    _braces(_TIMES_DIRECTION[body.name].format(**sizes)),
                )
            )
        return _braces(*lines)

    def _declarations(self, bodies: Sequence[Body]) -> list[str]:
        words = frozenset().union(*(body.identifiers for body in bodies))
        known = {name: f"typedef {kind} {name};" for name, kind in _TYPES.items()}
        known |= {name: f"const int {name} = {value};" for name, value in self._numbers().items()}
        known |= {name: f"const int {name}[] = {{{', '.join(map(str, values))}}};" for name, values in self._offsets().items()}
        known["t"] = f"const real t = {number(0.0)};"
        return [text for name, text in known.items() if name in words]

    def _numbers(self) -> Mapping[str, int]:
        return {"Nf": 1, "NfAux": len(self.aux), "numConstants": self.num_constants}

    def _offsets(self) -> Mapping[str, tuple[int, ...]]:
        aux = tuple(accumulate(self.aux, initial=0))
        return {
            "uOff": (0, self.num_comp),
            "uOff_x": (0, self.num_comp * self.dim),
            "aOff": aux,
            "aOff_x": tuple(offset * self.dim for offset in aux),
        }


def _braces(*parts: str) -> str:
    return "{\n" + "\n".join(parts) + "\n}"
