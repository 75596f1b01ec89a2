"""Device memory, or the reason why there is none."""

from __future__ import annotations

import pyopencl as cl

from femgpu.errors import DeviceError
from femgpu.runtime.device import Device


class Buffer(cl.Buffer):  # type: ignore[misc]
    """A buffer that may be referred to weakly.

    Attributes:
        asked: bytes that it was asked for with, where guard words stand behind; None: it has none.
    """

    asked: int | None = None

    @property
    def size(self) -> int:
        """Bytes, guard words not counted."""
        return int(super().size) if self.asked is None else self.asked


def allocate(context: cl.Context, device: Device, num_bytes: int, held: int) -> Buffer:
    """A new buffer.

    Args:
        context: the OpenCL context.
        device: its device.
        num_bytes: of the buffer.
        held: bytes that this process has on the device.

    Raises:
        DeviceError: when the device lacks the memory; nothing is allocated then.
    """
    available = device.global_bytes - held
    if num_bytes > min(available, device.max_alloc_bytes):
        raise DeviceError(
            f"not enough device memory: {num_bytes} bytes needed in one buffer; {available} of {device.global_bytes} "
            f"bytes are free and one buffer may have {device.max_alloc_bytes}. Use more ranks and devices, or a "
            "smaller mesh"
        )
    try:
        return Buffer(context, cl.mem_flags.READ_WRITE, num_bytes)
    except cl.Error as error:
        raise DeviceError(
            f"the driver of {device} refuses a buffer of {num_bytes} bytes ({error}); this process holds "
            f"{held} bytes, the rest may belong to other processes. Use more ranks and devices, or a "
            "smaller mesh"
        ) from None
