"""OpenCL through pyopencl, and nothing of finite elements: device, programs, buffers, launches."""

from femgpu.runtime.device import Device, Runtime, current, devices, for_comm, local_rank, start
from femgpu.runtime.launch import Kernel

__all__ = ["Device", "Kernel", "Runtime", "current", "devices", "for_comm", "local_rank", "start"]
