"""Exceptions and interrupts in the middle of a solve come out as themselves, and leave solvers that work."""

import gc
import signal
from collections import Counter
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from mpi4py import MPI
from small_problems import heat, poisson

from femgpu.errors import collective


@contextmanager
def eager_collector():
    """Python's collector of garbage runs wherever it may, and calls somebody: it drops an exception that waits inside PETSc."""
    before = gc.get_threshold()
    gc.callbacks.append(caller := lambda phase, info: None)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(caller)


@pytest.mark.parametrize("exception", [KeyboardInterrupt(), SystemExit(3), ValueError("mine")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("make", [poisson, heat])
def test_exceptions_inside_a_solve(monkeypatch, make, exception):
    """They come out as themselves, from monitors, products and residuals, and leave the problem as good as new."""
    problem = make()
    arguments = (1.0, 0.5) if make is heat else ()
    start = problem.u.vec.array_r.copy()
    problem.solve(*arguments)
    expected, armed = problem.u.vec.array_r.copy(), []

    def fail(*_):
        if armed:
            raise exception

    def restart():
        problem.u.vec.setArray(start)
        if make is heat:
            problem.t.value = 0.0

    problem.snes.setMonitor(lambda snes, i, norm: fail() if "snes" in armed else None)
    problem.snes.getKSP().setMonitor(lambda ksp, i, norm: fail() if "ksp" in armed else None)
    plain = {name: getattr(problem.operator, name) for name in ("action", "residual")}
    for name, function in plain.items():
        monkeypatch.setattr(
            problem.operator, name, lambda *a, name=name, function=function: fail() if name in armed else function(*a)
        )
    for where in ("snes", "ksp", "action", "residual"):
        armed[:] = [where]
        restart()
        with eager_collector(), pytest.raises(type(exception)) as caught:
            problem.solve(*arguments)
        assert caught.value is exception
        armed.clear()
        restart()
        problem.solve(*arguments)
        assert np.abs(problem.u.vec.array_r - expected).max() <= 1e-8 * np.abs(expected).max(), where


@pytest.mark.parametrize("make", [poisson, heat])
def test_a_method_that_restarts_begins_anew(monkeypatch, set_options, make):
    """GMRES takes what it has for a guess when it restarts, and is left there."""
    set_options(ksp_type="gmres", ksp_gmres_restart=2, pc_type="none", ksp_max_it=100000, ksp_rtol=1e-10)
    problem = heat() if make is heat else poisson(degree=3)
    arguments = (1.0, 0.5) if make is heat else ()
    start, ksp, count = problem.u.vec.array_r.copy(), problem.snes.getKSP(), Counter()
    problem.solve(*arguments)
    expected, action = problem.u.vec.array_r.copy(), problem.operator.action

    def interrupted(*args):
        count["products"] += 1
        if count["products"] == 6:
            assert ksp.getInitialGuessNonzero()
            raise KeyboardInterrupt
        action(*args)

    monkeypatch.setattr(problem.operator, "action", interrupted)
    for again in range(2):
        problem.u.vec.setArray(start)
        if make is heat:
            problem.t.value = 0.0
        with nullcontext() if again else pytest.raises(KeyboardInterrupt):
            problem.solve(*arguments)
    assert not ksp.getInitialGuessNonzero()
    assert np.abs(problem.u.vec.array_r - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parallel(nprocs=2)
@pytest.mark.parametrize("make", [poisson, heat])
@pytest.mark.parametrize(
    "ksp", [{"ksp_type": "cg"}, {"ksp_type": "python", "ksp_python_type": "femgpu.CG"}], ids=lambda o: o["ksp_type"]
)
def test_monitors_that_raise_are_called_again(set_options, make, ksp):
    set_options(**ksp)
    problem, calls, armed = make(None), Counter(), {}
    arguments = (1.0, 0.5) if make is heat else ()

    def monitor(name):
        def called(*_):
            calls[name] += 1
            if name in armed:
                armed[name]()

        return called

    def interrupt():
        signal.raise_signal(signal.SIGINT)

    def fail():
        raise ValueError("mine")

    def solve():
        problem.u.vec.set(1.0)
        if make is heat:
            problem.t.value = 0.0
        calls.clear()
        problem.solve(*arguments)
        return dict(calls)

    solvers = {"snes": problem.snes, "ksp": problem.snes.getKSP()} | ({"ts": problem.ts} if make is heat else {})
    for name, solver in solvers.items():
        solver.setMonitor(monitor(name))
    expected = solve()
    assert set(expected) == set(solvers)
    for name in solvers:
        for action, kind, around in ((interrupt, KeyboardInterrupt, nullcontext), (fail, ValueError, eager_collector)):
            armed[name] = action
            with around(), pytest.raises(kind):
                solve()
            armed.clear()
            assert solve() == expected


@pytest.mark.parametrize(
    "options",
    [
        {"pc_type": "gamg", "femgpu_pmat": "assembled"},
        {"ksp_type": "fgmres", "pc_type": "ksp", "ksp_ksp_type": "cg", "ksp_pc_type": "jacobi"},
    ],
    ids=lambda options: options["pc_type"],
)
def test_exceptions_inside_the_preconditioner(monkeypatch, options):
    """However often they come, the problem works again."""
    problem = poisson(petsc_options=options)
    problem.solve()
    expected, action = problem.u.vec.array_r.copy(), problem.operator.action
    for number in (0, 1, 2, 2, 2):
        calls = iter(range(number))

        def fail(*arguments, calls=calls):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return action(*arguments)

        monkeypatch.setattr(problem.operator, "action", fail)
        problem.u.vec.set(0.0)
        with pytest.raises(KeyboardInterrupt):
            problem.solve()
    monkeypatch.setattr(problem.operator, "action", action)
    problem.u.vec.set(0.0)
    problem.solve()
    assert np.abs(problem.u.vec.array_r - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parallel(nprocs=2)
@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit])
def test_ends_of_one_rank_end_all(exception):
    world = MPI.COMM_WORLD
    with pytest.raises(exception) as caught, collective(world):
        if world.rank == 1:
            raise exception(7)
    assert caught.value.args == ((7,) if exception is SystemExit or world.rank == 1 else ("7",))
    problem = poisson(None)
    problem.bcs[0].value = lambda x: exit(5) if world.rank == 0 else 0 * x[0]
    with pytest.raises(SystemExit) as caught:
        problem.solve()
    assert caught.value.code == 5
