"""The pointwise bodies that a user writes: one C text per output and field, or pair of fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from femgpu.errors import FormError

F_NAMES = ("f0", "f1")
G_NAMES = ("g0", "g1", "g2", "g3")

_COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)
_IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_SUBSCRIPT = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\[\s*(\d+)\s*\]")
_REFUSED = {
    "a_t": "time derivatives of coefficients are not supported; give them as a Function of their own in aux",
    "return": "the body is pasted into a kernel; write an if instead",
}


@dataclass(frozen=True)
class Part:
    """One field of the unknown.

    Attributes:
        name: as the space calls it; empty where there is only one field.
        offset: its first component.
        num_comp: its components.
    """

    name: str
    offset: int
    num_comp: int

    @property
    def components(self) -> range:
        """Its components within the space."""
        return range(self.offset, self.offset + self.num_comp)


@dataclass(frozen=True)
class Body:
    """One body.

    Attributes:
        name: the output that it writes: f0, f1, g0, g1, g2 or g3.
        text: C statements.
        test: the field of the test function.
        trial: the field of the direction, of g's only.
        where: "" for cells, else how messages name the facets.
    """

    name: str
    text: str
    test: Part
    trial: Part | None = None
    where: str = ""

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The words in the text, without comments and strings."""
        return frozenset(_IDENTIFIER.findall(_COMMENT_OR_STRING.sub(" ", self.text)))

    @cached_property
    def subscripts(self) -> list[tuple[str, int]]:
        """The arrays that are subscripted with a number, and the numbers."""
        return [(name, int(index)) for name, index in _SUBSCRIPT.findall(_COMMENT_OR_STRING.sub(" ", self.text))]

    def size(self, dim: int) -> int:
        """Entries of the output."""
        rows = self.test.num_comp * (1 if self.trial is None else self.trial.num_comp)
        return rows * dim ** {"f0": 0, "f1": 1, "g0": 0, "g1": 1, "g2": 1, "g3": 2}[self.name]

    def __str__(self) -> str:
        fields = (self.test,) if self.trial is None else (self.test, self.trial)
        names = ", ".join(repr(field.name) for field in fields if field.name)
        return self.name + (f"[{names}]" if names else "") + self.where

    def check(self) -> None:
        """Refuses bodies that cannot work.

        Raises:
            FormError: for text that is not a string, for what a body may not use, and where the output is never written.
        """
        if not isinstance(self.text, str):
            raise FormError(f"{self} is of type {type(self.text).__name__}; expected a string with OpenCL C statements")
        for word, reason in _REFUSED.items():
            if word in self.identifiers:
                raise FormError(f"{self} uses {word!r}: {reason}: {self.text.strip()}")
        if "u_tShift" in self.identifiers and self.trial is None:
            raise FormError(f"{self} uses 'u_tShift', which {', '.join(G_NAMES)} have only: {self.text.strip()}")
        if self.name not in self.identifiers:
            raise FormError(f"{self} never writes {self.name}[...]: {self.text.strip()}")


def read_bodies(given: Mapping[str, Any], parts: tuple[Part, ...], where: str = "") -> tuple[Body, ...]:
    """Bodies of one kind of integral, checked.

    Args:
        given: what the user gave for f0, f1 and g0 to g3; None for what is absent.
        parts: the fields of the space.
        where: see `Body`.

    Raises:
        FormError: naming what is wrong, and the legal names of fields.
    """
    bodies = []
    for name, value in given.items():
        if value is not None:
            make = _test_bodies if name in F_NAMES else _pair_bodies
            bodies += make(name, value, parts, where)
    for body in bodies:
        body.check()
    if bodies and not any(body.name in F_NAMES for body in bodies):
        raise FormError(f"PointwiseForm: neither f0 nor f1 is given{where}; expected at least one")
    return tuple(bodies)


def _test_bodies(name: str, value: Any, parts: tuple[Part, ...], where: str) -> list[Body]:
    texts = _per_key(name, value, parts, where, parts[0].name)
    by_name = {part.name: part for part in parts}
    for key in texts:
        if key not in by_name:
            raise FormError(f"PointwiseForm: {name}{where} has the key {key!r}; expected the fields {_listed(parts)}")
    return [Body(name, text, by_name[key], None, where) for key, text in texts.items()]


def _pair_bodies(name: str, value: Any, parts: tuple[Part, ...], where: str) -> list[Body]:
    texts = _per_key(name, value, parts, where, (parts[0].name, parts[-1].name))
    by_name = {part.name: part for part in parts}
    bodies = []
    for pair, text in texts.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(entry in by_name for entry in pair):
            raise FormError(
                f"PointwiseForm: {name}{where} has the key {pair!r}; expected pairs (test field, trial field) of {_listed(parts)}"
            )
        bodies.append(Body(name, text, by_name[pair[0]], by_name[pair[1]], where))
    return bodies


def _per_key(name: str, value: Any, parts: tuple[Part, ...], where: str, first: Any) -> Mapping[Any, Any]:
    """Texts by field or pair of fields; a string is enough where there is only one, whose key is `first`."""
    if len(parts) == 1:
        if not isinstance(value, Mapping):
            return {first: value}
        if not parts[0].name:
            raise FormError(f"PointwiseForm: {name}{where} is a dict; expected a string, the space has one field only")
    if not isinstance(value, Mapping):
        raise FormError(
            f"PointwiseForm: {name}{where} is of type {type(value).__name__}, but the space has the fields {_listed(parts)}; "
            f"expected a dict: {{{first!r}: '...'}}"
        )
    return value


def _listed(parts: tuple[Part, ...]) -> str:
    return ", ".join(repr(part.name) for part in parts)
