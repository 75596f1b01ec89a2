"""Every run line in the docstring of a driver runs."""

import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import CHILD_ENVIRONMENT
from driver_modules import FOLDER

DRIVERS = sorted(path for path in FOLDER.glob("*.py") if path.stem != "common")
# Sizes for a GPU, and what runs here instead.
SMALLER = {"400,400": "40,40", "bracket.msh -petscspace_degree 2": "bracket.msh"}


def run_lines(path):
    """The commands below "Run lines:" in a driver's docstring, continued lines joined."""
    text = re.match(r'"""(.*?)"""', path.read_text(), re.DOTALL).group(1)
    lines = text.partition("Run lines:\n")[2].replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


LINES = [pytest.param(line, id=f"{path.stem}-{i}") for path in DRIVERS for i, line in enumerate(run_lines(path))]


@pytest.mark.parametrize("path", DRIVERS, ids=lambda path: path.stem)
def test_a_driver_has_lines_of_every_kind(path):
    """In 2D and 3D, on simplices and tensor cells, with its own name."""
    lines = run_lines(path)
    assert all(f"python drivers/{path.name} " in line for line in lines)
    for dim, simplex in ((2, 0), (2, 1), (3, 0), (3, 1)):
        assert any((dim, simplex) == kind(line) for line in lines), f"no line with dimension {dim}, simplex {simplex}"


def kind(line):
    """Dimension of the mesh and whether its cells are simplices, by the options; the files in meshes/ are tetrahedra."""
    if "-dm_plex_filename" in line:
        return 3, 1
    dim = re.search(r"-dm_plex_dim (\d)", line)
    return int(dim.group(1)) if dim else 2, 0 if "-dm_plex_simplex 0" in line else 1


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """Every chosen line's process and folder, as futures: two lines run at a time, while the tests wait for them in order."""
    items = [item for item in request.session.items if item.name.startswith("test_line_runs[")]
    lines = [item.callspec.params["line"] for item in items if not item.get_closest_marker("skip")]
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {line: pool.submit(run, line, tmp_path_factory.mktemp("line")) for line in lines}
        pool.shutdown(cancel_futures=True)


def run(line, folder):
    """Runs a line in a folder of its own; gives the finished process and the folder."""
    for large, small in SMALLER.items():
        line = line.replace(large, small)
    line = line.replace("python drivers/", f"{sys.executable} {FOLDER}/").replace("meshes/", f"{FOLDER.parent}/meshes/")
    command = shlex.split(line)
    return subprocess.run(command, cwd=folder, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=300), folder


@pytest.mark.parametrize("line", LINES)
def test_line_runs(runs, line):
    done, folder = runs[line].result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    for output in re.findall(r"-(?:output|picture) (\S+)", line):
        assert (folder / output).stat().st_size > 1000
