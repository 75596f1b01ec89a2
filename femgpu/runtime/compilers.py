"""Processes that compile beside this one.

A GPU's compiler is the driver's, and holds locks of its own: NVIDIA's builds 25 programs in 6 s one after the other, in 4.8 s in
eight threads of a process, and in 1.4 s in four processes, after 1.2 s in which they start. The machine code is in the driver's
cache by then, from which this process loads it at once.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyopencl as cl

from femgpu.runtime import compiler

# The interpreter's name: a program that embeds Python is none, and is not to be started once more.
_INTERPRETER = re.compile(r"python[\d.]*")


class Child:
    """A process that runs `compiler`.

    Args:
        arguments: its device and the compiler's options.

    Raises:
        OSError: when it cannot be started.
    """

    def __init__(self, arguments: list[str]):
        here, there = socket.socketpair()
        with there:
            # In a session of its own, where Ctrl-C in a terminal does not reach it.
            self.process = subprocess.Popen(
                [sys.executable, "-P", compiler.__file__, *arguments],
                stdin=there.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._socket, self._answers = here, here.makefile("rb")

    def ask(self, source: str) -> tuple[bytes, str] | None:
        """Binary, empty where there is none, and log of a source; None when the process is gone."""
        with contextlib.suppress(OSError):
            # Without the signal of a broken pipe, at which PETSc ends the job.
            self._socket.sendall(pickle.dumps(source), socket.MSG_NOSIGNAL)
        return self.answer()

    def answer(self) -> Any:
        """What it says next; None when it is gone."""
        try:
            return pickle.load(self._answers)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def end(self) -> None:
        """Ends it, unless it has already."""
        self.process.kill()
        self.process.wait()
        self._answers.close()
        self._socket.close()


class Compilers:
    """Some processes, started when they are wanted; while none is ready this process compiles, one program at a time.

    Args:
        handle: the device.
        options: for its compiler.
    """

    def __init__(self, handle: cl.Device, options: str):
        found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        self._arguments = [str(found.index(handle)), options] if handle in found else []
        self._change = threading.Condition()
        self._children: list[Child] = []
        # Those that have said that they are ready, and those of them that have nothing to do; whether somebody compiles here.
        self._ready: set[Child] = set()
        self._idle: list[Child] = []
        self._here = False
        weakref.finalize(self, _end, self._children)

    def start(self, count: int) -> bool:
        """Starts processes until there are so many, as far as they can be started.

        Returns:
            Whether there are any.
        """
        for child in [child for child in self._children if child.process.poll() is not None]:
            self._drop(child)
        if not self._arguments or not _INTERPRETER.fullmatch(Path(sys.executable or "").name):
            return False
        with contextlib.suppress(OSError):
            while len(self._children) < count:
                child = Child(self._arguments)
                self._children.append(child)
                threading.Thread(target=_greet, args=(weakref.ref(self), child), daemon=True).start()
        return bool(self._children)

    @contextlib.contextmanager
    def turn(self) -> Iterator[Child | None]:
        """Waits for a process; as long as none is ready, for the place of the one program that is compiled here: None."""
        with self._change:
            self._change.wait_for(lambda: self._idle or not (self._ready or self._here))
            child = self._idle.pop() if self._idle else None
            self._here = self._here or child is None
        try:
            yield child
        finally:
            with self._change:
                if child is None:
                    self._here = False
                elif child in self._ready:
                    self._idle.append(child)
                self._change.notify_all()

    def compile(self, child: Child | None, source: str) -> tuple[bytes, str]:
        """Binary and log of a source from a process; an empty binary where it gives none."""
        answer = child.ask(source) if child else (b"", "")
        if child and answer is None:
            self._drop(child)
        return answer or (b"", "")

    def _welcome(self, child: Child) -> None:
        with self._change:
            self._ready.add(child)
            self._idle.append(child)
            self._change.notify_all()

    def _drop(self, child: Child) -> None:
        with self._change:
            self._ready.discard(child)
            for among in (self._idle, self._children):
                if child in among:
                    among.remove(child)
            self._change.notify_all()
        child.end()


def _greet(compilers: weakref.ref[Compilers], child: Child) -> None:
    """Waits until a process says that it is ready."""
    ready = child.answer() is not None
    if (found := compilers()) is not None:
        (found._welcome if ready else found._drop)(child)


def _end(children: list[Child]) -> None:
    for child in children:
        child.end()
