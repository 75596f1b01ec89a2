"""The command line: what it prints, its exit codes, and that `doctor` runs where nothing else does."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT

from femgpu import options, runtime, warmup
from femgpu.bench import assembly, ex12, launch, report
from femgpu.bench.residual import Timing
from femgpu.cli import main
from femgpu.runtime import costs
from femgpu.version import VERSION

ROOT = Path(__file__).parents[2]
_SCRIPT = """
import sys
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner
import beside
import femgpu

dm = femgpu.mesh.create()
V = femgpu.FunctionSpace(dm, "Lagrange", 1)
u, v = femgpu.Function(V), ufl.TestFunction(V)
problem = femgpu.NonlinearProblem(inner(grad(u), grad(v)) * dx + {salt} * u * v * dx - v * dx, u)
assert sys.argv[1:] == ["-dm_plex_box_faces", "2,3"] and PETSc.Options().getString("dm_plex_box_faces") == "2,3"
{end}
"""


# Programs are stored also where the driver keeps them itself, as PoCL does.
_STORING = "from femgpu.runtime import Device\nDevice.caches_programs = False\n"


def run(*arguments, blocked=(), begin="", **environment):
    """A process of its own, in which some modules cannot be imported."""
    code = f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n{begin}from femgpu.cli import main\nsys.exit(main())"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env={**CHILD_ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=200, cwd=ROOT)


def findings(done):
    """Status of each finding by its name."""
    lines = [line for line in done.stdout.splitlines() if line[:5].strip() in ("ok", "warn", "fail")]
    return {line[6:].partition(":")[0]: line[:5].strip() for line in lines}


def test_doctor_finds_this_installation_well(tmp_path):
    done = run("doctor", FEMGPU_CACHE_DIR=str(tmp_path))
    found = findings(done)
    assert done.returncode == 0, done.stdout
    expected = ["Python", "numpy", "fenics-ufl", "fenics-basix", "petsc4py", "PETSc's numbers", "mpi4py"]
    expected += ["MPI of PETSc and mpi4py", "pyopencl", "OpenCL loader", "device", "kernel", "kernel cache"]
    for what in expected:
        assert found[what] == "ok", done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "module, failed, still_good",
    [("petsc4py", "petsc4py", "device"), ("pyopencl", "pyopencl", "petsc4py"), ("mpi4py", "mpi4py", "device")],
)
def test_doctor_where_something_is_missing(module, failed, still_good):
    done = run("doctor", blocked=(module,))
    found = findings(done)
    assert done.returncode == 1
    assert found[failed] == "fail" and found[still_good] == "ok" and found["pyvista"] in ("ok", "warn")
    assert "Traceback" not in done.stderr
    assert any(line.startswith("      -> ") for line in done.stdout.splitlines())


def test_doctor_and_devices_without_a_platform(tmp_path):
    icd = {"OCL_ICD_VENDORS": str(tmp_path), "OCL_ICD_FILENAMES": ""}
    done = run("doctor", **icd)
    found = findings(done)
    assert done.returncode == 1
    assert found["OpenCL"] == "fail" and found["OpenCL loader"] == "warn" and found["OCL_ICD_VENDORS"] == "ok"
    assert "pocl-opencl-icd" in done.stdout
    done = run("devices", **icd)
    assert done.returncode == 1 and "femgpu devices: DeviceError: no OpenCL platform found" in done.stderr


def test_commands_say_what_they_lack():
    done = run("devices", blocked=("petsc4py",))
    assert done.returncode == 1 and "petsc4py does not load" in done.stderr and "femgpu doctor" in done.stderr


def test_devices_are_listed(capsys, set_options):
    assert main(["devices"]) == 0
    shown = capsys.readouterr().out
    for device, _ in runtime.devices():
        assert device.name in shown.replace("\n", "") and device.driver in shown
    assert "*" in shown
    set_options(femgpu_device="no such device")
    assert main(["devices"]) == 1
    assert "no device has this in its name" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0 and capsys.readouterr().out == f"femgpu {VERSION}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["doctor", "--fast"], ["devices", "1"], ["bench"], ["bench", "ex12", "--precision", "half"]]
)
def test_wrong_command_lines(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "femgpu" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "doctor", "devices", "roofline", "bench", "warmup", "tune"])
def test_every_command_explains_itself(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"] if command else ["--help"])
    assert caught.value.code == 0
    assert f"femgpu {command}".strip() in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["bench", "ufl"], ["devices"]])
def test_h_explains_and_runs_nothing(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "-h"])
    assert caught.value.code == 0 and f"usage: femgpu {arguments[0]}" in capsys.readouterr().out


def timing(what, blocks=0, batches=0, median=1e-3):
    schedule, error = "transposed" if blocks else "cell", float("nan") if what == "fused" else 1e-7
    return Timing(what, schedule, "plan", blocks, batches, "stored", 1000, 15, median, median, 82, 51, 48, error)


@pytest.fixture
def result(monkeypatch):
    """What a benchmark would measure."""
    timings = [timing("evector", blocks, batches, 1e-3 / blocks) for blocks in (4, 8) for batches in ex12.BATCHES]
    timings += [timing("fused", 4, 16), timing("fused"), timing("evector")]
    cases = [
        ex12.Case("triangle", "poisson", "single", 500, timings),
        ex12.Case("tetrahedron", "elasticity", "double", 500, timings),
    ]
    made = ex12.Result("[0] some device", 1e12, cases)
    asked = []
    monkeypatch.setattr(ex12, "run", lambda *arguments: asked.append(arguments) or made)
    return made, asked


def test_bench_writes_a_report(capsys, tmp_path, result, monkeypatch):
    made, asked = result
    assert main(["bench", "ex12", "--blocks", "4,8", "--out", str(tmp_path / "new")]) == 0
    default = None if runtime.current().device.is_gpu else 1e4
    everything = ("triangle", "tetrahedron"), ("poisson", "elasticity"), ("single", "double")
    assert asked == [(runtime.current(), *everything, default, (4, 8))]
    shown = capsys.readouterr().out
    assert made.text() in shown
    files = {path.suffix: path for path in (tmp_path / "new").iterdir()}
    assert set(files) == {".csv", ".json", ".png"} and all(str(path) in shown for path in files.values())
    assert len(files[".csv"].read_text().splitlines()) == len(made.rows()) + 1
    record = json.loads(files[".json"].read_text(), parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert record["device"]["name"] == runtime.current().device.name
    assert {"femgpu", "petsc", "pyopencl", "numpy"} <= set(record["versions"]) and record["date"]
    assert len(record["timings"]) == len(made.rows())
    assert files[".png"].read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    given = ["--cell", "tetrahedron", "--problems", "elasticity", "--precision", "double", "--cells", "1e3", "--out", str(tmp_path)]
    assert main(["bench", "ex12", *given]) == 0
    assert asked[1][1:] == (["tetrahedron"], ["elasticity"], ("double",), 1000.0, ex12.BLOCKS)
    assert {path.suffix for path in tmp_path.glob("*.*")} == {".csv", ".json"}


def test_bench_of_launches(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "host_seconds", lambda *given: costs.host_seconds(*given, 5, 1))
    recording = runtime.current().profiling
    assert main(["bench", "launch", "--out", str(tmp_path)]) == 0
    assert "microseconds of host time" in capsys.readouterr().out
    assert runtime.current().profiling == recording
    files = {path.suffix: path for path in tmp_path.iterdir()}
    assert set(files) == {".csv", ".json", ".png"}
    record = json.loads(files[".json"].read_text())
    assert record["driver_called_directly"] and {"fill", "copy", "read 8 bytes", "action, gather, 3 launches: buffers"} <= {
        t["what"] for t in record["timings"]
    }
    for timing in record["timings"]:
        assert timing["us"] > 0 and timing["us_profiling"] > 0


def test_bench_of_assembly(capsys, tmp_path, monkeypatch):
    """One case; the matrix is checked in the same run."""
    monkeypatch.setattr(assembly, "CASES", assembly.CASES[:1])
    assert main(["bench", "assembly", "--cells", "300", "--out", str(tmp_path)]) == 0
    assert "symbolic s" in capsys.readouterr().out
    files = {path.suffix: path for path in tmp_path.iterdir()}
    assert set(files) == {".csv", ".json", ".png"}
    (timing,) = json.loads(files[".json"].read_text())["timings"]
    assert (timing["cells"], timing["dofs"], timing["chunks"]) == (384, 125, 1) and timing["error"] < 1e-13
    assert all(timing[name] > 0 for name in timing if name.endswith("Mcells") or name.endswith("_s"))


@pytest.mark.parametrize(
    ("workload", "given", "takes"),
    [
        ("assembly", ["--degrees", "2"], "--out, --cells, --precision"),
        ("bp30", ["--dofs", "1e3"], "--out, --degrees, --cells, --schedules, --plans, --precision"),
        ("cg", ["--tuned"], "--out, --cell, --degrees, --dofs, --problems"),
    ],
)
def test_what_a_workload_does_not_take(capsys, tmp_path, workload, given, takes):
    assert main(["bench", workload, *given, "--out", str(tmp_path)]) == 1
    assert f"bench {workload} takes no {given[0]}; expected {takes}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_bench_of_cg(capsys, tmp_path):
    """One operator; the solution is compared with PETSc's in the same run."""
    given = ["--cell", "tetrahedron", "--degrees", "1", "--dofs", "300", "--out", str(tmp_path)]
    assert main(["bench", "cg", *given, "--problems", "BP2"]) == 0
    assert "GDOF/s" in capsys.readouterr().out
    files = {path.suffix: path for path in tmp_path.iterdir()}
    assert set(files) == {".csv", ".json", ".png"}
    (timing,) = json.loads(files[".json"].read_text())["timings"]
    assert (timing["problem"], timing["dofs"], timing["vectors"]) == ("BP2", 648, "seq") and timing["error"] < 1e-9
    assert all(timing[name] > 0 for name in ("iteration_us", "operator_us", "kernels_us", "model_us", "native_us", "GDOFs"))
    parts = timing["operator_us"] + timing["kernels_us"] + timing["gap_us"]
    assert parts == pytest.approx(timing["iteration_us"])
    assert main(["bench", "cg", *given, "--problems", "BP5"]) == 1
    assert "Gauss-Lobatto points exist on hexahedra only" in capsys.readouterr().err


