"""Programs for tests of builds, and what was built; runtimes that build ahead are the fixtures `threaded...` of `conftest.py`."""

import threading
import time

import numpy as np
from petsc4py import PETSc

from femgpu import runtime
from femgpu.runtime import program

WORLD = PETSc.COMM_WORLD.tompi4py()
SOURCE = "__kernel void put(__global double *x) { x[get_global_id(0)] = %d; }"
WRONG = "__kernel void put(__global double *x) { x[0] = nothing_like_that; }"


class Builds:
    """What `program.build` was asked for: names, and in which threads."""

    def __init__(self, monkeypatch, seconds=0.0):
        self.names, self.threads, self._plain, self._seconds = [], [], program.build, seconds
        monkeypatch.setattr(program, "build", self)

    def __call__(self, context, device, source, name, *others):
        self.names.append(name)
        self.threads.append(threading.current_thread())
        time.sleep(self._seconds)
        return self._plain(context, device, source, name, *others)


def nobody_builds():
    return not any(thread.name.startswith("femgpu-build") for thread in threading.enumerate())


def value(made, program_):
    """What a program of `SOURCE` puts."""
    x = made.upload(np.zeros(1))
    kernel = runtime.Kernel(made, program_, "put", [x], 1, 1)
    kernel()
    return made.read(x, np.empty(1))[0]
