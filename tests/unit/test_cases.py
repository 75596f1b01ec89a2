"""The cases of a workload, and who stops them."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from femgpu.bench.cases import each_case


@pytest.fixture(autouse=True)
def _handlers():
    """Python's own: gmsh, say, has Ctrl-C end the process, and a job in the background ignores it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cases_end_after_the_one_under_way(number, capsys):
    before, done = signal.getsignal(number), []
    for case in each_case(range(5), "test"):
        if case == 1:
            os.kill(os.getpid(), number)
        done.append(case)
    assert done == [0, 1]
    assert f"stopped by {number.name}" in capsys.readouterr().err
    assert signal.getsignal(number) == before


def test_who_asks_twice_does_not_wait():
    with pytest.raises(KeyboardInterrupt):
        for _ in each_case(iter(range(5)), "test", total=5):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)


def test_cases_of_another_thread():
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(lambda: list(each_case("abc", "test"))).result() == list("abc")


def test_cases_that_nobody_stops(capsys):
    assert list(each_case("abc", "test")) == list("abc")
    assert not capsys.readouterr().err
