"""Tabulations cut into tiles: what an item reads for its points of a field, or for its rows of a test function, in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from femgpu.kernels.work import Work


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


def starts(tiles: tuple[Tile, ...], map_table: int, num_qpts: int, map_words: int) -> dict[str, int]:
    """Where weights, an affine map's gradients and the tiles begin, and under "" how many words there are."""
    wide, found, at = tiles[0].wide, {}, 0
    counts = {"WEIGHTS": num_qpts} | ({"MAP": map_words} if map_table >= 0 else {}) | {tile.name: tile.words for tile in tiles}
    for name, count in counts.items():
        found[name] = at
        at += padded(count, wide)
    return found | {"": at}


def pack_tiles(
    tiles: tuple[Tile, ...], map_table: int, weights: np.ndarray, tabulations: Mapping[int, list[np.ndarray]]
) -> np.ndarray:
    """Weights, gradients of the coordinates' basis at the first point where `map_table` is one, tiles, in one array.

    Args:
        tiles: in the order of their macros.
        map_table: number of a tabulation, or -1.
        weights: (num_qpts,).
        tabulations: of each table in use, see `pack_tables`.
    """
    maps = [tabulations[map_table][1].reshape(tiles[0].num_qpts, -1)[0]] if map_table >= 0 else []
    pieces = [weights.ravel(), *maps, *(tile.pack(tabulations[tile.table]) for tile in tiles)]
    return np.concatenate([np.pad(array, (0, padded(len(array), tiles[0].wide) - len(array))) for array in pieces])


def tile_text(tiles: tuple[Tile, ...], map_table: int, work: Work, space: str) -> str:
    """Macros TILE_<name>: where the numbers of a tile begin in d_tables."""
    places = starts(tiles, map_table, work.num_qpts, work.num_coord_basis * work.dim)
    return "\n".join([f"#define TABLE {space}", *(f"#define TILE_{name} {at}" for name, at in places.items() if name)])
