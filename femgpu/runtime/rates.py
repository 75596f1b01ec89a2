"""What the device reaches in the same run: copies of a given size, local memory, and launches timed by device events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from femgpu.runtime.launch import Kernel, Launch
from femgpu.runtime.runtime import Runtime

# What a timing takes at least: launches that do not count, launches that do, and seconds of these in sum.
WARMUPS, REPETITIONS, SECONDS = 5, 15, 0.2
_MOST = 10000
# Items of a work-group, numbers in its local memory, reads that are unrolled, and how often all of them are repeated.
_GROUP, _WORDS, _READS, _ROUNDS = 256, 4096, 16, 256
# Items of a group read successive numbers; where the reads begin changes with each round, so that none can be kept in registers.
_LOCAL = f"""
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
__kernel void read_local(__global double *d_out) {{
  __local double s_words[{_WORDS}];  // {8 * _WORDS} bytes
  const int item = (int)get_local_id(0);
  for (int i = item; i < {_WORDS}; i += {_GROUP}) s_words[i] = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  double sum = 0;
  for (int round = 0; round < {_ROUNDS}; ++round) {{
    const int first = (item + 32 * round) & {_WORDS // 2 - 1};
    #pragma unroll
    for (int read = 0; read < {_READS}; ++read) sum += s_words[first + read * {_GROUP // 2}];
  }}
  d_out[get_global_id(0)] = sum;
}}
"""


def launch_seconds(runtime: Runtime, launches: Sequence[Launch]) -> npt.NDArray[np.float64]:
    """Times of launches that belong together, one after the other, in sum; see `WARMUPS`."""
    return _seconds(runtime, [launch.event for launch in launches])


_KNOWN: WeakKeyDictionary[Runtime, float] = WeakKeyDictionary()


def peak_bandwidth(runtime: Runtime) -> float:
    """Bytes read and written per second by a large copy on the device; measured once. NaN where memory is too full for it."""
    if runtime not in _KNOWN:
        device = runtime.device
        size = min(2**30 if device.is_gpu else 2**26, device.max_alloc_bytes // 4, max(0, runtime.available_bytes) // 4)
        if size < 2**20:
            return float("nan")
        source, target = runtime.empty(size), runtime.empty(size)
        runtime.zero(source, size)
        runtime.zero(target, size)
        times = []
        for _ in range(8):
            runtime.finish()
            start = time.perf_counter()
            runtime.copy(source, target, size)
            runtime.finish()
            times.append(time.perf_counter() - start)
        _KNOWN[runtime] = 2 * size / min(times)
    return _KNOWN[runtime]


def copy_bandwidth(runtime: Runtime, num_bytes: float) -> float:
    """Bytes per second, read and written, of a copy that moves so many in sum (paper 000: B_gl of equation (12)), the median."""
    size = max(8, round(num_bytes / 2))
    source, target = runtime.empty(size), runtime.empty(size)
    runtime.zero(source, size)

    def copy() -> cl.Event:  # to a queue that records times is changed later
        return cl.enqueue_copy(runtime.queue, target, source, byte_count=size)

    return 2 * size / float(np.median(_seconds(runtime, [copy])))


def host_bandwidths(runtime: Runtime, num_bytes: int) -> tuple[float, float]:
    """Bytes per second of copies from pinned host memory to the device, and back."""
    host, buffer = runtime.pinned(num_bytes // 8), runtime.empty(num_bytes)
    host[:] = 0
    there = _seconds(runtime, [lambda: cl.enqueue_copy(runtime.queue, buffer, host, is_blocking=False)])
    back = _seconds(runtime, [lambda: runtime.read_later(buffer, host)])
    return num_bytes / float(np.median(there)), num_bytes / float(np.median(back))


def local_bandwidth(runtime: Runtime) -> float:
    """Bytes per second that all work-groups read from local memory (paper 000: B_sh of equation (13)), the best."""
    items = _GROUP * 16 * max(1, runtime.device.units) if runtime.device.is_gpu else _GROUP * 4
    out = runtime.empty(8 * items)
    kernel = Kernel(runtime, _LOCAL, "read_local", [out], items, _GROUP)
    return 8.0 * items * _READS * _ROUNDS / kernel.least_seconds(REPETITIONS)


def _seconds(runtime: Runtime, commands: Sequence[Callable[[], Any]]) -> npt.NDArray[np.float64]:
    times: list[float] = []
    with runtime.profiled():
        runtime.finish()
        for number in range(WARMUPS + _MOST):
            taken = sum(runtime.seconds(command) for command in commands)
            if number >= WARMUPS:
                times.append(taken)
            if len(times) >= REPETITIONS and sum(times) >= SECONDS:
                break
    return np.array(times)
