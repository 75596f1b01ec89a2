"""A gmsh file as a row of sections, and the numbers in them, ASCII or binary."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


class Malformed(ValueError):
    """What is wrong with a file."""


class Sections:
    """A file as a row of sections."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0
        self.binary, self.order = False, "<"

    def line(self) -> bytes:
        """The next line."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise Malformed("the file is cut")
        line, self.at = self.data[self.at : end], end + 1
        return line

    def format(self) -> str:
        """Reads the header, and returns the version."""
        if self.next() != "MeshFormat":
            raise Malformed("it does not begin with $MeshFormat; expected a gmsh file")
        words = self.line().split()
        if len(words) != 3 or words[1] not in (b"0", b"1") or words[2] != b"8":
            raise Malformed("the line behind $MeshFormat should be like '4.1 0 8'")
        if words[0] not in (b"2.2", b"4.1"):
            raise Malformed(f"it is of version {words[0].decode(errors='replace')}; expected 4.1 or 2.2")
        self.binary = words[1] == b"1"
        if self.binary:
            one = self.data[self.at : self.at + 4]
            orders = [order for order in "<>" if one == np.array(1, order + "i4").tobytes()]
            if not orders:
                raise Malformed("the number 1 behind $MeshFormat is another one")
            self.order, self.at = orders[0], self.at + 4
        self.end("MeshFormat")
        return words[0].decode()

    def next(self) -> str | None:
        """The name of the next section; None at the end of the file."""
        while self.at < len(self.data):
            end = self.data.find(b"\n", self.at)
            end = len(self.data) if end < 0 else end
            line, self.at = self.data[self.at : end].strip(), end + 1
            if line:
                if not line.startswith(b"$"):
                    raise Malformed(f"{line[:40]!r} stands between sections")
                return line[1:].decode(errors="replace")
        return None

    def end(self, name: str) -> None:
        """Expects the end of a section."""
        if self.next() != f"End{name}":
            raise Malformed(f"section ${name} does not end where its counts say")

    def skip(self, name: str) -> None:
        """Passes a section over."""
        end = self.data.find(b"$End" + name.encode(), self.at)
        if end < 0:
            raise Malformed(f"section ${name} has no end")
        self.at = end
        self.end(name)

    def words(self) -> Words:
        """The numbers of a section in ASCII."""
        end = self.data.find(b"$", self.at)
        if end < 0:
            raise Malformed("the file is cut")
        text, self.at = self.data[self.at : end], end
        return Words(text)

    def cursor(self) -> Words | Bytes:
        """The numbers of a section, in the file's format."""
        return Bytes(self) if self.binary else self.words()

    def raw(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        """The next binary numbers."""
        kind = np.dtype(dtype).newbyteorder(self.order)
        size = count * kind.itemsize
        if count < 0 or self.at + size > len(self.data):
            raise Malformed(f"{count} numbers are announced where {len(self.data) - self.at} bytes are left")
        found, self.at = np.frombuffer(self.data, kind, count, self.at), self.at + size
        return found

    def peek(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        """The next binary numbers, or those up to the end of the file, without passing them."""
        kind = np.dtype(dtype).newbyteorder(self.order)
        return np.frombuffer(self.data, kind, min(count, (len(self.data) - self.at) // kind.itemsize), self.at)


class Words:
    """Numbers in ASCII, one after the other."""

    def __init__(self, text: bytes):
        # Numbers below 2^53 are exact in float64, so that one parse serves integers and coordinates.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.numbers = np.fromstring(text, sep=" ")  # type: ignore[call-overload]
        except (ValueError, DeprecationWarning):
            raise Malformed("it has other things where numbers are expected") from None
        self.at = 0

    def reals(self, count: int) -> _Floats:
        """The next numbers."""
        if count < 0 or self.at + count > len(self.numbers):
            raise Malformed(f"{count} numbers are announced where {len(self.numbers) - self.at} are left")
        found, self.at = self.numbers[self.at : self.at + count], self.at + count
        return found

    def ints(self, count: int) -> _Ints:
        """The next numbers, which are integers."""
        return integers(self.reals(count))

    longs = ints

    def done(self) -> None:
        """Expects that all were read."""
        if self.at != len(self.numbers):
            raise Malformed(f"{len(self.numbers) - self.at} numbers are left over in a section")


class Bytes:
    """Numbers in binary, one after the other."""

    def __init__(self, sections: Sections):
        self._sections = sections

    def reals(self, count: int) -> _Floats:
        """The next numbers of 8 bytes."""
        return self._sections.raw("f8", count).astype(np.float64)

    def ints(self, count: int) -> _Ints:
        """The next integers of 4 bytes."""
        return self._sections.raw("i4", count).astype(np.int64)

    def longs(self, count: int) -> _Ints:
        """The next integers of 8 bytes."""
        return self._sections.raw("i8", count).astype(np.int64)

    def done(self) -> None:
        """What follows is the section's end."""


def integers(values: _Floats) -> _Ints:
    """Numbers that are integers, as such."""
    with np.errstate(invalid="ignore"):
        found = values.astype(np.int64)
    if not np.array_equal(found, values):
        raise Malformed("it has other numbers where integers are expected")
    return found


def whole(line: bytes) -> int:
    """The count that a line is."""
    if not line.strip().isdigit():
        raise Malformed(f"{line[:40]!r} stands where a count is expected")
    return int(line)
