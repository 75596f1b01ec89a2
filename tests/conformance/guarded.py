"""A runtime whose buffers hold NaN before they are written and guard words behind their ends."""

import os
from dataclasses import dataclass, fields

from femgpu.model import Limits
from femgpu.runtime import Runtime
from femgpu.runtime.device import Device
from femgpu.runtime.guards import POISON, Guards
from femgpu.runtime.guards import poison as fill

__all__ = ["POISON", "Guarded", "Limited", "poison"]


@dataclass(frozen=True)
class Limited(Device):
    """A device with limits of its own.

    Attributes:
        given: the limits.
    """

    given: Limits = Limits()

    @property
    def limits(self):
        return self.given


class Guarded(Runtime):
    """A runtime on the device of another one, which builds its programs; with FEMGPU_TEST_DEBUG=1 kernels watch themselves.

    Args:
        runtime: the other one.
        limits: what plans are told of the device; None: what the device says.
        checks: whether kernels watch themselves; None: as the environment says.

    Attributes:
        given_bytes: bytes of all buffers so far.
    """

    def __init__(self, runtime, limits=None, checks=None):
        given = runtime.device.limits if limits is None else limits
        known = {field.name: getattr(runtime.device, field.name) for field in fields(Device)}
        super().__init__(Limited(**known, given=given), runtime.context)
        self.programs = runtime.programs
        self.guards = Guards()
        self.checks = os.environ.get("FEMGPU_TEST_DEBUG", "0") != "0" if checks is None else checks
        self._watched = []
        self.given_bytes = 0

    def empty(self, num_bytes):
        """A buffer as every runtime's, which is kept until its guard words are looked at."""
        buffer = super().empty(num_bytes)
        self._watched.append(buffer)
        self.given_bytes += -(-max(int(num_bytes), 8) // 4) * 4
        return buffer

    def check_guards(self, keep=False):
        """Asserts that nothing was written behind the end of any buffer, and forgets the buffers unless told to keep them."""
        for buffer in self._watched:
            words = self.guards.damage(self.queue, buffer)
            assert not len(words), f"words {words} behind a buffer of {buffer.size} bytes are written"
        if not keep:
            self._watched.clear()


def poison(runtime, buffer, num_bytes):
    """Fills a buffer with NaN."""
    fill(runtime.queue, buffer, num_bytes)
