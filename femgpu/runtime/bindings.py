"""What a kernel was launched with before: found again by the handles of its buffers, forgotten when these are no longer used."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import pyopencl as cl


class Hold:
    """Keeps a buffer's memory, and with it the meaning of its handle, also when its owner lets go."""

    __slots__ = ("__weakref__", "_buffer")

    def __init__(self, handle: int):
        self._buffer = cl.Buffer.from_int_ptr(handle, retain=True)

    @property
    def is_last(self) -> bool:
        """Whether nobody else holds the buffer; False where the driver itself still does."""
        return bool(self._buffer.reference_count == 1)


class Holds:
    """One hold per buffer, whoever asks for it."""

    def __init__(self) -> None:
        self._holds: weakref.WeakValueDictionary[int, Hold] = weakref.WeakValueDictionary()

    def __call__(self, buffer: Any) -> Hold:
        """The hold of a buffer."""
        # A handle in the dictionary is held, so that it cannot have become another buffer's.
        hold = self._holds.get(buffer.int_ptr)
        if hold is None:
            hold = self._holds[buffer.int_ptr] = Hold(buffer.int_ptr)
        return hold


class Bindings:
    """Launches that were used last, one or several together, by the handles of the buffers that they are bound to.

    Args:
        limit: how many are kept.
        known: gets to know this object as soon as it holds something.
    """

    def __init__(self, limit: int, known: weakref.WeakSet[Bindings]):
        self._limit, self._known = limit, known
        self._launches: OrderedDict[Hashable, tuple[Any, tuple[Hold, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._launches)

    def get(self, key: Hashable) -> Any:
        """The launch of a key; None where it is not, or no longer, known."""
        found = self._launches.get(key)
        if found is None:
            return None
        self._launches.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, launch: Any, holds: tuple[Hold, ...]) -> None:
        """Remembers a launch; forgets those with buffers that are no longer used, and else the one not used for longest.

        Args:
            key: names the buffers by their handles.
            launch: what `get` gives back.
            holds: of these buffers, so that their handles keep their meaning.
        """
        self.drop_dead()
        self._known.add(self)
        self._launches[key] = launch, holds
        if len(self._launches) > self._limit:
            self._launches.popitem(last=False)

    def drop_dead(self) -> None:
        """Forgets launches with a buffer that nobody else holds, which gives its memory back."""
        dead = [key for key, (_, holds) in self._launches.items() if any(hold.is_last for hold in holds)]
        for key in dead:
            del self._launches[key]

    def clear(self) -> None:
        """Forgets all."""
        self._launches.clear()
