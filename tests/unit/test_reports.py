"""Reports of `femgpu bench`: the commit they name, and those of the workload qdata with what kernels take of registers."""

import csv
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from femgpu.bench import qdata, report
from femgpu.bench.qdata_report import TRIED
from femgpu.cli import main
from femgpu.runtime import Kernel, rates
from femgpu.runtime.resources import Resources


@pytest.fixture
def commit_of(monkeypatch):
    """The commit of a package in a folder."""
    monkeypatch.delenv("FEMGPU_COMMIT", raising=False)

    def found(folder):
        monkeypatch.setattr(report, "_SOURCES", folder)
        return report.commit.__wrapped__()

    return found


def test_reports_name_the_commit(tmp_path, commit_of, monkeypatch):
    """With a mark where files of the package differ; what stands beside it does not count, nor does a checkout without it.

    There, and where there is none, the environment counts.
    """
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert commit_of(package) == ""
    monkeypatch.setenv("FEMGPU_COMMIT", "abc1234")
    assert commit_of(package) == "abc1234"

    def git(*words):
        given = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(given, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "other.csv").write_text("1")
    git("add", "other.csv")
    git("commit", "-q", "-m", "without the package")
    assert commit_of(package) == "abc1234"
    git("add", "package")
    git("commit", "-q", "-m", "with it")
    short = git("rev-parse", "--short", "HEAD")
    (tmp_path / "other.csv").write_text("2")
    assert commit_of(package) == short
    (package / "new.py").write_text("")
    assert commit_of(package) == f"{short}+"


def test_bench_of_qdata(capsys, tmp_path, monkeypatch):
    """Every way to divide an action, by both schedules; they agree in the same run."""
    monkeypatch.setattr(qdata, "ELEMENTS", qdata.ELEMENTS[:1])
    monkeypatch.setattr(qdata, "launch_seconds", lambda runtime, launches, seconds: rates.launch_seconds(runtime, launches, 1e-3))
    monkeypatch.setattr(report, "commit", lambda: "abc1234")
    taken = [Resources(40, 8, 4, 12), Resources(255, 0, 0, 0)]
    monkeypatch.setattr(Kernel, "resources", property(lambda kernel: taken["29 stored" in str(kernel.label)]))
    given = ["--cells", "6", "--schedules", "cell", "cell:lanes=1", "--exhaustive", "--out", str(tmp_path)]
    assert main(["bench", "qdata", *given]) == 0
    shown = capsys.readouterr().out
    (path,) = tmp_path.glob("*.csv")
    rows = list(csv.DictReader(path.open()))
    # Three modes, and five ways to divide either action.
    assert len(rows) == 2 * 2 * (3 + 5) and sum(row["mode"] == TRIED for row in rows) == 20
    assert {row["schedule"] for row in rows} == {"cell", "cell:lanes=1"} and {row["commit"] for row in rows} == {"abc1234"}
    assert {(row["registers"], row["spill_store_bytes"], row["spill_load_bytes"]) for row in rows} <= {
        ("40", "4", "12"),
        ("255", "0", "0"),
    }
    assert "actions spill registers" in shown and "4 bytes written, 12 read" in shown
    record = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert record["commit"] == "abc1234" and len(record["timings"]) == len(rows)


def test_numbers_that_no_compiler_says_are_left_empty(tmp_path, monkeypatch):
    timing = {"mode": "auto", "cells": 1, "dofs": 1, "scalars": 0, "cell_scalars": 0, "points": 1, "flops": 1, "plan": ""}
    times = dict.fromkeys(("us", "zero_us", "state_us", "GDOFs", "error"), 1.0)
    made = qdata.Timing("neo-hookean", "tetrahedron", 1, "auto", **timing, **times)
    lines = qdata.Result("a device", "double", [made], ["refused"], 1e9).text().splitlines()
    assert lines[-1] == "refused" and not any("spill" in line for line in lines)
    known = replace(made, registers=32, spill_store_bytes=0, spill_load_bytes=0)
    assert qdata.Result("a device", "double", [made, known], [], 1e9).text().splitlines()[-1] == "0 of 1 actions spill registers"
    path = Path(tmp_path / "table.csv")
    report._write_csv(path, qdata.Result("a device", "double", [made], [], 1e9))
    assert path.read_text().splitlines()[-1].endswith(",,,")
