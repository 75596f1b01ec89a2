"""Shared setup of the tests."""

import functools
import os
import subprocess
import types

import pytest_mpi.plugin

# A process that has initialised Open MPI leaves variables in its environment that make a child's mpiexec fail without a word. os.environ
# was copied before that, and has none of them.
pytest_mpi.plugin.subprocess = types.SimpleNamespace(run=functools.partial(subprocess.run, env=dict(os.environ)))
