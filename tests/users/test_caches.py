"""Kernel caches: a damaged one of PoCL is emptied after the abort, and folders that cannot be written are replaced or named."""

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import CHILD_ENVIRONMENT

from femgpu import caches

# A program that builds one kernel, and runs it.
_SCRIPT = """
import os, sys
import femgpu
{more}
from femgpu import runtime
from femgpu.runtime.selftest import self_test
import numpy as np

chosen = runtime.current()
x = chosen.upload(np.zeros(4))
put = runtime.Kernel(chosen, "__kernel void put(__global double *x) {{ x[get_global_id(0)] = 7; }}", "put", [x], 4, 4)
put()
print(chosen.read(x, np.empty(4)).sum(), self_test(chosen) < 1e-12, os.environ.get("POCL_CACHE_DIR"))
"""


_SLOW = """
import time
from femgpu.runtime import program

def slowly(*arguments, compile=program._compile_for_pocl):
    begin = time.monotonic()
    time.sleep(0.5)
    made = compile(*arguments)
    print(begin, time.monotonic(), end=" ", flush=True)
    return made

program._compile_for_pocl = slowly
"""


def run(more="", **environment):
    inherited = {name: value for name, value in CHILD_ENVIRONMENT.items() if name not in ("POCL_CACHE_DIR", "FEMGPU_CACHE_DIR")}
    command = [sys.executable, "-c", _SCRIPT.format(more=more)]
    return subprocess.run(command, env=inherited | environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("kind", ["program.bc", "*.so"])
def test_a_damaged_cache_of_pocl_is_emptied_after_the_abort(tmp_path, kind):
    own = {"FEMGPU_CACHE_DIR": str(tmp_path / "cache")}
    folder = tmp_path / "cache-pocl"
    first = run(**own)
    assert first.stdout.split() == ["28.0", "True", str(folder)], first.stderr
    files = list(folder.rglob(kind))
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert files and run(**own).returncode
    mended = run(**own)
    assert mended.stdout == first.stdout
    assert f"{folder} is emptied, in case PoCL's files are damaged" in mended.stderr
    last = run(**own)
    assert last.stdout == first.stdout and not last.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == [folder.name]


def test_a_folder_that_the_user_named_or_pocl_has_taken_stays(tmp_path):
    done = run(POCL_CACHE_DIR=str(tmp_path / "mine"), FEMGPU_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout.split()[2] == str(tmp_path / "mine"), done.stderr
    code = "from petsc4py import PETSc\nimport os, femgpu\nprint(os.environ.get('POCL_CACHE_DIR'))"
    environment = CHILD_ENVIRONMENT | {"XDG_CACHE_HOME": str(tmp_path), "FEMGPU_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("POCL_CACHE_DIR", None)
    loaded = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert loaded.stdout == "None\n", loaded.stderr


def test_processes_build_for_pocl_one_after_the_other_and_only_once(tmp_path):
    own = {"POCL_CACHE_DIR": str(tmp_path), "FEMGPU_CACHE_DIR": "0"}
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: run(_SLOW, **own), range(3)))
    # The first process that begins keeps the others from it; they load what it built.
    builds = [tuple(map(float, one.stdout.partition("28.0 True")[0].split())) for one in done]
    assert all(len(times) == 2 for times in builds), [one.stderr for one in done]
    first, *others = sorted(builds)
    assert all(first[1] <= begin for begin, _ in others), builds
    # What is built already is loaded without asking anybody.
    with open(tmp_path / "femgpu-build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(**own).stdout.split()[:2] == ["28.0", "True"]


@pytest.mark.parametrize("cache", ["", "0"])
def test_a_home_that_cannot_be_written(cache):
    done = run(HOME="/dev/null", XDG_CACHE_HOME="", FEMGPU_CACHE_DIR=cache)
    result, good, folder = done.stdout.split()
    assert (result, good) == ("28.0", "True") and not done.stderr
    assert not os.path.exists(folder), "it goes with the process"


def test_a_cache_that_cannot_be_written_is_named():
    done = run(POCL_CACHE_DIR="/dev/null/folder")
    assert "DeviceError" in done.stderr and "Not a directory: '/dev/null/folder'; set POCL_CACHE_DIR" in done.stderr


def test_a_full_disk_is_refused(tmp_path, monkeypatch):
    assert caches.refusal(tmp_path / "new") == "" and (tmp_path / "new").is_dir()
    monkeypatch.setattr(caches, "_LEAST_BYTES", 1 << 62)
    assert "bytes are free in" in caches.refusal(tmp_path)


def test_the_mark_of_a_living_process_is_respected(tmp_path, monkeypatch):
    monkeypatch.setenv("FEMGPU_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "cache-pocl"
    folder.mkdir()
    (folder / "entry").write_text("")
    monkeypatch.setenv("POCL_CACHE_DIR", str(folder))
    trial = caches.Trial()
    trial.begin()
    look = "import femgpu, os; print(sorted(os.listdir(os.environ['POCL_CACHE_DIR'])))"
    environment = CHILD_ENVIRONMENT | {name: os.environ[name] for name in ("POCL_CACHE_DIR", "FEMGPU_CACHE_DIR")}
    for mark in (True, False):
        done = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, timeout=60)
        assert "'entry'" in done.stdout and ("femgpu-trial" in done.stdout) == mark, done.stderr
        trial.end()
