"""Tabulations cut into tiles: what an item reads for its points of a field, or for its rows of a test function, in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tile:
    """The tabulation of one field at the points, or of its rows.

    Attributes:
        name: of its macro.
        table: number of the tabulation.
        num_basis: basis functions of it.
        num_comp: components of the field.
        kinds: what of it is there: 0 values, then dim gradients, then dim^2 second derivatives.
        rows: whether an item has some basis functions at all points, else some points of all basis functions.
        parts: how many items share a cell's points or basis functions.
        passes: how often they take points.
        size: points, or basis functions, of an item.
        num_qpts: points of the rule.
        wide: words that an item reads at a time, to a multiple of which its share is filled up.
        mma: whether eight parts multiply together, four basis functions or points at a time: each item then brings one number of
            the 8 x 4 in question.
        squares: of a diagonal, the pairs of such numbers of a basis function whose products are there in their place; `kinds`
            counts them.
        side: 1 for the second cell of a facet.
    """

    name: str
    table: int
    num_basis: int
    num_comp: int
    kinds: tuple[int, ...]
    rows: bool
    parts: int
    passes: int
    size: int
    num_qpts: int
    wide: int
    mma: bool = False
    squares: tuple[tuple[int, int], ...] = ()
    side: int = 0

    @property
    def point(self) -> str:
        """The name of its numbers at a point, as `point.mako` has it."""
        return "other_r_x_e" if self.name == "other_x" else f"r_{self.name}_e"

    @property
    def width(self) -> int:
        """Words that are read together: for one basis function of a field, for one kind at one point of the rows."""
        return padded(self.size * (1 if self.rows else len(self.kinds)), self.wide)

    @property
    def turns(self) -> int:
        """Basis functions of a field, points and kinds of the rows, of which a part reads so many words; or fours of them."""
        fours = 4 if self.mma else 1
        return -(-self.num_qpts // fours) * len(self.kinds) if self.rows else -(-self.num_basis // fours)

    @property
    def stride(self) -> int:
        """Words of one part, or of eight, in one pass of a field."""
        return self.turns * self.width * (32 if self.mma else 1)

    @property
    def words(self) -> int:
        """All of them."""
        return self.stride * (self.parts // 8 if self.mma else self.parts) * (1 if self.rows else self.passes)

    def slot(self, kind: int, component: int, dim: int) -> int:
        """Where a component's value or derivative stands among those of a point, as `points.cl` counts them."""
        if self.squares:
            return kind * self.num_comp + component
        if kind == 0:
            return component
        if kind <= dim:
            return self.num_comp + component * dim + kind - 1
        return self.num_comp * (1 + dim) + component * dim**2 + kind - 1 - dim

    def pack(self, tabulation: list[np.ndarray]) -> np.ndarray:
        """(words,) from values (num_qpts, num_basis), gradients (num_qpts, num_basis, dim) and second derivatives."""
        if not self.kinds:
            return np.zeros(0)  # rows of a field that this term does not test
        parts = [array.reshape(self.num_qpts, self.num_basis, -1) for array in tabulation]
        numbers = np.concatenate(parts, axis=2)
        if self.squares:
            first, second = np.transpose(self.squares)
            numbers = numbers[:, :, first] * numbers[:, :, second]
        else:
            numbers = numbers[:, :, list(self.kinds)]
        points, functions, kinds = numbers.shape
        if self.mma:
            return self._fragments(numbers)
        if self.rows:
            full = np.zeros((points, self.parts * self.size, kinds))
            full[:, :functions] = numbers
            tiles = full.reshape(points, self.parts, self.size, kinds).transpose(1, 0, 3, 2)
        else:
            full = np.zeros((self.passes * self.parts * self.size, functions, kinds))
            full[:points] = numbers
            tiles = full.reshape(-1, self.size, functions, kinds).transpose(0, 2, 3, 1).reshape(-1, functions, 1, kinds * self.size)
        return np.pad(tiles, [(0, 0)] * 3 + [(0, self.width - tiles.shape[3])]).ravel()

    def _fragments(self, numbers: np.ndarray) -> np.ndarray:
        """The same where items multiply together: (..., 8, 4), points or basis functions of eight parts, and what is summed."""
        points, functions, kinds = numbers.shape
        groups, size = self.parts // 8, self.size
        if self.rows:
            full = np.zeros((padded(points, 4), groups * size * 8, kinds))
            full[:points, :functions] = numbers
            return full.reshape(-1, 4, groups, size, 8, kinds).transpose(2, 0, 5, 3, 4, 1).ravel()
        full = np.zeros((self.passes * self.parts * size, padded(functions, 4), kinds))
        full[:points, :functions] = numbers
        return full.reshape(self.passes, groups, 8, size, -1, 4, kinds).transpose(0, 1, 4, 6, 3, 2, 5).ravel()


