"""OpenCL through pyopencl, and nothing of finite elements: device, programs, buffers, launches."""

from pyopencl import LocalMemory

from femgpu.runtime.device import Device, devices, local_rank, select
from femgpu.runtime.launch import Kernel, Launch
from femgpu.runtime.process import current, for_comm, start
from femgpu.runtime.runtime import Runtime
from femgpu.runtime.scalars import Scalars

__all__ = [
    "Device",
    "Kernel",
    "Launch",
    "LocalMemory",
    "Runtime",
    "Scalars",
    "current",
    "devices",
    "for_comm",
    "local_rank",
    "select",
    "start",
]
