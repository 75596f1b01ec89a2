"""Programs that are built side by side, in threads and by other processes: the same ones, the same errors, each once."""

import ctypes
import gc
import re
import signal
import socket
import sys
import threading
import time
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from build_support import SOURCE, WRONG, Builds, nobody_builds, value

from femgpu import caches, runtime
from femgpu.errors import BuildError, DeviceError
from femgpu.runtime import Runtime, compiler, program, programs
from femgpu.runtime.resources import Resources, parse_log


def test_programs_are_built_in_threads_and_each_once(threaded, monkeypatch):
    builds, made = Builds(monkeypatch), threaded()
    sources = [(SOURCE % number, f"put{number}") for number in range(4)]
    made.build_ahead(sources)
    made.build_ahead(sources[::-1])
    assert [value(made, source) for source, _ in sources] == list(range(4))
    assert sorted(builds.names) == [name for _, name in sources]
    assert (made.programs.num_programs, made.programs.num_compiled) == (4, 4)
    made.build_ahead(sources)
    assert len(builds.names) == 4 and not made.programs._ahead
    again = threaded()
    again.build_ahead(sources)
    assert [value(again, source) for source, _ in sources] == list(range(4))
    assert (again.programs.num_programs, again.programs.num_compiled) == (4, 0)


def test_a_kernel_waits_for_its_program_where_it_is_launched(threaded):
    """Not where it is made, and arguments may change until then; a program that is refused is told of there."""
    made = threaded()
    made.build_ahead([(SOURCE % 3, "put"), (WRONG, "wrong")])
    x, y = (made.upload(np.zeros(1)) for _ in range(2))
    kernel, wrong = runtime.Kernel(made, SOURCE % 3, "put", [x], 1, 1), runtime.Kernel(made, WRONG, "put", [x], 1, 1)
    kernel.set(0, y)
    assert made.programs.num_programs == 0 and kernel.global_size == 1
    kernel()
    kernel.bound({0: x})()
    assert [made.read(buffer, np.empty(1))[0] for buffer in (x, y)] == [3, 3] and kernel.launches == 2
    for launch in (wrong, wrong.build, lambda: wrong.bound({0: y})):
        with pytest.raises(BuildError, match="refuses kernel"):
            launch()


def test_a_kernel_watches_itself_or_not_as_when_it_was_made(threaded):
    """Another problem, with `-femgpu_debug` or without, may come before its first launch."""
    made = threaded()
    for debug in (False, True):
        made.debug(debug)
        x = made.upload(np.zeros(1))
        kernel = runtime.Kernel(made, SOURCE % 3, "put", [x], 1, 1)
        made.debug(not debug)
        kernel()
        assert made.read(x, np.empty(1))[0] == 3


def test_threads_end_when_nothing_is_left(threaded, monkeypatch):
    builds, made = Builds(monkeypatch), threaded()
    made.build_ahead([(SOURCE % 1, "put")])
    made.build(SOURCE % 1, "put")
    end = time.monotonic() + 10
    while not nobody_builds() and time.monotonic() < end:
        time.sleep(0.01)
    assert nobody_builds() and builds.threads[0] is not threading.main_thread()


def test_what_no_thread_has_begun_with_is_built_by_who_needs_it(threaded, monkeypatch):
    builds, made = Builds(monkeypatch, seconds=0.2), threaded()
    made.programs.threads = 1
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(3)])
    made.build(SOURCE % 2, "put2")
    assert builds.threads[builds.names.index("put2")] is threading.main_thread()
    assert value(made, SOURCE % 0) == 0 and value(made, SOURCE % 1) == 1 and sorted(builds.names) == ["put0", "put1", "put2"]


def test_pocl_builds_what_is_asked_for_and_nothing_else(monkeypatch):
    builds, made = Builds(monkeypatch), Runtime(runtime.current().device, runtime.current().context)
    if not made.device.caches_programs:
        pytest.skip("the device is not PoCL's")
    made.build_ahead([(SOURCE % 1, "put")])
    assert not builds.names and nobody_builds()


def test_an_error_waits_for_who_asks(threaded):
    made, wrong, said = threaded(), WRONG, []
    for ahead in (False, True):
        if ahead:
            made.build_ahead([(wrong, "wrong"), (SOURCE % 1, "put")])
            assert value(made, SOURCE % 1) == 1
        with pytest.raises(BuildError, match="(?s)refuses kernel wrong; its source is in .*nothing_like_that") as failure:
            made.build(wrong, "wrong")
        said.append(str(failure.value))
        assert re.search(r"line 1: error: use of undeclared .*: __kernel void put\(", said[-1])
    assert said[0] == said[1]


