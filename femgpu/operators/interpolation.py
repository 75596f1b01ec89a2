"""Functions of a coarse space in a finer one, and the transpose, on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import PlanError
from femgpu.kernels import interpolation_kernels, nesting_kernels, vector_kernels
from femgpu.operators.sums import transpose
from femgpu.runtime import Device, Kernel, Runtime
from femgpu.spaces import NestedCells

# A row of a T-vector that is not this rank's.
ABSENT = np.int32(-(2**31))
_MOST = 2**31 - 1
_GROUP_SIZE = 64
# Fine nodes of a work-group, about, and items that share them; on a CPU components of cells, and one item.
_NODES, _ITEMS, _COLUMNS = 1024, 128, 8
# Positions of the vectors among the arguments of `prolong` and `add_transposed`, and of the result of `gather_sum`.
_COARSE, _FINE, _SUM = 6, 7, 7
_NUMPY = {"double": np.float64, "float": np.float32}
_PRECISIONS = {"double": "double", "float": "single"}


class Nesting:
    """Nested spaces on the device: which cell gives each node its value, and what that depends on.

    Args:
        runtime: the device.
        parts: the cells of all types for all fields.
        coarse: length of the coarse L-vectors.
        fine: of the fine ones.

    Attributes:
        runtime: the device.
        parts: the cells of all types for all fields.

    Raises:
        PlanError: where there are more nodes of cells than 32-bit indices reach.
    """

    def __init__(self, runtime: Runtime, parts: Sequence[NestedCells], coarse: int, fine: int):
        self.runtime, self.parts, self._sizes = runtime, parts, (coarse, fine)
        total = sum(len(part.fine_nodes) * max(len(part.fine_order), part.fine_nodes.shape[1]) for part in parts)
        if total > _MOST:
            raise PlanError(f"a level of multigrid has {total} nodes of cells; 32-bit indices reach {_MOST}: use more ranks")
        self._claims, first = runtime.empty(4 * fine), 0
        runtime.zero(self._claims, 4 * fine)
        self._fine, self._coarse = [], []
        for part in parts:
            self._fine.append(self._places(part.fine_nodes, part.fine_order, first))
            self._coarse.append(self._places(part.coarse_nodes, part.coarse_order, 0))
            first += int(self._fine[-1][0])
            *given, number = self._fine[-1]
            Kernel(runtime, nesting_kernels(), "claim", [*given, number, self._claims], int(given[0]), _GROUP_SIZE)()

    def build_ahead(self, ctype: str, atomic: bool) -> None:
        """Starts to build the programs of an `Interpolation` between vectors of one type."""
        types, device = (ctype, ctype), self.runtime.device
        self.runtime.build_ahead([(program(device, part, types, atomic), "prolong") for part in self.parts])

    def reached(self, marked: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """(coarse,) 1 at the coarse dofs whose functions do not vanish at marked (fine,) ones, in this rank's cells."""
        runtime, (coarse, _) = self.runtime, self._sizes
        marks, found = runtime.upload(marked), runtime.upload(np.zeros(coarse, np.uint8))
        for part, fine, own in zip(self.parts, self._fine, self._coarse, strict=True):
            table = runtime.upload((part.values != 0).astype(np.uint8))
            given = [*fine[:-1], *own[1:-1], np.int32(part.num_comp), table, marks, found]
            Kernel(runtime, nesting_kernels(), "reach", given, int(fine[0]), _GROUP_SIZE)()
        return runtime.read(found, np.empty(coarse, np.uint8))

    def fine_nodes(self, number: int, codes: Any) -> Any:
        """What a buffer says of a part's fine nodes, (num_cells, nodes) by the lattice; `ABSENT` at nodes that another cell has."""
        return self._take(self._fine[number], self._claims, codes)

    def coarse_nodes(self, number: int, codes: Any) -> Any:
        """The same of the coarse nodes, which no cell has to itself."""
        return self._take(self._coarse[number], None, codes)

    def _take(self, places: list[Any], claims: Any, codes: Any) -> Any:
        found = self.runtime.empty(4 * int(places[0]))
        Kernel(self.runtime, nesting_kernels(), "take_codes", [*places, claims, codes, found], int(places[0]), _GROUP_SIZE)()
        return found

    def _places(self, nodes: npt.NDArray[np.int32], order: npt.NDArray[np.int32], first: int) -> list[Any]:
        """Arguments of the kernels: how many there are, and where."""
        upload = self.runtime.upload
        sizes = map(np.int32, (len(nodes) * len(order), len(order), nodes.shape[1]))
        return [*sizes, upload(order), self.runtime.upload_once(nodes), np.int32(first)]


