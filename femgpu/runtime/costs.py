"""What commands cost on the host: the time to hand them over, whatever the device then does."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count, cycle
from typing import Any

import numpy as np
import pyopencl as cl

from femgpu.runtime.launch import Kernel
from femgpu.runtime.runtime import Runtime
from femgpu.runtime.scalars import Scalars

_SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
__kernel void nothing(const int count, const double a, __global const double *x, __global double *y) {
  if ((int)get_global_id(0) < count) y[get_global_id(0)] = a * x[get_global_id(0)];
}
"""
_SIZE = 64
_BYTES = 8 * _SIZE


def host_seconds(runtime: Runtime, call: Callable[[], Any], num_calls: int = 200, repetitions: int = 30) -> float:
    """Host time of a call on the runtime's queue as it is, records of times included where it makes them.

    Args:
        runtime: the device.
        call: hands commands over.
        num_calls: calls before the queue is emptied.
        repetitions: of which the fastest counts; one more comes before them.

    Returns:
        Seconds per call.
    """
    times = []
    for _ in range(repetitions + 1):
        runtime.finish()
        start = time.perf_counter()
        for _ in range(num_calls):
            call()
        times.append(time.perf_counter() - start)
    runtime.finish()
    return min(times[1:]) / num_calls


def commands(runtime: Runtime) -> dict[str, Callable[[], Any]]:
    """Launches, arguments and copies, by what is called."""
    x, y = runtime.upload(np.ones(_SIZE)), runtime.upload(np.ones(_SIZE))
    # The object that refers to buffers is made anew at each call where PETSc hands over the same handles again and again.
    handles, number = cycle([(x.int_ptr, y.int_ptr), (y.int_ptr, x.int_ptr)]), np.zeros(1)
    pairs, values = cycle([{2: x, 3: y}, {2: y, 3: x}]), (np.float64(value) for value in count())
    kernel = Kernel(runtime, _SOURCE, "nothing", [np.int32(_SIZE), np.float64(1), x, y], _SIZE, _SIZE)
    plain = cl.Kernel(runtime.build(_SOURCE, "nothing"), "nothing")
    plain.set_args(*kernel.arguments)
    scalars, sizes = Scalars(runtime, 1), count(1)

    def set_and_launch() -> None:
        for index, buffer in next(pairs).items():
            kernel.set(index, buffer)
        kernel()

    def wrap_and_launch() -> None:
        source, target = map(runtime.wrap, next(handles))
        kernel.bound({2: source, 3: target})()

    return {
        "launch by pyopencl": lambda: cl.enqueue_nd_range_kernel(runtime.queue, plain, (_SIZE,), (_SIZE,)),
        "launch by the driver's function": runtime.calls.launch(plain, _SIZE, _SIZE),
        "Kernel()": kernel,
        "Launch()": kernel.bound({2: y, 3: x}),
        "Kernel.bound()() of known buffers": lambda: kernel.bound(next(pairs))(),
        "the same, both wrapped anew": wrap_and_launch,
        "Kernel.set() twice, Kernel()": set_and_launch,
        "Kernel.bound(), known": lambda: kernel.bound({2: y, 3: x}),
        "Kernel.bound(), new": lambda: kernel.bound({2: x}, _SIZE * next(sizes)),
        "set a double by pyopencl": lambda: plain.set_arg(1, next(values)),
        "set a double": lambda: runtime.calls.set_argument(plain, 1, next(values)),
        "set a buffer": lambda: runtime.calls.set_argument(plain, 2, x),
        "Scalars.set": lambda: scalars.set(next(values)),
        "fill": lambda: runtime.zero(y, _BYTES),
        "copy": lambda: runtime.copy(x, y, _BYTES),
        "read 8 bytes": lambda: runtime.read(x, number),
        "write 8 bytes": lambda: runtime.write(x, number),
    }
