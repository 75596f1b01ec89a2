"""What a form reads, numbered in the order of first appearance."""

from __future__ import annotations

from typing import Any

from femgpu.forms.graph.arrays import SUFFIXES, Locate, width
from femgpu.forms.records import components
from femgpu.spaces import cell_quantity


class Inputs:
    """Names of coefficients and places of constants.

    Args:
        unknown: the Coefficient that is called "u", if any.
        direction: the Coefficient that is called "w", if any.

    Attributes:
        coefficients: the other Coefficients.
        constants: the Constants.
    """

    def __init__(self, unknown: Any = None, direction: Any = None) -> None:
        self.coefficients: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[Any, Any] = {unknown: "u", direction: "w"}
        self._first: dict[Any, int] = {}
        self._cell_quantities: dict[str, Any] = {}

    def coefficient(self, coefficient: Any, order: int) -> Any:
        """The graph's name of a Coefficient or of its derivatives of an order: "u", "w_x", ("a", 0), ("a_xx", 2), ..."""
        if coefficient not in self._names:
            self._names[coefficient] = ("a", len(self.coefficients))
            self.coefficients.append(coefficient)
        name = self._names[coefficient]
        return name + SUFFIXES[order] if isinstance(name, str) else (name[0] + SUFFIXES[order], name[1])

    def cell_quantity(self, mesh: Any, name: str) -> Any:
        """The graph's name of a size or the map of every cell (`spaces.cell_quantity`), which come in as coefficients."""
        if name not in self._cell_quantities:
            self._cell_quantities[name] = cell_quantity(mesh, name)
        return self.coefficient(self._cell_quantities[name], 0)

    def constant(self, constant: Any) -> int:
        """Where the values of a Constant begin in `constants`."""
        if constant not in self._first:
            self._first[constant] = sum(map(components, self.constants))
            self.constants.append(constant)
        return self._first[constant]

    def locate(self, dim: int) -> Locate:
        """Builds the map from an input (name, index) of the graph to the C array and the index there.

        Names ("a", i, 1) are of the second cell of a facet: there all coefficients follow those of the first one.
        """
        offsets = [0]
        for entry in self.coefficients:
            offsets.append(offsets[-1] + components(entry))

        def where(name: Any, index: int) -> tuple[str, int]:
            if isinstance(name, str):
                return name, index
            array, number, *second = name
            return array, index + (offsets[number] + bool(second) * offsets[-1]) * width(array, dim)

        return where
