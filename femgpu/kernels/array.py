"""The arguments of kernels: what each array is, and where its entries stand, in OpenCL C and in numpy alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from femgpu.errors import PlanError

ORDERS = ("cell", "block")
# Bytes of the types that entries may have.
CTYPE_BYTES = {"float": 4, "double": 8, "int": 4, "int4": 16, "float4": 16, "uint": 4, "ushort": 2, "uchar": 1}
# C types of numbers in arithmetic, in vectors, and in sums over points; `double` and `int` stand for themselves.
TYPES = {"double": ("double",) * 3, "single": ("float",) * 3, "mixed": ("float", "double", "double")}
# Slots that an action's direction times result is summed into, and numbers of their buffer: the last two's quotient scales both.
DOT_SLOTS, DOT_WORDS = 1024, 1026


@dataclass(frozen=True)
class Layout:
    """Where word i of a cell stands in an array with the same number of words for each cell.

    The only place that knows. No layout depends on how many cells there are, so that a launch over some of the cells finds the
    words of each, and one program serves every mesh.

    Attributes:
        order: `cell`: the words of a cell follow each other, as a CPU reads them; `block`: in blocks of cells, word 0 of all the
            block's cells, then word 1 and so on, as neighbouring items of a GPU read them.
        block: cells of a block.
        together: words that stay side by side in either order: the components of a node.
        lattice: basis functions or points are counted in the order of the tensor product, not of the element.
        plane: in order `cell`, points of whose words, `together` for each, first ones stand first, then second ones and so on, as
            kernels count them (`arguments.state_word`); 0: those of a point stand together.
    """

    order: str = "cell"
    block: int = 1
    together: int = 1
    lattice: bool = False
    plane: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise PlanError(f"layout {self.order!r}: expected one of {', '.join(ORDERS)}")
        if self.block < 1 or (self.order == "cell" and self.block != 1):
            raise PlanError(f"layout {self.order} with blocks of {self.block} cells: expected at least 1, and 1 in order cell")

    def macro(self, name: str, words: int, chunk: bool = False) -> str:
        """The definition of `name(cell, i)`, the position of word i of a cell.

        Args:
            name: of the macro.
            words: words per cell.
            chunk: cells are counted from the first of the launch.
        """
        word, cell = "(i)", "((cell) - first)" if chunk else "(cell)"
        if self.order == "block" and words > self.together:
            # Unsigned numbers divide by fewer instructions.
            block, together, cell = self.block, self.together, f"(uint){cell}"
            first = f"(size_t)({cell} / {block}) * {block * words}"
            if together == 1:
                position = f"{first} + {word} * {block} + {cell} % {block}"
            else:
                group = f"({word} / {together} * {block} + {cell} % {block}) * {together}"
                position = f"{first} + {group} + {word} % {together}"
        else:
            position = f"(size_t){cell} * {words} + {word}"
        return f"#define {name}(cell, i) ({position})"

    def size(self, num_cells: int, words: int) -> int:
        """Words of the whole array, the last block filled up."""
        return -(-num_cells // self.block) * self.block * words

    def positions(self, num_cells: int, words: int) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
        """(num_cells, words) where each word stands, 32 bit wide where that is enough; the twin of `macro`."""
        size = self.size(num_cells, words)
        return self.unpack(np.arange(size, dtype=np.int32 if size < 2**31 else np.int64), num_cells, words)

    def pack(self, array: np.ndarray, permutation: npt.NDArray[np.int32] | None = None) -> np.ndarray:
        """An array (num_cells, words) as the kernels read it, (size,); what fills up the last block is zero.

        Args:
            array: the words in the order of the element.
            permutation: for layouts with `lattice`, the node or point that stands at each place of the tensor product; all of its
                words move together.
        """
        if self.lattice and permutation is not None:
            groups = array.reshape(len(array), len(permutation), array.shape[1] // len(permutation))
            array = groups[:, permutation].reshape(array.shape)
        num_cells, words = array.shape
        if self.plane:
            array = array.reshape(num_cells, words // (self.plane * self.together), self.plane, self.together).swapaxes(2, 3)
        if self.order == "cell":
            return np.ascontiguousarray(array).reshape(-1)
        count, together = words // self.together, self.together
        packed = np.empty((-(-num_cells // self.block), count, self.block, together), array.dtype)
        full, rest = divmod(num_cells, self.block)
        packed[:full] = array[: full * self.block].reshape(full, self.block, count, together).swapaxes(1, 2)
        if rest:
            packed[full, :, rest:] = 0
            packed[full, :, :rest] = array[full * self.block :].reshape(rest, count, together).swapaxes(0, 1)
        return packed.reshape(-1)

    def unpack(self, flat: np.ndarray, num_cells: int, words: int, permutation: npt.NDArray[np.int32] | None = None) -> np.ndarray:
        """The way back: (num_cells, words), in the order of the element where the permutation is given."""
        if self.order == "cell":
            array = flat.reshape(num_cells, words)
            if self.plane:
                split = array.reshape(num_cells, words // (self.plane * self.together), self.together, self.plane)
                array = split.swapaxes(2, 3).reshape(num_cells, words)
        else:
            split = flat.reshape(-1, words // self.together, self.block, self.together)
            array = split.swapaxes(1, 2).reshape(-1, words)[:num_cells]
        if self.lattice and permutation is not None:
            groups = array.reshape(num_cells, len(permutation), words // len(permutation))
            array = groups[:, np.argsort(permutation)].reshape(num_cells, words)
        return array


@dataclass(frozen=True)
class Array:
    """One argument of a kernel, or one array in its local memory.

    Attributes:
        name: of the argument.
        ctype: `real`, `scalar`, `accum`, `double`, `int`, `int4`, `float4`, `uint`, `ushort` or `uchar`.
        role: what it holds: ("vector", "w") an L-vector, ("entries", "w") each cell's own coefficients, ("offsets", "w", masked),
            ("cell_offsets", "a0", False) the same of what has one node per cell, or null where these are in the order of the cells,
            ("geometry",), ("coords",), ("coord_offsets",), ("facets",), ("other", "facets") and so on of second cells of facets,
            ("constants",), ("tables", "full", side), ("prescribed",),
            ("list", "places", "test0", masked) and other parts of a `NodeList`, ("local",) local memory for lists,
            ("state",), ("cell_state",), ("work", 0), ("out",) an L-vector, ("dots",) `DOT_WORDS` shares
            of direction times result, or null, ("lines",) parts of 1D matrices, by value, ("fragments", products) numbers of 1D
            matrices as items of matrix instructions hold them, ("stores",) anything where results inside of cells are to be stored,
            or null, ("zeroing",) how many work-groups zero the result, by value, ("num_zeros",) how many entries, likewise,
            ("zeros",) what they tell others, or null, ("out", 0) entries of the first field's rows; of a sparse matrix ("cells",)
            the cells' numbers in their block, or null for all, ("parts", 0) the part of the cell that each node of the first field
            is on, ("places", 0, 1) `Pattern.places`, ("dofs",) `Pattern.dofs`, ("values",) its values.
        words: words per cell that a kernel touches.
        layout: where they stand; None for arrays that are not cell by cell.
        moves: how often each word passes: 2 where it is added to in place, 0 where another argument has brought it already.
        written: whether the kernel writes it.
        chunk: it has room for the cells of one launch only, from its first on.
    """

    name: str
    ctype: str
    role: tuple
    words: int = 0
    layout: Layout | None = None
    moves: int = 1
    written: bool = False
    chunk: bool = False

    @property
    def macro(self) -> str:
        """The definition of `AT_<name>(cell, i)`; empty for arrays that are not cell by cell."""
        return "" if self.layout is None else self.layout.macro(f"AT_{self.name}", self.words, self.chunk)

    @property
    def declaration(self) -> str:
        """The argument in the kernel's signature."""
        if self.role == ("lines",):
            return f"const parts {self.name}"
        if self.role[0] in ("zeroing", "num_zeros"):
            return f"const uint {self.name}"
        if self.role[:2] == ("list", "slices"):
            return f"const int {self.name}"
        if self.role == ("local",):
            return f"__local {self.ctype} *{self.name}"
        return f"__global {'' if self.written else 'const '}{self.ctype} *restrict {self.name}"
