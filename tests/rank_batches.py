"""Tests on several ranks, those of a file in one mpiexec.

Most of these tests take less time than Python, PETSc and UFL take to start on each rank. So the tests of a file that want the same
number of ranks are run together by one mpiexec, a batch, when the first of them is due. A failure on any rank ends the batch, so
that no rank waits for another; the tests that it did not come to are run in the next one.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from mpi4py import MPI
from pytest_mpi import plugin

# For a batch; and for one test in it that does not set a time of its own, so that it says where it hangs.
BATCH_SECONDS, TEST_SECONDS = 360, 240
# In the ranks' environment: the folder where they note how tests ended.
NOTES = "FEMGPU_TEST_NOTES"


def num_ranks(item):
    """The ranks that a test wants."""
    return plugin._extract_nprocs_for_single_test(item) if item.get_closest_marker("parallel") else 1


class RankBatches:
    """A plugin of pytest that puts a batch in the place of mpi-pytest's mpiexec for each test.

    Args:
        environment: the variables of child processes.
    """

    def __init__(self, environment):
        self.environment = environment | {plugin.CHILD_PROCESS_FLAG: "1"}
        # What was wrong with each test that ended; empty where it passed.
        self.ended: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items):
        """Takes the tests on several ranks over, and puts them last in their file.

        Ranks that wait while one of them compiles take the processor from it: a test on one rank had better build the kernels.
        """
        if MPI.COMM_WORLD.size > 1:
            return
        files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
        items.sort(key=lambda item: (files[item.path], num_ranks(item)))
        plugin._set_parallel_callback = self._set_callback
        for item in items:
            if num_ranks(item) > 1:
                # The first test waits for all of its batch; a limit of its own holds on the ranks.
                item.add_marker(pytest.mark.timeout(BATCH_SECONDS + 60), append=False)

    def _set_callback(self, item):
        if num_ranks(item) > 1:
            item.obj = lambda *_, **__: self.run(item)

    def run(self, item):
        """Passes or fails as the test does on its ranks."""
        while item.nodeid not in self.ended:
            self._run_batch(item)
        if text := self.ended[item.nodeid]:
            pytest.fail(text, pytrace=False)

    def _run_batch(self, item):
        """Runs the tests like this one that have not ended yet, in order; this one is the first."""
        batch = [other for other in item.session.items if (other.path, num_ranks(other)) == (item.path, num_ranks(item))]
        names = [other.nodeid for other in batch if other.nodeid not in self.ended]
        with tempfile.TemporaryDirectory() as folder:
            how = self._mpiexec(item, names, folder)
            passed = [set(_read(folder, f"passed {rank}").splitlines()) for rank in range(num_ranks(item))]
            failed = [path.read_text().partition("\n") for path in sorted(Path(folder).glob("failed *"))]
            output = _read(folder, "output")
        self.ended |= dict.fromkeys(set.intersection(*passed), "")
        for name, _, text in failed:
            self.ended[name] = self.ended.get(name, "") + text
        if not failed:
            # Neither: the ranks crashed in it.
            self.ended.setdefault(item.nodeid, f"mpiexec -n {num_ranks(item)} {how}:\n{output[-10000:]}")

    def _mpiexec(self, item, names, folder):
        """How it ended; its output and the ranks' notes are in the folder then."""
        # What is expected to fail does so in this process, too.
        options = ["-q", "--runxfail", "--color=no", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]
        command = ["mpiexec", "-n", str(num_ranks(item)), sys.executable, "-m", "pytest", *options, *names]
        streams = {"stdout": Path(folder, "output").open("w"), "stderr": subprocess.STDOUT}
        environment = self.environment | {NOTES: folder}
        with subprocess.Popen(command, env=environment, cwd=item.config.rootpath, **streams) as process:
            try:
                return f"ended with {process.wait(BATCH_SECONDS)}"
            except subprocess.TimeoutExpired:
                return f"did not end in {BATCH_SECONDS} s"
            finally:
                # Unlike kill(), this lets it end its ranks.
                process.terminate()

    def pytest_runtest_logreport(self, report):
        """On the ranks: notes that a test passed; or why not, and ends the batch."""
        if NOTES not in os.environ:
            return
        folder, rank = Path(os.environ[NOTES]), MPI.COMM_WORLD.rank
        if report.failed:
            parts = [f"{report.nodeid}\nRank {rank}:", report.longreprtext]
            parts += [f"----- {title} -----\n{text}" for title, text in report.sections]
            (folder / f"failed {rank}").write_text("\n".join([*parts, ""]))
            MPI.COMM_WORLD.Abort(1)
        if report.when == "teardown":
            with (folder / f"passed {rank}").open("a") as stream:
                print(report.nodeid, file=stream)


def _read(folder, name):
    path = Path(folder, name)
    return path.read_text() if path.exists() else ""
