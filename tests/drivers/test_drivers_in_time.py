"""drivers/heat.py and drivers/reaction_diffusion.py as their users call them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT

FOLDER = Path(__file__).parents[2] / "drivers"


def run(driver, options, folder, num_ranks=1):
    launch = ["mpiexec", "-n", str(num_ranks)] if num_ranks > 1 else []
    command = [*launch, sys.executable, str(FOLDER / driver), *options.split()]
    return subprocess.run(command, cwd=folder, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=300)


def errors(driver, options, folder, num_ranks=1):
    """The L2 errors that a driver prints."""
    done = run(driver, options, folder, num_ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return [float(number) for number in re.findall(r"L2 error.*: ([-+.\de]+) ", done.stdout)]


def test_a_run_that_is_cut_and_continued_on_two_ranks(tmp_path):
    """The same command, given again, goes on where the first one was stopped."""
    options = "-dm_plex_box_faces 5,5 -ts_type cn -pc_type bjacobi -ksp_rtol 1e-12 -snes_rtol 1e-10 -ts_time_step 0.25"
    files = " -checkpoint heat.h5 -checkpoint_every 1 -restart -series heat.pvd"
    whole = errors("heat.py", options, tmp_path)
    errors("heat.py", options + files + " -ts_max_steps 2", tmp_path)
    continued = errors("heat.py", options + files, tmp_path, num_ranks=2)
    assert continued == pytest.approx(whole, rel=1e-6) and len(whole) == 1
    assert (tmp_path / "heat.pvd").read_text().count("DataSet") == 5


def test_species_on_two_ranks(tmp_path):
    options = (
        "-dm_plex_simplex 0 -dm_plex_box_faces 4,4 -solution manufactured -model brusselator -ts_time_step 0.5 -pc_type bjacobi"
    )
    one, two = (errors("reaction_diffusion.py", f"{options} -ksp_rtol 1e-10", tmp_path, ranks) for ranks in (1, 2))
    assert len(one) == 2 and two == pytest.approx(one, rel=1e-5)


def test_bad_input(tmp_path):
    for driver, options, message in (
        ("heat.py", "-restart", "-restart: expected -checkpoint"),
        ("heat.py", "-ts_type rk", "-ts_type rk does not integrate"),
        ("reaction_diffusion.py", "-parameters 1,2,3", "expected 2 numbers"),
    ):
        done = run(driver, f"-dm_plex_box_faces 2,2 {options}", tmp_path)
        assert done.returncode == 1
        assert message in done.stderr and "Traceback" not in done.stderr
