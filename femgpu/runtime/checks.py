"""Programs that watch themselves: every index into a kernel's arguments is checked, local memory begins as NaN.

The text of a program is changed before it is built, so that kernels are written once and are all watched. Watched are accesses
`d_name[index]` and pointers `d_name + index` in kernels and in macros; what functions read by pointers that they are given is not,
nor what goes through casts. What stands behind a buffer is NaN or guarded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_HELPERS = Path(__file__).with_name("debug.cl")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(r"\b__kernel\b[^;{]*?\bvoid\s+(\w+)\s*\(")
_DEFINE = re.compile(r"^[ \t]*#define[ \t]+(\w+)((?:[^\\\n]|\\.|\\\n)*)", re.MULTILINE)
_LOCAL = re.compile(r"\b__local\s+\w+\s+(\w+\s*\[[^;]*);")
_QUALIFIERS = {"const", "volatile", "restrict", "__global", "__restrict"}
_BYTES = {"char": 1, "short": 2, "int": 4, "long": 8, "float": 4, "double": 8}
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Argument:
    """A pointer to global memory among a kernel's arguments.

    Attributes:
        position: among all arguments.
        name: in the kernel.
        itemsize: bytes of an entry.
        ctype: type of its numbers: `float`, `double` or an integer's.
        written: whether the kernel may write.
    """

    position: int
    name: str
    itemsize: int
    ctype: str
    written: bool

    @property
    def floats(self) -> bool:
        """Whether entries are floating-point numbers."""
        return self.ctype in ("float", "double")


@dataclass(frozen=True)
class Checked:
    """A program that watches itself.

    Attributes:
        text: OpenCL C; each kernel has one argument more, the last one.
        counts: number of arguments of each kernel, without that one.
        arguments: of each kernel those that are watched.
    """

    text: str
    counts: dict[str, int]
    arguments: dict[str, tuple[Argument, ...]]


@lru_cache(maxsize=256)
def checked(source: str) -> Checked:
    """The program that watches itself."""
    text = _COMMENT.sub(" ", source)
    macros = dict(_DEFINE.findall(text))
    counts, arguments, parts, at = {}, {}, [], 0
    known = [(found, *_signature(text, found, macros)) for found in _KERNEL.finditer(text)]
    everywhere = {argument.name for _, _, given, _ in known for argument in given}
    for found, count, given, local in known:
        name, inputs = found[1], _end(text, found.end() - 1)
        start = text.index("{", inputs)
        stop = _end(text, start)
        counts[name], arguments[name] = count, given
        places = "".join(f" const int p_{argument.name} = {argument.position};" for argument in given)
        places += "".join(f" POISON_ARGUMENT({name}, {position}) barrier(CLK_LOCAL_MEM_FENCE);" for position, name in local)
        body = _poisoned(_watched(text[start + 1 : stop], {argument.name for argument in given}))
        parts += [_in_macros(text[at : found.start()], everywhere), text[found.start() : inputs], ", __global long *d_debug"]
        parts += [text[inputs : start + 1], places, body]
        at = stop
    return Checked(_HELPERS.read_text() + "".join([*parts, _in_macros(text[at:], everywhere)]), counts, arguments)


def _signature(text: str, found: re.Match[str], macros: dict[str, str]) -> tuple[int, tuple[Argument, ...], list[tuple[int, str]]]:
    """The number of a kernel's arguments, those that are watched, and positions and names of local memory."""
    inside = text[found.end() : _end(text, found.end() - 1)]
    inside = re.sub(r"(?<=,)\s*(\w+)\s*(?=,)", lambda word: macros.get(word[1], word[0]), inside).replace("\\\n", " ")
    every, given, local = inside.split(","), [], []
    for position, argument in enumerate(every):
        if "__global" in argument:
            *words, name = re.findall(r"\w+", argument)
            named = next(word for word in words if word not in _QUALIFIERS)
            ctype, width = _resolved(text, named, macros)
            given.append(Argument(position, name, _BYTES[ctype.lstrip("u")] * width, ctype, "const" not in words))
        elif "__local" in argument:
            local.append((position, re.findall(r"\w+", argument)[-1]))
    return len(every), tuple(given), local


def _resolved(text: str, name: str, macros: dict[str, str]) -> tuple[str, int]:
    """The basic type behind a name, and how many of them a vector has."""
    while True:
        basic = re.fullmatch(r"(u?[a-z]+?)(\d*)", name)
        if basic and basic[1].lstrip("u") in _BYTES:
            return basic[1], int(basic[2] or 1)
        known = re.search(rf"\btypedef\s+(\w+)\s+{name}\s*;", text)
        name = known[1] if known else macros[name].strip()


def _in_macros(text: str, names: Iterable[str]) -> str:
    """Text between kernels, whose macros are watched."""
    return _DEFINE.sub(lambda define: _watched(define[0], names), text)


def _watched(text: str, names: Iterable[str]) -> str:
    """Text whose accesses to arguments of some names are checked."""
    if not names:
        return text
    access = re.compile(rf"\b({'|'.join(sorted(names))})\s*(\[|\+(?![+=]))")
    parts, at = [], 0
    while found := access.search(text, at):
        begin = found.end()
        end = _end(text, begin - 1) if found[2] == "[" else _stop(text, begin)
        kind = _kind(text, found, end)
        parts += [text[at:begin], f" {kind}({found[1]}, {_watched(text[begin:end], names).strip()})"]
        at = end
    return "".join([*parts, text[at:]])


def _kind(text: str, found: re.Match[str], end: int) -> str:
    """What is done at a place: what is added to is read, too."""
    if found[2] == "[":
        return "WRITE_AT" if re.match(r"\]\s*=(?!=)", text[end:]) else "READ_AT"
    return "READ_AT" if re.search(r"\batom\w*\s*\(\s*$", text[: found.start()]) else "BEGIN_AT"


def _poisoned(body: str) -> str:
    """A kernel's body whose local memory begins as NaN."""

    def after(found: re.Match[str]) -> str:
        fills = " ".join(f"POISON_LOCAL({name})" for name in re.findall(r"(\w+)\s*\[", found[1]))
        return f"{found[0]} {fills} barrier(CLK_LOCAL_MEM_FENCE);"

    return _LOCAL.sub(after, body)


def _end(text: str, start: int) -> int:
    """Where the bracket at `start` is closed."""
    return next(at for at, depth in _depths(text, start) if depth == 0)


def _stop(text: str, start: int) -> int:
    """Where an expression ends that begins at `start`."""
    return next((at for at, depth in _depths(text, start) if depth < 0 or (depth == 0 and text[at] in ",;?:")), len(text))


def _depths(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Places from `start` on, and how many brackets are open behind each."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        yield at, depth
