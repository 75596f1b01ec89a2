"""Shared setup of the tests: random data with its seed printed, PETSc's options restored, child processes under mpiexec."""

import gc
import json
import os
import secrets
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

# A fresh seed in every run, one for all of its processes.
os.environ["FEMGPU_TEST_SEED"] = os.environ.get("FEMGPU_TEST_SEED") or str(secrets.randbits(32))
# Tests run beside each other, and on several ranks.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A process that has initialised Open MPI leaves variables in its environment that make a child's mpiexec fail without a
# word: copied before anything below imports MPI. More ranks than cores are wanted, and root in a container is no accident.
CHILD_ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # Open MPI would put every mpiexec's first rank on the first core, beside those of other tests.
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}

# FEMGPU_TEST_ALL=1 runs all: tests that take long and whose siblings see the same (`slow.txt`), all members of tables
# (`halves.txt`), the whole table of what drivers take by default, and kernels optimised by PoCL everywhere. Else it optimises
# them, as for users, where drivers run or meshes are large, and in a fourth of the tests that draw kernels; it takes a quarter of
# the time for the others.
TEST_ALL = os.environ.get("FEMGPU_TEST_ALL", "0") != "0"
OPTIMISED, DRAWN, SHARE = ("docs", "drivers", "test_builtins.py", "test_convergence.py"), "conformance", 0.25
SLOW, HALVES = (
    {line for line in Path(__file__).with_name(name).read_text().splitlines() if not line.startswith("#")}
    for name in ("slow.txt", "halves.txt")
)

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from conformance.plan_count import PlanCount  # noqa: E402
from petsc4py import PETSc  # noqa: E402
from rank_batches import RankBatches  # noqa: E402

SEED = PETSc.COMM_WORLD.tompi4py().bcast(int(os.environ["FEMGPU_TEST_SEED"]))

