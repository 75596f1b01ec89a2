"""Programs: build, keep the binary on disk unless the driver does, dump the source.

A cache file is a header line (magic, key of the program, SHA-256 of the binary) and the binary. Files are written under a temporary
name and renamed, so that concurrent jobs never read half a file; one that is damaged, or another program's, is built anew, with a
warning. What the compiler said, if anything, stands in a file `.log` beside it, for who loads the binary. Who builds an entry holds
a lock beside it: other processes that want the same one wait, and load it then.

Nothing here asks which thread it runs in.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from femgpu.caches import cache_folder, pocl_folder, refusal, write_file
from femgpu.errors import BuildError, OptionError
from femgpu.runtime.compilers import Answer, result
from femgpu.runtime.resources import read_log

if TYPE_CHECKING:
    from femgpu.runtime.device import Device

Ask = Callable[[], Answer]

OPTIONS = ("-cl-mad-enable", "-cl-std=CL1.2")
# PoCL has 0.9 MB of declarations parsed with every program, a third of the time of a small one; this is their guard.
_DECLARED = " ".join([*OPTIONS, "-D_OPENCL_H_"]).encode()
# What a program says of an item's registers, at most; NVIDIA's compiler is told by an option, which does not hold for kernels that
# require the size of their work-groups. Its log says what each kernel takes, and spills.
_REGISTERS = re.compile(r"^#define MAX_REGISTERS (\d+)$", re.MULTILINE)
_BUILTINS = Path(__file__).with_name("builtins.cl")
# Where compilers find an error, file, line and column, and what they say; PoCL puts the kind in front.
_PLACE = re.compile(r"(?:error: )?\S*?:(\d+):\d+: (?:error: )?(.*)")
_MAGIC = b"femgpu-program-2"


def key(source: str, device: Device) -> str:
    """Everything that decides about the binary: source, build options, device and driver."""
    options = build_options(source, device).decode()
    text = "\0".join([source, options, device.platform, device.name, device.driver, device.opencl])
    return hashlib.sha256(text.encode()).hexdigest()


def build_options(source: str, device: Device) -> bytes:
    """The compiler's options for a program: those of all, and what its text asks for where the device knows it."""
    own: list[str] = []
    if device.is_nvidia:
        bound = _REGISTERS.search(source)
        own = ["-cl-nv-verbose", *([f"-cl-nv-maxrregcount={bound[1]}"] if bound else [])]
    return " ".join([*OPTIONS, *own]).encode()


def build(
    context: cl.Context, device: Device, source: str, name: str, digest: str, dump_folder: str, ask: Ask | None = None
) -> tuple[cl.Program, bool]:
    """Builds a program, or loads its binary; where the driver keeps programs itself, none is stored.

    Args:
        context: with one device.
        device: its properties.
        source: OpenCL C.
        name: for the dump's file name and messages.
        digest: the program's `key`.
        dump_folder: where source and log go; empty: nowhere.
        ask: has another process compile it.

    Returns:
        The built program, and whether it was compiled now rather than loaded.

    Raises:
        BuildError: with log and path of the source.
        OptionError: when the dump folder cannot be written.
    """
    options = build_options(source, device)
    given = context, source, options, name, digest, dump_folder
    if dump_folder:
        _dump(Path(dump_folder) / f"{name}-{digest[:12]}.cl", source)
    if device.caches_programs:
        return _compile_in_turn(*given), True
    folder = cache_folder()
    if folder is None:
        return _compile(*given, ask), True
    path = _entry(folder, digest)
    absent = not path.exists()
    if not absent and (program := _stored(context, path, options, name, digest, dump_folder)) is not None:
        return program, False
    with _alone(path):
        if absent and path.exists() and (program := _stored(context, path, options, name, digest, dump_folder)) is not None:
            return program, False
        program = _compile(*given, ask)
        _store(path, digest, program.get_info(cl.program_info.BINARIES)[0], said(program))
        return program, True


def is_stored(digest: str) -> bool:
    """Whether the cache has an entry for a program, be it what it may."""
    folder = cache_folder()
    return folder is not None and _entry(folder, digest).exists()


def said(program: Any) -> str:
    """The compiler's log of a program, of one that was loaded from beside its binary; empty where there is none."""
    return getattr(program, "femgpu_log", "") or _log(program)


def _entry(folder: Path, digest: str) -> Path:
    return folder / f"{digest}.bin"


def _stored(context: cl.Context, path: Path, options: bytes, name: str, digest: str, dump_folder: str) -> cl.Program | None:
    """The program of a cache entry; None, with a warning, where the entry does not serve."""
    binary = _load(path, digest)
    if binary is None:
        return None
    try:
        program = _of_binary(context, binary, options, read_log(path.with_suffix(".log")))
        if dump_folder and (text := said(program)):
            _dump(Path(dump_folder) / f"{name}-{digest[:12]}.log", text)
        return program
    except cl.Error:
        warnings.warn(f"the driver refuses the cached kernel {path}; it is built anew", stacklevel=2)
        return None


def _of_binary(context: cl.Context, binary: bytes, options: bytes, log: str) -> cl.Program:
    """The program of a binary, with what the compiler said when it was compiled."""
    program = cl._cl._Program(context, [context.devices[0]], [binary])
    program._build(options)
    loaded: Any = cl.Program(program)
    loaded.femgpu_log = log
    return loaded