class Interpolation:
    """Coarse functions in the finer space, and the transpose, between device buffers.

    Args:
        nesting: of the spaces.
        rows: (fine,) int32 where each dof of the fine L-vector stands in the fine vectors: t; ~t where it is prescribed, and
            functions are zero; `ABSENT` where it is not in them.
        prescribed: (coarse,) uint8 which coarse dofs count as zero.
        types: C types of the fine and of the coarse vectors.
        atomic: whether cells add into coarse vectors by atomic operations; else their shares are summed in a fixed order.

    Raises:
        PlanError: where the nodes of a cell do not fit into local memory.
    """

    def __init__(
        self,
        nesting: Nesting,
        rows: npt.NDArray[np.int32],
        prescribed: npt.NDArray[np.uint8],
        types: tuple[str, str],
        atomic: bool,
    ):
        self._runtime = runtime = nesting.runtime
        fine, coarse = types
        self._num_bytes = np.dtype(_NUMPY[coarse]).itemsize * len(prescribed)
        mask, placeholder, parts = runtime.upload(prescribed), runtime.empty(8), nesting.parts
        self._up, self._down, self._sums = list[Kernel](), list[Kernel](), list[Kernel]()
        firsts = np.cumsum([0, *(part.coarse_nodes.size * part.num_comp for part in parts)])
        self._entries = placeholder
        if not atomic:
            self._entries = runtime.empty(np.dtype(_NUMPY[coarse]).itemsize * int(firsts[-1]))
            if firsts[-1] > _MOST:
                raise PlanError(f"{firsts[-1]} shares of cells exceed 32-bit indices; use more ranks or -femgpu_scatter atomic")
        for num_comp in dict.fromkeys(part.num_comp for part in parts):
            codes, places = runtime.upload(_fine_codes(rows, num_comp)), _coarse_codes(prescribed, num_comp)
            coarse_codes, more = runtime.upload(places), runtime.upload(rows) if num_comp > 1 else placeholder
            numbers = [number for number, part in enumerate(parts) if part.num_comp == num_comp]
            for number in numbers:
                part, count = parts[number], len(parts[number].coarse_nodes) * num_comp
                items, columns = _group(runtime.device, part, np.dtype(_NUMPY[fine]).itemsize)
                source = program(runtime.device, part, types, atomic)
                nodes = nesting.coarse_nodes(number, coarse_codes), nesting.fine_nodes(number, codes)
                given = [
                    np.int32(count),
                    *nodes,
                    mask,
                    more,
                    runtime.upload(part.table.astype(_NUMPY[fine])),
                    placeholder,
                    placeholder,
                ]
                size = -(-count // columns) * items
                self._up.append(Kernel(runtime, source, "prolong", given, size, items))
                given = [*given, np.int32(0 if atomic else firsts[number])]
                self._down.append(Kernel(runtime, source, "add_transposed", given, size, items))
            if not atomic:
                lists = [
                    (parts[number].coarse_nodes.ravel(), firsts[number] + num_comp * _lattice_entries(parts[number]))
                    for number in numbers
                ]
                dofs, entries = (np.concatenate(pair) for pair in zip(*lists, strict=True))
                found, starts, order = transpose(dofs)
                buffers = map(runtime.upload, (places[found], starts, entries[order].astype(np.int32)))
                given = [np.int32(len(found)), np.int32(num_comp), *buffers, mask, self._entries, placeholder, np.int32(1)]
                source = vector_kernels(_PRECISIONS[coarse], coarse)
                self._sums.append(Kernel(runtime, source, "gather_sum", given, len(found) * num_comp, _GROUP_SIZE))
        runtime.finish()

    def bind_prolong(self, coarse: Any, fine: Any) -> list[Callable[[], None]]:
        """What makes the fine vector the coarse function."""
        return [kernel.bound({_COARSE: coarse, _FINE: fine}) for kernel in self._up]

    def bind_restrict(self, fine: Any, coarse: Any) -> list[Callable[[], None]]:
        """What makes the coarse vector the transpose times the fine one, zero where it is prescribed."""
        shares = self._entries if self._sums else coarse
        adds = [kernel.bound({_COARSE: shares, _FINE: fine}) for kernel in self._down]
        sums = [kernel.bound({_SUM: coarse}) for kernel in self._sums]
        return [partial(self._runtime.zero, coarse, self._num_bytes), *adds, *sums]


def program(device: Device, part: NestedCells, types: tuple[str, str], atomic: bool) -> str:
    """The program for some cells; arguments as of `Interpolation`."""
    group = _group(device, part, np.dtype(_NUMPY[types[0]]).itemsize)
    return interpolation_kernels(part.shape, part.num_comp, types, group, device.limits.atomics if atomic else "")


def _group(device: Device, part: NestedCells, itemsize: int) -> tuple[int, int]:
    """Items of a work-group, and the components of cells that they share."""
    dim, fine, coarse = part.shape
    words = fine**dim + max(fine ** (dim - 1) * coarse if dim > 1 else 1, coarse**dim)
    most = device.limits.local_bytes // (itemsize * words)
    if most < 1:
        raise PlanError(
            f"to interpolate between {coarse**dim} and {fine**dim} nodes of a cell takes {itemsize * words} bytes of local memory; "
            f"the device has {device.limits.local_bytes}: take a lower degree, or -pc_femgpu_pmg_precision single"
        )
    if not device.is_gpu:
        return 1, min(_COLUMNS, most)
    columns = max(1, min(_NODES // fine**dim, most))
    return min(_ITEMS, device.limits.items), 1 << (columns.bit_length() - 1)


def _fine_codes(rows: npt.NDArray[np.int32], num_comp: int) -> npt.NDArray[np.int32]:
    """What stands for the node whose component 0 each dof is, as `interpolate.cl` says."""
    if num_comp == 1:
        return rows
    first = rows[: max(len(rows) - num_comp + 1, 0)]
    plain, absent = first >= 0, first == ABSENT
    for component in range(1, num_comp):
        other = rows[component : component + len(first)]
        plain &= other == first + np.int32(component)
        absent &= other == ABSENT
    return np.where(plain, first, np.where(absent, ABSENT, ~np.arange(len(first), dtype=np.int32)))


def _coarse_codes(prescribed: npt.NDArray[np.uint8], num_comp: int) -> npt.NDArray[np.int32]:
    """Offsets of the nodes whose component 0 each dof is, ~offset where a component is prescribed."""
    first = np.arange(max(len(prescribed) - num_comp + 1, 0), dtype=np.int32)
    marked = np.zeros(len(first), bool)
    for component in range(num_comp):
        marked |= prescribed[component : component + len(first)] != 0
    return np.invert(first, out=first, where=marked)


def _lattice_entries(part: NestedCells) -> npt.NDArray[np.int64]:
    """(coarse_nodes.size,) where the entry of each node stands among those of all cells."""
    count = part.coarse_nodes.shape[1]
    places = np.argsort(part.coarse_order)
    return (count * np.arange(len(part.coarse_nodes))[:, None] + places).ravel()
