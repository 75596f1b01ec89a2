"""A kernel that shows whether a device and its compiler work: built anew, run, and compared with numpy."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from femgpu.errors import BuildError, DeviceError
from femgpu.runtime.program import OPTIONS
from femgpu.runtime.runtime import Runtime

_GROUP = 64
_SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
// y = a x + y; every pair of items exchanges its sums through local memory
__kernel void axpy(const int n, const double a, __global const double *x, __global double *y) {
  __local double s_sum[64];
  const int i = (int)get_global_id(0), item = (int)get_local_id(0);
  s_sum[item] = i < n ? fma(a, x[i], y[i]) : 0.0;
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if ((i ^ 1) < n) y[i ^ 1] = s_sum[item ^ 1];
}
"""


def self_test(runtime: Runtime, num_entries: int = 1000) -> float:
    """Builds and runs a kernel in double precision with local memory and a barrier.

    Args:
        runtime: the device.
        num_entries: length of the vectors.

    Returns:
        The largest relative difference to numpy.

    Raises:
        BuildError: when the compiler fails.
        DeviceError: when the result is wrong.
    """
    x, y = np.linspace(-1, 2, num_entries), np.linspace(3, 1, num_entries)
    device_x, device_y = runtime.upload(x), runtime.upload(y)
    try:
        # Not through the cache: the compiler is to show that it works.
        program = cl.Program(runtime.context, _SOURCE).build(options=list(OPTIONS), cache_dir=False)
    except cl.Error as failure:
        raise BuildError(f"the compiler of {runtime.device} refuses a test kernel: {failure}") from None
    size = -(-num_entries // _GROUP) * _GROUP
    kernel = cl.Kernel(program, "axpy")
    kernel(runtime.queue, (size,), (_GROUP,), np.int32(num_entries), np.float64(0.7), device_x, device_y)
    result = runtime.read(device_y, np.empty(num_entries))
    error = float(np.abs(result / (0.7 * x + y) - 1).max())
    if not error < 1e-13:
        raise DeviceError(f"a test kernel on {runtime.device} gives wrong numbers (relative error {error:.1e}); update its driver")
    return error
