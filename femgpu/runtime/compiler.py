"""A process that compiles for another: sources come in, binaries go out. `compilers` runs it; nobody imports it.

It calls OpenCL by ctypes and needs no package, each of which would take longer to import than a program to compile. Standard input
is a socket that both ways go through. It ends when nothing has come for a while, and with the process that it works for, whose
end closes the socket.
"""

import contextlib
import ctypes
import fcntl
import pickle
import socket
import sys
from ctypes import byref, c_char_p, c_size_t, c_uint, c_void_p, create_string_buffer
from typing import Any

# Kept while a mesh may be made between two lots of programs; meanwhile its context takes some memory of the device.
_IDLE_SECONDS = 20.0
# OpenCL's numbers of what is asked for.
_ALL_DEVICES = 0xFFFFFFFF
_BINARY_SIZES, _BINARIES, _BUILD_LOG = 0x1165, 0x1166, 0x1183


def main(library: str, index: int) -> None:
    """Says once that it is ready; then answers each source, which comes with the compiler's options, by its binary and the log.

    There is no binary where the source is refused.

    Args:
        library: path of a library that brings OpenCL's functions.
        index: of the device in the list of all platforms' devices.
    """
    both = socket.socket(fileno=0)
    both.settimeout(_IDLE_SECONDS)
    requests, answers = both.makefile("rb"), both.makefile("wb")
    cl = ctypes.CDLL(library)
    cl.clCreateContext.restype = cl.clCreateProgramWithSource.restype = c_void_p
    # One after the other, as the driver makes contexts anyway: side by side all processes would be ready when the last one is.
    with open(__file__) as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        device = c_void_p(_devices(cl)[index])
        context = c_void_p(cl.clCreateContext(None, 1, byref(device), None, None, None))

    def answer(what: Any) -> None:
        pickle.dump(what, answers)
        answers.flush()

    answer("ready")
    while True:
        try:
            text, options = pickle.load(requests)
        except (EOFError, TimeoutError):
            return
        source = c_char_p(text.encode())
        program = c_void_p(cl.clCreateProgramWithSource(context, 1, byref(source), None, None))
        failed = cl.clBuildProgram(program, 1, byref(device), options, None, None)
        answer((b"" if failed else _binary(cl, program), _log(cl, program, device)))
        cl.clReleaseProgram(program)


def _devices(cl: ctypes.CDLL) -> list[int]:
    """The devices of all platforms, one after the other."""

    def listed(function: Any, *of: Any) -> Any:
        count = c_uint()
        function(*of, 0, None, byref(count))
        found = (c_void_p * count.value)()
        function(*of, count, found, None)
        return found

    platforms = listed(cl.clGetPlatformIDs)
    every = ctypes.c_ulong(_ALL_DEVICES)
    return [device for platform in platforms for device in listed(cl.clGetDeviceIDs, c_void_p(platform), every)]


def _binary(cl: ctypes.CDLL, program: c_void_p) -> bytes:
    size = c_size_t()
    cl.clGetProgramInfo(program, _BINARY_SIZES, c_size_t(ctypes.sizeof(size)), byref(size), None)
    binary = create_string_buffer(size.value)
    cl.clGetProgramInfo(program, _BINARIES, c_size_t(ctypes.sizeof(c_void_p)), byref(ctypes.pointer(binary)), None)
    return binary.raw


def _log(cl: ctypes.CDLL, program: c_void_p, device: c_void_p) -> str:
    size = c_size_t()
    cl.clGetProgramBuildInfo(program, device, _BUILD_LOG, c_size_t(0), None, byref(size))
    text = create_string_buffer(size.value + 1)
    cl.clGetProgramBuildInfo(program, device, _BUILD_LOG, size, text, None)
    return text.value.decode(errors="replace")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
