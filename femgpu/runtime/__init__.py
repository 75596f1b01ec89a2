"""OpenCL through pyopencl, and nothing of finite elements: device, programs, buffers, launches."""

from femgpu.runtime.device import Device, devices, local_rank, select
from femgpu.runtime.launch import Kernel
from femgpu.runtime.runtime import Runtime, current, for_comm, start

__all__ = ["Device", "Kernel", "Runtime", "current", "devices", "for_comm", "local_rank", "select", "start"]
