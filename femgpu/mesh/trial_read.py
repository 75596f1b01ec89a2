"""A file read by another process first: where its bytes changed, HDF5 and PETSc may crash or never come back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# What it prints says how far it came: where PETSc does not start there, nothing is known of the file.
_PROGRAM = """
import sys
from petsc4py import PETSc
print("started", flush=True)
try:
    PETSc.DMPlex().createFromFile(sys.argv[1], interpolate=True, comm=PETSc.COMM_SELF).destroy()
except PETSc.Error:
    pass  # the process that asks meets it, too
"""
# Start of Python and PETSc, which is slow where many processes do it; and bytes per second on a slow disk.
_SECONDS, _SPEED = 60.0, 1e6
# Of launchers: a process with these takes itself for a rank.
_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PMI2_", "HYDRA_")


def crash(path: Path) -> str:
    """How reading a mesh from a file ends a process; empty where it does not, or where this cannot be tried.

    Args:
        path: the file.

    Returns:
        The end of a sentence about the reader.
    """
    if not sys.executable:
        return ""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    seconds = _SECONDS + path.stat().st_size / _SPEED
    # -P keeps this folder's modules from standing in for others of the same name.
    command = [sys.executable, "-P", "-c", _PROGRAM, str(path.resolve())]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"does not come to an end in {seconds:.0f} s"
    if done.returncode == 0 or not done.stdout.startswith(b"started"):
        return ""
    return f"crashes, with status {done.returncode}"
