"""The programs of a device in this process: kept while they are used, and built side by side where they are known in time.

Compilers of GPUs run in the thread that asks them, outside of Python's lock. So what a problem is going to launch is built in
threads, beside one another and beside the set-up that goes on; who needs a program waits for it, and is told there what went wrong.
Where the cache lacks many of them, the threads let other processes compile (`compilers.py`). The threads end when nothing is left
to build. A process that ends waits for the programs that they have begun.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pyopencl as cl

from femgpu import caches, forks, log
from femgpu.runtime import program
from femgpu.runtime.compilers import Answer, Compilers
from femgpu.runtime.device import Device

# Programs kept that no kernel uses: several problems' worth, at some 0.5 MB each on a CPU. As many are kept that were built ahead.
PROGRAMS = 32
# Compilers that run at once: each takes some hundred megabytes, and a problem has about ten programs.
_THREADS = 8
# Processes that compile for this one, each with a context of its own on the device; programs for which to start them.
_PROCESSES, _MANY = 7, 4

_Built = tuple[cl.Program, bool]


class Programs:
    """Source -> program.

    Args:
        context: the OpenCL context, with one device.
        device: its properties.

    Attributes:
        num_programs: programs loaded or compiled so far, and asked for.
        num_compiled: those of them that the cache did not hold.
        dump_folder: where sources and logs go; empty: nowhere.
        threads: how many build at once; 0: nothing is built before it is asked for. PoCL compiles under a lock of its own, and more
            when a kernel first runs.
        processes: how many compile beside this one, those of other ranks on this node included; 0: the threads do.
        place: number of this process among those of the node that build the same programs, and how many these are. Each begins with
            another part of them, and finds the others' in the cache.
        trial: tells whether PoCL's cache is to be trusted.
    """

    def __init__(self, context: cl.Context, device: Device):
        self.num_programs = self.num_compiled = 0
        self.dump_folder = ""
        self.threads = 0 if device.caches_programs else min(len(os.sched_getaffinity(0)), _THREADS)
        self.processes = max(min(self.threads - 1, _PROCESSES), 0)
        self.place = 0, 1
        self.trial = caches.Trial()
        self._context, self._device = context, device
        self._compilers = Compilers(context.devices[0])
        self._known: weakref.WeakValueDictionary[str, cl.Program] = weakref.WeakValueDictionary()
        self._last: OrderedDict[str, cl.Program] = OrderedDict()
        self._ahead: dict[str, tuple[Future[_Built], Answer | None]] = {}

    def get(self, source: str, name: str) -> cl.Program:
        """The program of a source; kept while a kernel uses it, and the last `PROGRAMS` beyond that.

        Args:
            source: OpenCL C.
            name: for dumps and messages.

        Raises:
            BuildError: with the compiler's log and the path of the source.
            OptionError: when the dump folder cannot be written.
        """
        key = program.key(source, self._device)
        found = self._known.get(key)
        if found is None:
            forks.refuse()
            with log.event("FGBuild"):
                found = self._count(key, *self._take(key, self._builder(source, name, key)))
        self._keep(key, found)
        return found

    def finish(self) -> None:
        """Waits for all that was begun ahead, as if it had been asked for; what was refused is told by `get`."""
        with log.event("FGBuild"):
            for key, (future, _) in list(self._ahead.items()):
                if future.exception() is None:
                    self._keep(key, self._count(key, *future.result()))
                    del self._ahead[key]

    def start(self, programs: Iterable[tuple[str, str]]) -> None:
        """Starts to build programs in threads; `get` takes them from there, and raises what went wrong.

        Args:
            programs: source and name of each, those in front that are wanted first.
        """
        wanted = {program.key(source, self._device): (source, name) for source, name in programs} if self.threads else {}
        keys = [key for key in wanted if key not in self._known and key not in self._ahead]
        if not keys:
            return
        number, count = self.place
        first, end = len(keys) * number // count, len(keys) * (number + 1) // count
        new = [key for key in keys if not program.is_stored(key)]
        helped = self._compilers.start(self.processes // count if len(new) >= _MANY else 0)
        # Where processes compile, threads only wait.
        pool = ThreadPoolExecutor(max(self.threads, (end - first) * helped), thread_name_prefix="femgpu-build")
        # What this rank begins with is asked for here and now: PETSc may keep other threads from Python for a while.
        asks = {key: partial(self._compilers.ask, source, self._options(source)) for key, (source, _) in wanted.items() if helped}
        asked = {key: asks[key]() for key in keys[first:end] if helped and key in new}
        for key in keys[first:] + keys[:first]:
            answer, ask = asked.get(key), asks.get(key)
            build = self._builder(*wanted[key], key, ask if answer is None else partial(_same, answer))
            self._ahead[key] = pool.submit(build), answer
        pool.shutdown(wait=False)
        for key in [key for key, (future, _) in self._ahead.items() if future.done()][:-PROGRAMS]:
            del self._ahead[key]

    def release(self) -> None:
        """Says that nothing more is to be built ahead for now: processes that compile end when they are done."""
        self._compilers.release()

    def _count(self, key: str, found: cl.Program, compiled: bool) -> cl.Program:
        self._known[key] = found
        self.num_programs += 1
        self.num_compiled += compiled
        return found

    def _keep(self, key: str, found: cl.Program) -> None:
        self._last[key] = found
        self._last.move_to_end(key)
        if len(self._last) > PROGRAMS:
            self._last.popitem(last=False)

    def _options(self, source: str) -> bytes:
        return program.build_options(source, self._device)

    def _builder(self, source: str, name: str, key: str, ask: program.Ask | None = None) -> Callable[[], _Built]:
        return partial(program.build, self._context, self._device, source, name, key, self.dump_folder, ask)

    def _take(self, key: str, build: Callable[[], _Built]) -> _Built:
        """What a thread built, waited for; what none has begun with is built here and now."""
        future, answer = self._ahead.pop(key, (None, None))
        if answer is not None:
            # Where no process has begun with it, its thread compiles it now.
            answer.cancel()
        if future is not None and not future.cancel():
            try:
                return future.result()
            except KeyboardInterrupt:
                for other, _ in self._ahead.values():
                    other.cancel()
                self._ahead.clear()
                raise
        if self._device.caches_programs:
            self.trial.begin()
        return build()


def _same(answer: Answer) -> Answer:
    return answer