def test_bench_of_solves(capsys, tmp_path):
    """Two solvers of one problem, whose solutions are compared, and the levels of multigrid."""
    given = ["--cell", "tetrahedron", "--degrees", "2", "--dofs", "300", "--problems", "poisson", "--solvers", "femgpu", "jacobi"]
    assert main(["bench", "solve", *given, "--out", str(tmp_path)]) == 0
    assert "Mdof/s" in capsys.readouterr().out
    files = {path.suffix: path for path in tmp_path.iterdir()}
    assert set(files) == {".csv", ".json", ".png"}
    own, jacobi = json.loads(files[".json"].read_text())["timings"]
    assert own["levels"][0]["what"] == "degree 2" and not jacobi["levels"]
    assert own["dofs"] == jacobi["dofs"] == 343 and 0 < own["iterations"] < jacobi["iterations"]
    for timing in (own, jacobi):
        assert timing["first_solve_s"] >= timing["first_setup_s"] and timing["total_s"] >= timing["setup_s"] + timing["solve_s"]
        assert 0 < timing["kernels"]


def test_bench_of_solves_by_fields(capsys, tmp_path):
    """Levels are the velocity's; solvers that are not for saddle points are left out."""
    given = ["--cell", "tetrahedron", "--dofs", "200", "--problems", "stokes", "--solvers", "femgpu", "jacobi"]
    assert main(["bench", "solve", *given, "--degrees", "2", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*.json")
    (timing,) = json.loads(path.read_text())["timings"]
    assert (timing["dofs"], timing["levels"][0]["dofs"]) == (402, 375) and 0 < timing["iterations"] < 60
    assert main(["bench", "solve", *given, "--degrees", "1", "--out", str(tmp_path)]) == 1
    assert "the pressure's degree is one less" in capsys.readouterr().err


def test_bench_of_launches_on_a_queue_of_another_library(monkeypatch):
    chosen = runtime.current()
    other = runtime.Runtime(chosen.device, chosen.context, chosen.queue)
    monkeypatch.setattr(launch, "host_seconds", lambda *given: costs.host_seconds(*given, 2, 1))
    for timing in launch.run(other, {}).timings:
        assert (timing.us > 0) != (timing.us_profiling > 0)


def test_bench_refuses_its_folder_before_it_measures(capsys, tmp_path, result):
    (tmp_path / "file").write_text("")
    assert main(["bench", "ex12", "--out", str(tmp_path / "file" / "out")]) == 1
    assert "cannot make this folder" in capsys.readouterr().err and not result[1]


@pytest.fixture
def script(tmp_path):
    (tmp_path / "beside.py").write_text("")

    def write(end, salt="1.25"):
        path = tmp_path / "solve_it.py"
        path.write_text(_SCRIPT.format(end=end, salt=salt))
        return path

    return write


def test_warmup_builds_what_a_run_needs(script, tmp_path):
    cache = tmp_path / "cache"
    path = script("try:\n    problem.solve()\nexcept Exception:\n    pass\nraise AssertionError('after the solve')")
    done = run("warmup", path, "-dm_plex_box_faces", "2,3", begin=_STORING, FEMGPU_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    # Residual, action and what it keeps, matrix and its sum, lists, the kernels between vectors: without conditions no diagonal.
    assert "7 programs built, 0 found in the cache" in done.stdout and str(cache) in done.stdout
    assert len(list(cache.iterdir())) == 7
    again = run("warmup", path, "-dm_plex_box_faces", "2,3", begin=_STORING, FEMGPU_CACHE_DIR=str(cache))
    assert "0 programs built, 7 found in the cache" in again.stdout
    path = script("problem.solve()\nassert problem.runtime.programs.num_compiled == 0")
    command = [sys.executable, str(path), "-dm_plex_box_faces", "2,3"]
    environment = {**CHILD_ENVIRONMENT, "FEMGPU_CACHE_DIR": str(cache)}
    text = path.read_text().replace("import sys\n", "import sys, petsc4py\npetsc4py.init(sys.argv)\n", 1)
    path.write_text(_STORING + text)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "end",
    [
        "femgpu.LinearProblem(inner(w := ufl.TrialFunction(V), v) * dx == v * dx).solve()\nassert False",
        "femgpu.TimeProblem(femgpu.time_derivative(u) * v * dx + u * v * dx, u).solve(1.0, 0.5)\nassert False",
        "assert femgpu.assemble(u * dx) == 0.0 and abs(femgpu.assemble(v * dx).sum() - 1) < 1e-12",
        "assert femgpu.project(u + 1, V).vec.sum() > 11.9",
    ],
    ids=["LinearProblem", "TimeProblem", "assemble", "project"],
)
def test_warmup_of_all_that_has_kernels(script, end):
    done = run("warmup", script(end), "-dm_plex_box_faces", "2,3")
    assert done.returncode == 0 and re.match(r"[1-9]\d* programs built", done.stdout), done.stderr


def test_help_of_scripts_and_of_the_command():
    """Every script that reads options shows them, once; so does the command, without PETSc."""
    script = "import sys, petsc4py\npetsc4py.init(sys.argv)\nimport femgpu\n"
    script += "dm = femgpu.mesh.box((1, 1))\nfor _ in range(2): femgpu.assemble(femgpu.coordinates(dm)[0] * __import__('ufl').dx)"
    done = subprocess.run(
        [sys.executable, "-c", script, "-help"], env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=200
    )
    assert done.stdout.count(options.help_text()) == 1
    assert options.help_text() in run("--help", blocked=("petsc4py", "pyopencl")).stdout


def test_warmup_says_who_keeps_the_kernels(monkeypatch, tmp_path):
    monkeypatch.setenv("FEMGPU_CACHE_DIR", str(tmp_path))
    for keeps, said in ((True, "kept by the driver"), (False, f"kept in {tmp_path}")):
        monkeypatch.setattr(runtime.Device, "caches_programs", keeps)
        assert said in warmup._report(runtime.current())


@pytest.mark.parametrize(
    "end, code, said",
    [
        ("", 0, "the script ended without a solve"),
        ("sys.exit(7)", 7, ""),
        ("femgpu.mesh.read('no.msh')", 1, "MeshError"),
    ],
)
def test_warmup_of_scripts_that_fail(script, end, code, said):
    done = run("warmup", script(end), "-dm_plex_box_faces", "2,3")
    assert done.returncode == code and said in done.stdout + done.stderr


def test_warmup_of_a_script_that_is_not_there(capsys):
    assert main(["warmup", "nowhere.py"]) == 1
    assert "no such file" in capsys.readouterr().err


def test_lists_are_numbers_with_commas(capsys, tmp_path):
    for given, said in (
        (
            ["tets", "--degrees", "1", "2"],
            "2: no such argument of bench; --degrees and --blocks take numbers with commas, as in 1,2",
        ),
        (["ex12", "--blocks", "4,x"], "argument --blocks: 4,x: expected numbers from 1, with commas, as in 1,2"),
        (["ex12", "--blocks", "0,1"], "0,1: expected numbers from 1"),
    ):
        with pytest.raises(SystemExit):
            main(["bench", *given, "--out", str(tmp_path)])
        assert said in capsys.readouterr().err
