"""Processes that compile beside this one.

A GPU's compiler is the driver's, and holds locks of its own: NVIDIA's builds 25 programs in 6 s one after the other, in 4.8 s in
eight threads of a process, and in 1.4 s in four processes. The machine code is in the driver's cache by then, from which this
process loads it at once.

Processes are given sources while they start, and some in advance: they go on where this one holds Python's lock, in PETSc say.
"""

from __future__ import annotations

import contextlib
import pickle
import re
import socket
import subprocess
import sys
import threading
import weakref
from collections import deque
from concurrent.futures import CancelledError, Future, InvalidStateError
from pathlib import Path
from typing import Any

import pyopencl as cl

from femgpu.runtime import compiler
from femgpu.runtime.calls import library

# The interpreter's name: a program that embeds Python is none, and is not to be started once more.
_INTERPRETER = re.compile(r"python[\d.]*")
# Sources that a process is given in advance, the one that it compiles included.
_DEPTH = 3

# Binary, empty where there is none, and log.
Answer = Future[tuple[bytes, str]]


class Child:
    """A process that runs `compiler`.

    Args:
        arguments: library of OpenCL, and device.

    Attributes:
        asked: what it has been given and not answered, in this order.
        ready: whether it has started.
        answers: the stream of what it says, which who reads it closes.

    Raises:
        OSError: when it cannot be started.
    """

    def __init__(self, arguments: list[str]):
        here, there = socket.socketpair()
        with there:
            # Without packages; in a session of its own, where Ctrl-C in a terminal does not reach it.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", compiler.__file__, *arguments],
                stdin=there.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.asked: deque[Answer] = deque()
        self.ready = False
        self._socket, self.answers = here, here.makefile("rb")

    def send(self, asked: tuple[str, bytes]) -> None:
        """Gives it a source and the compiler's options; it may be gone."""
        with contextlib.suppress(OSError):
            # Without the signal of a broken pipe, at which PETSc ends the job.
            self._socket.sendall(pickle.dumps(asked), socket.MSG_NOSIGNAL)

    def finish(self) -> None:
        """Lets it end by itself when it has answered all that it was asked."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def answer(self) -> Any:
        """What it says next; None when it is gone."""
        try:
            return pickle.load(self.answers)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return None

    def end(self) -> None:
        """Ends it, unless it has already; does not wait until the device is rid of it, some tenths of a second."""
        self.process.kill()
        self._socket.close()
        for answer in self.asked:
            _give_up(answer)


class Compilers:
    """Some processes, started when they are wanted.

    Args:
        handle: the device.
    """

    def __init__(self, handle: cl.Device):
        found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        usable = handle in found and library() is not None
        self._arguments = [cl._cl.__file__, str(found.index(handle))] if usable else []
        self._change = threading.RLock()
        self._released = False
        self._children: list[Child] = []
        self._waiting: deque[tuple[tuple[str, bytes], Answer]] = deque()
        weakref.finalize(self, _end, self._children, self._waiting)

    def start(self, count: int) -> bool:
        """Starts processes until there are so many, as far as they can be started.

        Returns:
            Whether there are any.
        """
        for child in [child for child in self._children if child.process.poll() is not None]:
            self._drop(child)
        if not self._arguments or not _INTERPRETER.fullmatch(Path(sys.executable or "").name):
            return False
        self._released = False
        with contextlib.suppress(OSError):
            while len(self._children) < count:
                child = Child(self._arguments)
                self._children.append(child)
                threading.Thread(target=_listen, args=(weakref.ref(self), child), daemon=True).start()
        return bool(self._children)

    def ask(self, source: str, options: bytes) -> Answer:
        """Has a source compiled with options, after those that were asked for before.

        Returns:
            Its binary and log, an empty binary where no process gives one. It can be cancelled until one has begun with it.
        """
        answer = Answer()
        with self._change:
            self._waiting.append(((source, options), answer))
            self._hand_out()
        return answer

    def release(self) -> None:
        """Lets the processes end when all that was asked for is compiled.

        A driver takes a twentieth of a second to clear up after each, and who ends beside them waits for that.
        """
        with self._change:
            self._released = True
            self._hand_out()

    def _hand_out(self) -> None:
        """Gives sources to the processes that have least of them; where there is none, says so."""
        while self._waiting:
            child = min(self._children, key=lambda child: len(child.asked), default=None)
            if child is not None and len(child.asked) == _DEPTH:
                return
            asked, answer = self._waiting.popleft()
            if child is None:
                _give_up(answer)
            elif not answer.cancelled():
                child.asked.append(answer)
                child.send(asked)
                _begin(child)
        if self._released:
            for child in self._children:
                child.finish()
            self._children.clear()

    def _take(self, child: Child, said: Any) -> None:
        """Hands on what a process said."""
        with self._change:
            if child.ready:
                answer = child.asked.popleft()
                if not answer.cancelled():
                    answer.set_result(said)
            child.ready = True
            _begin(child)
            self._hand_out()

    def _drop(self, child: Child) -> None:
        """Lets a process go."""
        with self._change:
            if child in self._children:
                self._children.remove(child)
            child.end()
            self._hand_out()


def result(answer: Answer) -> tuple[bytes, str]:
    """Binary and log when they are there; an empty binary where the question was taken back."""
    try:
        return answer.result()
    except CancelledError:
        return b"", ""


def _begin(child: Child) -> None:
    """Marks what a process compiles now, which cannot be taken back any more."""
    if child.ready and child.asked and not (child.asked[0].running() or child.asked[0].cancelled()):
        child.asked[0].set_running_or_notify_cancel()


def _give_up(answer: Answer) -> None:
    """Says that no process compiles a source."""
    with contextlib.suppress(InvalidStateError):
        answer.set_result((b"", ""))


def _listen(compilers: weakref.ref[Compilers], child: Child) -> None:
    """Hands on what a process says until it is gone, and sees it off."""
    with child.answers:
        said = child.answer()
        while (found := compilers()) is not None:
            if said is None:
                found._drop(child)
                break
            found._take(child, said)
            del found
            said = child.answer()
    child.process.wait()


def _end(children: list[Child], waiting: deque[tuple[tuple[str, bytes], Answer]]) -> None:
    for child in children:
        child.end()
    for _, answer in waiting:
        _give_up(answer)