def _compile_in_turn(context: cl.Context, source: str, options: bytes, name: str, digest: str, dump_folder: str) -> cl.Program:
    """Compiles as PoCL needs it: where several processes write into its cache at the same time, builds fail now and then."""
    mark = pocl_folder() / f"femgpu-{digest}.built"
    if not mark.exists():
        with _alone(mark.with_name("femgpu-build")):
            if not mark.exists():
                program = _compile_for_pocl(context, source, options, name, digest, dump_folder)
                with contextlib.suppress(OSError):
                    mark.touch()
                return program
    return _compile_for_pocl(context, source, options, name, digest, dump_folder)


def _compile_for_pocl(context: cl.Context, source: str, options: bytes, name: str, digest: str, dump_folder: str) -> cl.Program:
    """Compiles with femgpu's few declarations of built-in functions; where a user's body calls others, with PoCL's."""
    program = cl._cl._Program(context, f"{_builtins()}#line 1\n{source}")
    try:
        program._build(_DECLARED)
    except cl.RuntimeError:
        return _compile_here(context, source, options, name, digest, dump_folder)
    return _built(program, name, digest, dump_folder)


@cache
def _builtins() -> str:
    return _BUILTINS.read_text()


def _compile(
    context: cl.Context, source: str, options: bytes, name: str, digest: str, dump_folder: str, ask: Ask | None = None
) -> cl.Program:
    binary, log = result(ask()) if ask else (b"", "")
    if binary:
        with contextlib.suppress(cl.Error):
            program = _of_binary(context, binary, options, log)
            if dump_folder:
                _dump(Path(dump_folder) / f"{name}-{digest[:12]}.log", log)
            return program
    # What another process cannot do is done here, and what is wrong with the source is said here.
    return _compile_here(context, source, options, name, digest, dump_folder)


def _compile_here(context: cl.Context, source: str, options: bytes, name: str, digest: str, dump_folder: str) -> cl.Program:
    # As pyopencl's own Program, without its warnings of the compiler's remarks: to silence those is nothing for threads, and they
    # are in the dumped log.
    program = cl._cl._Program(context, source)
    try:
        program._build(options)
    except cl.RuntimeError as error:
        raise _failure(_log(program) or str(error), source, name, digest, dump_folder) from None
    return _built(program, name, digest, dump_folder)


def _built(program: cl._cl._Program, name: str, digest: str, dump_folder: str) -> cl.Program:
    if dump_folder:
        _dump(Path(dump_folder) / f"{name}-{digest[:12]}.log", _log(program))
    return cl.Program(program)


def _log(program: Any) -> str:
    device = program.get_info(cl.program_info.DEVICES)[0]
    return program.get_build_info(device, cl.program_build_info.LOG) or ""


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keeps other processes from building what this one builds; where nothing can be locked, they build it, too."""
    lock, handle = path.with_suffix(".lock"), None
    try:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            while handle is None:
                handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not _is_file(handle, lock):
                    os.close(handle)
                    handle = None
        yield
    finally:
        if handle is not None:
            lock.unlink(missing_ok=True)
            os.close(handle)


def _is_file(handle: int, path: Path) -> bool:
    """Whether an open file is still what a path leads to, and not one that was removed meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _dump(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise OptionError(
            f"-femgpu_kernel_dump {path.parent}: cannot write {path.name} there ({error}); name another folder"
        ) from None


def _failure(text: str, source: str, name: str, digest: str, dump_folder: str) -> BuildError:
    path = Path(dump_folder or tempfile.gettempdir()) / f"femgpu-{name}-{digest[:12]}.cl"
    try:
        write_file(path, source.encode())
        where = f"its source is in {path}"
    except OSError as full:
        where = f"its source cannot be kept ({full})"
    if why := refusal(pocl_folder()):
        where += f"; PoCL needs its cache, and cannot write there ({why}): make room, or set POCL_CACHE_DIR to another folder"
    text = text.strip()
    written = source.splitlines()
    lines = [_quoted(line, written) for line in text.splitlines() if "error" in line.lower()][:8] or text.splitlines()[:12]
    return BuildError(
        f"the device's compiler refuses kernel {name}; {where}. If the form has C bodies of yours, "
        "look for them in the function `pointwise`. The compiler says:\n  " + "\n  ".join(lines)
    )


def _quoted(line: str, written: list[str]) -> str:
    """An error with the line of the source that it is about, in place of the compiler's name for the file."""
    found = _PLACE.match(line)
    if found is None or not 0 < int(found[1]) <= len(written):
        return line
    return f"line {found[1]}: error: {found[2]}: {written[int(found[1]) - 1].strip()}"


def _load(path: Path, digest: str) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    header, _, payload = data.partition(b"\n")
    if header == _header(digest, payload):
        return payload
    warnings.warn(f"the cached kernel {path} is damaged, or another program's; it is built anew", stacklevel=3)
    return None


def _header(digest: str, payload: bytes) -> bytes:
    return b" ".join([_MAGIC, digest.encode(), hashlib.sha256(payload).hexdigest().encode()])


def _store(path: Path, digest: str, payload: bytes, log: str) -> None:
    try:
        if log:
            write_file(path.with_suffix(".log"), log.encode())
        write_file(path, _header(digest, payload) + b"\n" + payload)
    except OSError as error:
        warnings.warn(f"the kernel cache cannot be written ({error}); set FEMGPU_CACHE_DIR, 0 disables it", stacklevel=3)
