"""Tiny cases of every kind of kernel under oclgrind: no access out of bounds, no race, nothing read before it is written."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conformance.oclgrind_cases import FAULTS, RUNS

SCRIPT = Path(__file__).with_name("oclgrind_cases.py")
OPTIONS = (
    "--data-races",
    "--uninitialized",
    # No optimisation: its code has instructions that the account of what is written does not know. No warnings of the compiler.
    "--build-options",
    "-cl-opt-disable -w",
    "--max-errors",
    "1000000",
    # Reports come in the same order each time.
    "--num-threads",
    "1",
)
# Adding by compare and exchange reads without an atomic operation, which OpenCL C 1.2 does not have for that; what it reads is a
# guess that the exchange checks.
GUESS = re.compile(r"seen.value = \*\(volatile __global (scalar|double) \*\)p;")
EXCHANGE = re.compile(r"} while \(atomi?c?_cmpxchg\(")


def reports(text):
    """What oclgrind says: paragraphs that begin at the margin, with all that is indented below."""
    return [report.strip() for report in re.split(r"\n(?=\S)", f"\n{text}") if report.strip()]


def is_guess(report):
    """Whether a report is a race of the guess of one addition with the exchange of another."""
    lines = [line.strip() for line in re.findall(r"At line .*\n(.*)", report)]
    return (
        "Read-write data race" in report
        and len(lines) == 2
        and any(map(GUESS.fullmatch, lines))
        and any(map(EXCHANGE.match, lines))
    )


@pytest.fixture(scope="module")
def said():
    """Reports by name of the run, from one process for all."""
    program = shutil.which("oclgrind")
    if program is None:
        pytest.skip("oclgrind is not installed (Debian's package oclgrind)")
    paths = [str(SCRIPT.parents[2]), str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "FEMGPU_CACHE_DIR": "0", "PYTHONPATH": os.pathsep.join(paths)}
    command = [program, *OPTIONS, sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    _, *sections = re.split(r"^== ", done.stderr, flags=re.MULTILINE)
    found = {name: reports(text) for name, _, text in (section.partition("\n") for section in sections)}
    assert list(found) == [*RUNS, "end"]
    return found


@pytest.mark.parametrize("name", [name for name in RUNS if name not in FAULTS])
def test_nothing_is_reported(said, name):
    found = [report for report in said[name] if not is_guess(report)]
    assert not found, "\n\n".join(found[:5])


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_reported(said, name):
    assert any(FAULTS[name].report in report for report in said[name]), said[name][:5]