def test_an_interrupt_leaves_the_rest(threaded, monkeypatch):
    builds, made = Builds(monkeypatch, seconds=0.3), threaded()
    made.programs.threads, made.programs.processes = 1, 0
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(4)])
    while not builds.names:
        time.sleep(0.001)
    future, _ = next(iter(made.programs._ahead.values()))
    monkeypatch.setattr(future, "result", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        made.build(SOURCE % 0, "put0")
    assert not made.programs._ahead
    assert value(made, SOURCE % 3) == 3 and set(builds.names) == {"put0", "put"}


def test_programs_that_nobody_asks_for_go(threaded, monkeypatch):
    monkeypatch.setattr(programs, "PROGRAMS", 2)
    made = threaded()
    made.build_ahead([(SOURCE % number, "put") for number in range(5)])
    for future, _ in list(made.programs._ahead.values()):
        future.result()
    made.build_ahead([(SOURCE % 5, "put")])
    assert len(made.programs._ahead) <= 3


def test_a_forked_child_does_not_wait(threaded, monkeypatch):
    made = threaded()
    made.build_ahead([(SOURCE % 1, "put")])
    monkeypatch.setattr("femgpu.forks._forked", True)
    with pytest.raises(DeviceError, match="forked"):
        made.build(SOURCE % 1, "put")


@pytest.fixture
def helped(threaded, monkeypatch):
    """Such a runtime with two processes that compile, and a list of what is compiled in this one all the same."""
    made, here, plain = threaded(), [], program._compile_here
    monkeypatch.setattr(program, "_compile_here", lambda *args: here.append(args[3]) or plain(*args))
    compilers = made.programs._compilers
    assert compilers.start(2)
    end = time.monotonic() + 60
    while not all(child.ready for child in compilers._children) and time.monotonic() < end:
        time.sleep(0.01)
    assert [child.ready for child in compilers._children] == [True, True]
    return made, here, list(compilers._children)


def test_other_processes_compile(helped, tmp_path):
    made, here, children = helped
    made.programs.dump_folder = str(tmp_path / "dump")
    sources = [(SOURCE % number, f"put{number}") for number in range(6)]
    made.build_ahead(sources)
    while any(not future.done() for future, _ in made.programs._ahead.values()):
        time.sleep(0.01)
    # Threads of the tests before may still compile.
    assert not {name for _, name in sources} & set(here)
    assert [value(made, source) for source, _ in sources] == list(range(6))
    assert made.programs.num_compiled == 6 and len(list(tmp_path.glob("dump/*.log"))) == 6
    # Both wait for more; without this process they end by themselves.
    assert all(child.process.poll() is None for child in children)
    children[0]._socket.shutdown(socket.SHUT_WR)
    assert children[0].process.wait(10) in (0, -signal.SIGKILL)
    assert made.programs._compilers.start(0) and made.programs._compilers._children == children[1:]


def test_processes_compile_what_they_have_while_this_one_holds_pythons_lock(helped):
    made, here, _ = helped
    made.programs.processes = 2
    # As PETSc holds it; longer where the processes start beside much else.
    for first, seconds in ((0, 8), (5, 16), (10, 32)):
        numbers = range(first, first + 5)
        made.build_ahead([(SOURCE % number, f"held{number}") for number in numbers])
        ctypes.PyDLL(None).sleep(seconds)
        asked = [answer for _, answer in made.programs._ahead.values()]
        time.sleep(0.2)
        if found := all(answer.done() for answer in asked):
            break
        wait(asked, 60)
    assert found and not here
    assert [value(made, SOURCE % number) for number in numbers] == list(numbers)


def test_what_no_process_has_begun_with_is_compiled_by_who_needs_it(threaded, monkeypatch, tmp_path):
    (tmp_path / "asleep.py").write_text("import time; time.sleep(100)")
    made, here, plain = threaded(), [], program._compile_here
    monkeypatch.setattr(program, "_compile_here", lambda *args: here.append(args[3]) or plain(*args))
    monkeypatch.setattr(compiler, "__file__", str(tmp_path / "asleep.py"))
    made.programs.processes = 1
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(5)])
    assert value(made, SOURCE % 2) == 2 and here == ["put2"]
    # Nor does anybody wait for ever when the process goes, or the runtime.
    (child,) = made.programs._compilers._children
    child.process.kill()
    assert value(made, SOURCE % 4) == 4
    child.process.wait(10)  # where much else runs it takes a while to go
    assert not made.programs._compilers.start(0)