# Kernels are built inside examples, so that no deadline fits; a failure prints how to repeat it, so that no database is needed.
hypothesis.settings.register_profile("femgpu", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("femgpu")


def pytest_addoption(parser):
    parser.addoption("--femgpu-debug", action="store_true", help="kernels of the conformance tests check themselves")


def pytest_configure(config):
    config.pluginmanager.register(RankBatches(CHILD_ENVIRONMENT), "rank_batches")
    config.pluginmanager.register(PlanCount(), "plan_count")
    if config.getoption("--femgpu-debug"):
        # Also for the processes that run tests, and those that tests start.
        for environment in (os.environ, CHILD_ENVIRONMENT):
            environment["FEMGPU_TEST_DEBUG"] = "1"


def pytest_collection_modifyitems(items):
    """Leaves out what `slow.txt` names, and half of each table of `halves.txt`; a test that is asked for alone is run."""
    if TEST_ALL or len(items) == 1:
        return
    tables = {}
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name in SLOW:
            item.add_marker(pytest.mark.skip(reason="slow: FEMGPU_TEST_ALL=1 runs it"))
        elif name.partition("[")[0] in HALVES:
            tables.setdefault(name.partition("[")[0], []).append(item)
    for name, table in tables.items():
        for place in np.random.default_rng([SEED, zlib.crc32(name.encode())]).permutation(len(table))[: len(table) // 2]:
            table[place].add_marker(pytest.mark.skip(reason="not drawn this time: FEMGPU_TEST_ALL=1 runs all of the table"))


def pytest_collection_finish():
    """Spares the search for garbage, which femgpu asks for with every few problems, the many objects of pytest and of the tests."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Those objects go at the end, too: nanobind tells of what is left."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs):
    """Gives workers the environment of children, which pytest-xdist does not ask for, and PoCL caches of their own.

    Two processes that build the same programs may damage an entry of PoCL's cache; where it is, PoCL asks when MPI loads it.
    """
    for variable in subprocess.run(["env", "-0"], capture_output=True, text=True, check=True).stdout.split("\0"):
        name = variable.partition("=")[0]
        if name and name not in CHILD_ENVIRONMENT:
            os.unsetenv(name)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "pocl", "kcache")
    for spec in specs:
        folder = Path(os.environ.get("POCL_CACHE_DIR") or caches, spec.id)
        folder.mkdir(parents=True, exist_ok=True)
        spec.env["POCL_CACHE_DIR"] = str(folder)


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.line(f"FEMGPU_TEST_SEED={SEED}")


@pytest.fixture(scope="module", autouse=True)
def optimisation(request):
    """PoCL's compiler optimises, or not, in this process and in children."""
    optimise(TEST_ALL or {*OPTIMISED} & {*request.path.parts})


@pytest.fixture(autouse=True)
def optimisation_of_drawn_kernels(request, seed):
    """The same for one test of those that draw kernels."""
    if DRAWN in request.path.parts and not TEST_ALL:
        optimise(np.random.default_rng([seed, zlib.crc32(request.node.name.encode()), 4]).random() < SHARE)


def optimise(yes):
    for environment in (os.environ, CHILD_ENVIRONMENT):
        if yes:
            environment.pop("POCL_EXTRA_BUILD_FLAGS", None)
        else:
            environment["POCL_EXTRA_BUILD_FLAGS"] = "-cl-opt-disable"


@pytest.fixture(scope="session", autouse=True)
def small_blocks_of_dofs():
    """Small meshes have several blocks of cells whose dofs stand together."""
    from femgpu.mesh import locality

    locality.BLOCK = 2


@pytest.fixture(autouse=True)
def isolated_options():
    """Options that a test sets in PETSc's database are gone after it."""
    database = PETSc.Options()
    before = database.getAll()
    yield
    for name in database.getAll():
        if name not in before:
            database.delValue(name)
    for name, value in before.items():
        database.setValue(name, value)


@pytest.fixture
def set_options():
    """Sets PETSc options: `set_options(prefix, snes_rtol=1e-10, ...)`; True stands for an option without a value."""

    def put(prefix="", **values):
        for name, value in values.items():
            PETSc.Options().setValue(prefix + name, None if value is True else value)

    return put


@pytest.fixture
def folder():
    """One folder for all ranks; with tmp_path each rank cleans up pytest's folders at exit, in the others' way."""
    mpi = PETSc.COMM_WORLD.tompi4py()
    made = tempfile.TemporaryDirectory() if mpi.rank == 0 else None
    yield Path(mpi.bcast(made.name if made else None))
    mpi.barrier()
    if made:
        made.cleanup()


@pytest.fixture(scope="session")
def seed():
    """Equal in all processes of a run; FEMGPU_TEST_SEED repeats it."""
    return SEED


@pytest.fixture
def rng(seed, request):
    """Random numbers of one test; pytest shows the printed seed where it fails."""
    print(f"FEMGPU_TEST_SEED={seed}")
    return np.random.default_rng([seed, zlib.crc32(request.node.name.encode())])


@pytest.fixture(scope="session")
def run_ranks():
    """`run_ranks(n, script, *arguments)` runs a Python script on n ranks and returns the JSON of its last line."""

    def run(num_ranks, script, *arguments, timeout=300):
        command = ["mpiexec", "-n", str(num_ranks), sys.executable, str(script), *map(str, arguments)]
        done = subprocess.run(command, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            pytest.fail(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def threaded(monkeypatch, tmp_path):
    """Makes a runtime as on a GPU, whose driver keeps no programs: they are built ahead in threads."""
    from femgpu.runtime import Device, Runtime, current

    monkeypatch.setattr(Device, "caches_programs", False)
    monkeypatch.setenv("FEMGPU_CACHE_DIR", PETSc.COMM_WORLD.tompi4py().bcast(str(tmp_path)))

    def make():
        made = Runtime(current().device, current().context)
        made.programs.threads = 4
        return made

    return make


@pytest.fixture
def threaded_process(threaded, monkeypatch):
    """Makes such a runtime that of the process."""
    from femgpu.runtime import process

    made = threaded()
    monkeypatch.setattr(process, "_current", made)
    return made
