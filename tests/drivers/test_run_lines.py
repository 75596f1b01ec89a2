"""Every run line in the docstring of a driver runs."""

import re
import shlex
import subprocess
import sys

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


LINES = [(path.stem, line) for path in DRIVERS for line in run_lines(path)]


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


@pytest.mark.parametrize(("name", "line"), LINES)
def test_line_runs(tmp_path, name, line):
    for large, small in SMALLER.items():
        line = line.replace(large, small)
    line = line.replace("python drivers/", f"{sys.executable} {FOLDER}/").replace("meshes/", f"{FOLDER.parent}/meshes/")
    done = subprocess.run(shlex.split(line), cwd=tmp_path, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    for output in re.findall(r"-(?:output|picture) (\S+)", line):
        assert (tmp_path / output).stat().st_size > 1000
