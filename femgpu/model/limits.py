"""What a device allows and likes, as plain numbers: plans ask here, never for the kind of the device."""

from __future__ import annotations

from dataclasses import dataclass

from femgpu.model.ceilings import CPU, Ceiling


@dataclass(frozen=True)
class Limits:
    """Limits and wishes of one device.

    Attributes:
        items: largest work-group.
        local_bytes: local memory of a work-group.
        stack_bytes: private arrays of all items of a work-group, where these stand on a thread's stack; 0: no limit.
        atomics: how a kernel adds to global memory: `ptx` instructions, or `cas` loops of compare and exchange.
        native_atomics: whether adding to double precision numbers in global memory is fast.
        in_order: whether work-groups start in the order of their numbers, so that some may wait for others with lower ones.
        mma: rows of tables that the tensor core takes at a time in double precision, 8 or 16; 0: none.
        unroll: instructions of a point up to which its loops over basis functions are unrolled, which bounds the time to build a
            kernel; 0: none is.
        registers: of a work-group, where compilers can be held to a number for each item; 0: they cannot.
        tile: numbers of a result that an item accumulates in registers.
        block: cells whose words are interleaved in arrays that neighbouring items read; 1: each cell's words together.
        lanes: cells that an item has side by side in vectors, in double precision.
        group: items that a work-group has where nothing else rules.
        ceiling: what the device reaches at most.
    """

    items: int = 1024
    local_bytes: int = 32768
    stack_bytes: int = 0
    atomics: str = "cas"
    native_atomics: bool = False
    in_order: bool = False
    mma: int = 0
    unroll: int = 0
    registers: int = 0
    tile: int = 32
    block: int = 1
    lanes: int = 1
    group: int = 64
    ceiling: Ceiling = CPU

    def abreast(self, private_bytes: int) -> int:
        """Most items of a work-group, by what each of them keeps; at least 1. A larger group would end the process.

        Args:
            private_bytes: of an item.
        """
        return max(1, min(self.items, self.stack_bytes // private_bytes)) if self.stack_bytes else self.items

    def holds(self, items: int, registers: int) -> bool:
        """Whether a work-group has that many registers for each of its items, which get them in eights, 32 at a time.

        Args:
            items: of a work-group.
            registers: of an item at most; 0: as many as compilers like, who see to it.
        """
        return -(-items // 32) * 32 * -(-registers // 8) * 8 <= self.registers
