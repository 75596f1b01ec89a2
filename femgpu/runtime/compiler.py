"""A process that compiles for another: sources come in, binaries go out. `compilers` runs it; nobody imports it.

It needs pyopencl and nothing of femgpu, whose import would start PETSc and MPI. Standard input is a socket that both ways go
through. It ends when nothing has come for a while, and with the process that it works for, whose end closes the socket.
"""

import os
import pickle
import select
import sys
from typing import Any

# Kept while a mesh may be made between two lots of programs; meanwhile its context takes some memory of the device.
_IDLE_SECONDS = 20.0


def main(index: int, options: bytes) -> None:
    """Says once that it is ready; then answers each source by its binary and the compiler's log, no binary where it is refused.

    Args:
        index: of the device in the list of all platforms' devices.
        options: for the compiler.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(0), "wb")
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    import pyopencl as cl

    def answer(what: Any) -> None:
        pickle.dump(what, answers)
        answers.flush()

    device = [device for platform in cl.get_platforms() for device in platform.get_devices()][index]
    context = cl.Context([device])
    answer("ready")
    while select.select([requests], [], [], _IDLE_SECONDS)[0]:
        try:
            source = pickle.load(requests)
        except EOFError:
            return
        program = cl._cl._Program(context, source)
        try:
            program._build(options)
            binary = program.get_info(cl.program_info.BINARIES)[0]
        except cl.Error:
            binary = b""
        answer((binary, program.get_build_info(device, cl.program_build_info.LOG) or ""))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2].encode())