def test_what_another_process_cannot_compile_is_compiled_here(helped):
    made, here, children = helped
    made.build_ahead([(WRONG, "wrong")])
    with pytest.raises(BuildError, match="(?s)refuses kernel wrong; .*nothing_like_that"):
        made.build(WRONG, "wrong")
    assert here.count("wrong") == 1
    for child in children:
        child.process.kill()
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(3)])
    assert [value(made, SOURCE % number) for number in range(3)] == [0, 1, 2]
    for child in children:
        child.process.wait(10)
    assert not made.programs._compilers.start(0)


def test_processes_are_started_for_many_programs_and_go_with_the_runtime(threaded):
    made = threaded()
    made.programs.processes = 2
    made.build_ahead([(SOURCE % 0, "put")])
    children = made.programs._compilers._children
    assert not children
    made.build_ahead([(SOURCE % number, "put") for number in range(1, 8)])
    found = list(children)
    assert len(found) == 2 and [value(made, SOURCE % number) for number in range(8)] == list(range(8))
    again = threaded()
    again.programs.processes = 2
    again.build_ahead([(SOURCE % number, "put") for number in range(8)])
    assert not again.programs._compilers._children
    while not nobody_builds():
        time.sleep(0.01)
    del made, children
    gc.collect()
    for child in found:
        child.process.wait(10)


def test_processes_that_are_released_compile_what_they_have_and_end(helped):
    made, here, children = helped
    compilers = made.programs._compilers
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(9)])
    made.programs.release()
    # Nor do they stay in the table of processes; whoever takes them from there knows how they ended a moment later.
    end, known = time.monotonic() + 30, [child.process for child in children]
    while any(Path(f"/proc/{one.pid}").exists() or one.returncode is None for one in known) and time.monotonic() < end:
        time.sleep(0.01)
    assert all(child.process.returncode in (0, -signal.SIGKILL) for child in children)
    while not nobody_builds():
        time.sleep(0.01)
    assert not here and [value(made, SOURCE % number) for number in range(9)] == list(range(9))
    # Others are started where many programs are wanted again, and none of those that have gone is asked.
    made.programs.processes = 1
    made.build_ahead([(SOURCE % number, f"put{number}") for number in range(9, 13)])
    (child,) = compilers._children
    assert child not in children and [value(made, SOURCE % number) for number in range(9, 13)] == list(range(9, 13))


def test_compilers_are_told_of_a_bound_on_registers_where_they_know_the_option():
    device, text = runtime.current().device, "#define MAX_REGISTERS 96\n" + SOURCE % 1
    nvidia = replace(device, is_nvidia=True)
    plain = b" ".join(option.encode() for option in program.OPTIONS)
    found = [program.build_options(*given) for given in ((text, device), (SOURCE % 1, nvidia), (text, nvidia))]
    assert found == [plain, plain + b" -cl-nv-verbose", plain + b" -cl-nv-verbose -cl-nv-maxrregcount=96"]
    assert program.key(text, nvidia) != program.key(SOURCE % 1, nvidia)


def test_a_program_that_embeds_python_is_not_started_again(threaded, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/local/bin/solver")
    assert not threaded().programs._compilers.start(2)


# As NVIDIA's driver writes it of a program with two kernels, one of which calls a function.
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'put' for 'sm_90'
ptxas info    : Function properties for put
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'take' for 'sm_90'
ptxas info    : Function properties for take
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for helper
    16 bytes stack frame, 2 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 380 bytes cmem[0]
"""


def test_logs_say_what_kernels_take():
    found = {"put": Resources(40, 8, 4, 12), "take": Resources(255, 16, 2, 0)}
    assert parse_log(LOG) == found
    assert parse_log("\n".join(line for line in LOG.splitlines() if "Compiling" not in line)) == found
    assert parse_log("") == parse_log("ptxas info : Used 40 registers") == parse_log(LOG.replace("spill", "spilt")) == {}


def test_what_the_compiler_said_stays_beside_the_binary(threaded, monkeypatch, tmp_path):
    """The driver says it only once."""
    monkeypatch.setattr(program, "_log", lambda _: LOG)
    for compiled in (1, 0, 0):
        made = threaded()
        made.programs.dump_folder = str(tmp_path / f"{compiled}")
        kernel = runtime.Kernel(made, SOURCE % 1, "put", [made.upload(np.zeros(1))], 1, 1)
        assert kernel.resources == Resources(40, 8, 4, 12) and made.programs.num_compiled == compiled
        assert [path.read_text() for path in tmp_path.glob(f"{compiled}/*.log")] == [LOG]
        monkeypatch.setattr(program, "_log", lambda _: "")
    for path in caches.cache_folder().glob("*.log"):
        path.unlink()
    made = threaded()
    assert runtime.Kernel(made, SOURCE % 1, "put", [made.upload(np.zeros(1))], 1, 1).resources is None