def kinds_of(dim: int, value: bool, gradient: bool, hessian: bool) -> tuple[int, ...]:
    """The kinds of a `Tile`; of second derivatives, by k and m, those for k <= m."""
    found = ([0] if value else []) + ([*range(1, dim + 1)] if gradient else [])
    return (*found, *([1 + dim + k * dim + m for k in range(dim) for m in range(k, dim)] if hessian else []))


def squares_of(dim: int, blocks: Collection[str]) -> tuple[tuple[int, int], ...]:
    """The pairs of kinds that a diagonal's blocks multiply, g0 to g3, in the order of `squares.mako`."""
    along = range(1, dim + 1)
    found = [(0, 0)] * ("g0" in blocks) + [(0, k) for k in along if "g1" in blocks or "g2" in blocks]
    return (*found, *((k, m) for k in along for m in range(k, dim + 1) if "g3" in blocks))


def padded(words: int, wide: int) -> int:
    """A number of words, filled up to a multiple."""
    return -(-words // wide) * wide


@dataclass(frozen=True)
class TileTables:
    """What stands in the tables of a cell, of a facet's first or second cell, one after the other.

    Attributes:
        tiles: those of the fields, then those of the rows.
        num_qpts: points of the rule, whose weights come first, but for second cells.
        normal_words: numbers of a facet's reference normal, likewise; 0: there is none.
        map_table: the tabulation whose gradients at the first point give an affine map; -1: none is wanted.
        map_words: numbers of these.
        side: 1 for the second cell of a facet.
    """

    tiles: tuple[Tile, ...]
    num_qpts: int
    normal_words: int
    map_table: int
    map_words: int
    side: int = 0

    @property
    def starts(self) -> dict[str, int]:
        """Where everything begins, by name, and under "" how many words there are."""
        counts = {} if self.side else {"WEIGHTS": self.num_qpts}
        counts |= {"NORMAL": self.normal_words} if self.normal_words and not self.side else {}
        counts |= {"other_MAP" if self.side else "MAP": self.map_words} if self.map_table >= 0 else {}
        counts |= {tile.name: tile.words for tile in self.tiles}
        found, at = {}, 0
        for name, count in counts.items():
            found[name] = at
            at += padded(count, self._wide)
        return found | {"": at}

    @property
    def macros(self) -> list[str]:
        """TILE_<name>: where the numbers of a tile begin."""
        return [f"#define TILE_{name} {at}" for name, at in self.starts.items() if name]

    def pack(
        self, weights: np.ndarray, normal: Sequence[float] | np.ndarray, tabulations: Mapping[int, list[np.ndarray]]
    ) -> np.ndarray:
        """(words,) all of them.

        Args:
            weights: (num_qpts,).
            normal: (normal_words,).
            tabulations: of each table in use, see `pack_tables`, of one facet.
        """
        pieces = [] if self.side else [weights.ravel(), np.ravel(normal)]
        pieces += [tabulations[self.map_table][1].reshape(self.num_qpts, -1)[0]] if self.map_table >= 0 else []
        pieces += [tile.pack(tabulations[tile.table]) for tile in self.tiles]
        return np.concatenate([np.pad(array, (0, padded(len(array), self._wide) - len(array))) for array in pieces])

    @property
    def _wide(self) -> int:
        """Words that an item reads at a time."""
        return max((tile.wide for tile in self.tiles), default=1)
