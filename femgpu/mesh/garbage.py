"""Frees PETSc's objects of several ranks when no rank uses them any more.

On several ranks petsc4py only queues an object that Python lets go: `PETSc.garbage_cleanup` destroys those that all ranks have
queued. What Python lets go of meanwhile, because such an object was the last to hold it, PETSc 3.26 queues where nobody looks
again: objects held that way are kept aside, and queued before the next time.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

from petsc4py import PETSc

from femgpu.errors import meet

_aside: list[Any] = []
# Those in memory, whether somebody has them or not, by their ids: a user's may have no hash.
_problems: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
# That may wait for the collector at one time.
_MOST_WRAPPERS = 1000


def keep_aside(thing: Any) -> None:
    """Keeps a PETSc object whose owner goes, maybe while PETSc empties its queue, until `clean_up`."""
    _aside.append(thing)


def attributes(thing: PETSc.Object) -> list[dict[str, Any]]:
    """References to the attributes of a PETSc object, callbacks and monitors among them; to be kept as long as these are wanted.

    To Python's collector petsc4py says that each wrapper of an object owns the attributes, where the object alone does. So the
    collector empties them when it finds a wrapper that nobody has any more, in the traceback of an exception say; not while there
    are more references than such wrappers.
    """
    return [thing.getDict()] * _MOST_WRAPPERS


def clean_up(comm: PETSc.Comm) -> None:
    """Destroys objects that all ranks have let go; collective. Costs a barrier and two small reductions."""
    _aside.clear()
    if comm.size > 1:
        meet(comm.tompi4py())
        PETSc.garbage_cleanup(comm)


def let_go(problem: Any, comm: PETSc.Comm) -> None:
    """As `clean_up`, earlier problems included that nobody has any more; collective.

    A problem and its SNES refer to each other: Python would free both at a time of its own, not knowing how much device memory they
    hold. The first problem of a program finds none, and spares the search, 0.05 s.

    Args:
        problem: the one that is being made, of which later ones are to know.
        comm: of its mesh.
    """
    if _problems:
        gc.collect()
    _problems[id(problem)] = problem
    clean_up(comm)
