"""What the device reaches in the same run: copies of a given size, local memory, and launches that follow each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from femgpu.errors import DeviceError
from femgpu.runtime.calls import Command
from femgpu.runtime.launch import Kernel, Launch
from femgpu.runtime.runtime import Runtime

# What a timing takes at least: launches or batches that do not count, those that do, and seconds of these.
WARMUPS, REPETITIONS, SECONDS = 5, 15, 0.2
# Launches that are waited for at most.
_MOST = 10000
# Groups of commands in a batch on a GPU at most, and about how long a batch of fewer takes.
_GROUPS, _BATCH_SECONDS = 20, 4e-3
# Rounds of the kernel that holds the queue, each of a multiplication that waits for the one before: about half a millisecond; and
# how often it is launched at most.
_HOLD_ROUNDS, _MOST_HOLDS = 500_000, 64
_HOLD = """
__kernel void hold(const int rounds, __global uint *d_out) {
  uint x = (uint)rounds;
  for (int i = 0; i < rounds; ++i) x = x * 1664525u + (uint)i;
  d_out[get_global_id(0)] = x;
}
"""
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


def launch_seconds(runtime: Runtime, launches: Sequence[Launch | Command], seconds: float = SECONDS) -> npt.NDArray[np.float64]:
    """Times that launches which belong together take of the device, as one group of many that follow each other.

    By an event of its own a kernel without work takes 6 us on an H100, one of many that wait in the queue 2 us. So, on a GPU, a
    kernel holds the queue until a batch of groups stands in it; from that kernel's end to that of the last launch is the batch's
    time. On a CPU each launch is waited for, and the times of their events are added. Kernels that watch themselves (-femgpu_debug)
    are timed with what that takes, and not looked after.

    Args:
        runtime: the device.
        launches: the group.
        seconds: that launches take at least, on a GPU with their holds, after `WARMUPS`; and `REPETITIONS` in any case.

    Returns:
        (batches,) seconds of a group; a single zero of an empty one.

    Raises:
        DeviceError: when the host is too slow to fill the queue.
    """
    if not launches:
        return np.zeros(1)
    events = [launch.event for launch in launches]
    if not runtime.device.is_gpu:
        return _seconds(runtime, events, seconds)
    with runtime.profiled():
        runtime.finish()
        batches = _Batches(runtime, launches, sum(runtime.seconds(event) for event in events))
        for _ in range(WARMUPS):
            batches.seconds()
        times, start = list[float](), time.perf_counter()
        while len(times) < REPETITIONS or time.perf_counter() - start < seconds:
            times.append(batches.seconds())
    return np.array(times)


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
        _KNOWN[runtime] = 2 * size / float(_seconds(runtime, [_copy(runtime, source, target, size).event], 0.0).min())
    return _KNOWN[runtime]


def copy_bandwidth(runtime: Runtime, num_bytes: float) -> float:
    """Bytes per second, read and written, of a copy that moves so many in sum (paper 000: B_gl of equation (12)), the median."""
    size = max(8, round(num_bytes / 2))
    source, target = runtime.empty(size), runtime.empty(size)
    runtime.zero(source, size)
    return 2 * size / float(np.median(launch_seconds(runtime, [_copy(runtime, source, target, size)])))


def _copy(runtime: Runtime, source: Any, target: Any, size: int) -> Command:
    enqueue = partial(runtime.copy, source, target, size)
    return Command(enqueue, lambda: cl.enqueue_copy(runtime.queue, target, source, byte_count=size))


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


def _seconds(runtime: Runtime, commands: Sequence[Callable[[], cl.Event]], seconds: float = SECONDS) -> npt.NDArray[np.float64]:
    """Times of commands that are waited for one by one, in sum."""
    times: list[float] = []
    with runtime.profiled():
        runtime.finish()
        for number in range(WARMUPS + _MOST):
            taken = sum(runtime.seconds(command) for command in commands)
            if number >= WARMUPS:
                times.append(taken)
            if len(times) >= REPETITIONS and sum(times) >= seconds:
                break
    return np.array(times)


class _Batches:
    """Groups of launches that follow each other on a queue that records times.

    Args:
        runtime: the device.
        launches: of a group.
        one: seconds of a group, about.

    Attributes:
        groups: of a batch.
        holds: launches of the kernel that holds the queue.
    """

    def __init__(self, runtime: Runtime, launches: Sequence[Launch | Command], one: float):
        self.groups = max(1, min(_GROUPS, int(_BATCH_SECONDS / max(one, 1e-9))))
        self.holds = 1
        self._runtime, self._launches = runtime, [*launches] * self.groups
        self._hold = Kernel(runtime, _HOLD, "hold", [np.int32(_HOLD_ROUNDS), runtime.empty(4)], 1, 1).build()

    def seconds(self) -> float:
        """Of a group in one more batch; the queue is held twice as long as before where the host was too slow to fill it."""
        *before, last = self._launches
        while True:
            for _ in range(self.holds):
                held = self._hold.event()
            self._runtime.queue.flush()
            # Some devices finish here what they are given: nothing holds their queue.
            waits = not _done(held)
            # With an event for each the device would stop after each.
            for launch in before:
                launch.enqueue()
            end = last.event()
            late = waits and _done(held)
            end.wait()
            if not late:
                return 1e-9 * (end.profile.end - held.profile.end) / self.groups
            if self.holds == _MOST_HOLDS:
                raise DeviceError(f"the host takes longer to hand over {len(self._launches)} launches than the device can be held")
            self.holds *= 2


def _done(event: cl.Event) -> bool:
    return bool(event.command_execution_status == cl.command_execution_status.COMPLETE)
