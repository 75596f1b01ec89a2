"""Folders of kernel caches: femgpu's own, and those of the libraries below it, settled before these load; records in femgpu's own.

PoCL ends the process where an entry of its cache is damaged. So femgpu's processes have a folder of their own for it, beside the
kernel cache, unless the user named one. A process holds a file there from the time it builds a program until its kernels have run
(`Trial`): a file that nobody holds tells of a process that was aborted, and the folder is emptied before PoCL looks at it again.

A record is what was measured on a device: a JSON file with a checksum in femgpu's own folder. Files are written under a temporary
name and renamed, so that concurrent jobs never read half a file.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

# What a cache should find free: PoCL ends the process where a disk fills up. Quotas tell only when something is written.
_LEAST_BYTES, _TRIAL_BYTES = 1 << 25, 1 << 16
_MARK = "femgpu-trial-"


def cache_folder() -> Path | None:
    """Where binaries are kept: `FEMGPU_CACHE_DIR`, else the user's cache directory; None when it is `0`."""
    folder = os.environ.get("FEMGPU_CACHE_DIR")
    if folder == "0":
        return None
    return Path(folder).absolute() if folder else _user_folder() / "femgpu"


def load_record(name: str) -> dict[str, Any] | None:
    """What was stored under a name; None where nothing was, the cache is off or, with a warning, the file is damaged."""
    folder = cache_folder()
    try:
        text = (folder / name).read_text(errors="replace") if folder else ""
    except OSError:
        return None
    found = unsealed(text)
    if text and found is None:
        warnings.warn(f"{folder / name if folder else name} is damaged, and counts as absent", stacklevel=2)
    return found


def store_record(name: str, record: dict[str, Any]) -> None:
    """Keeps a record under a name, of which the next one takes the place; nothing where the cache is off."""
    folder = cache_folder()
    try:
        if folder:
            write_file(folder / name, sealed(record).encode())
    except OSError as error:
        warnings.warn(f"the cache cannot be written ({error}); set FEMGPU_CACHE_DIR, 0 disables it", stacklevel=2)


def sealed(record: dict[str, Any]) -> str:
    """A record as the text of a file."""
    return json.dumps({"sha256": _checksum(record), "record": record}, indent=1) + "\n"


def unsealed(text: str) -> dict[str, Any] | None:
    """The record that a text holds; None where it is damaged, or no such text."""
    try:
        found = json.loads(text)
        record = found["record"]
        return record if isinstance(record, dict) and found["sha256"] == _checksum(record) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def write_file(path: Path, data: bytes) -> None:
    """Writes a file under a temporary name in its folder, which is made where it does not exist, and renames it.

    Raises:
        OSError: when it cannot be written; nothing is left of it then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def prepare() -> None:
    """Gives PoCL and pyopencl caches that work; called when femgpu is imported.

    Sets `POCL_CACHE_DIR`, for children too, unless the user has or PoCL is loaded already: Open MPI loads it, so that femgpu has to
    be imported before petsc4py and mpi4py.
    """
    if "pyopencl" not in sys.modules and refusal(_user_folder()):
        os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    own, named = _own_folder(), os.environ.get("POCL_CACHE_DIR")
    if _is_loaded("libpocl") or (named and named != str(own)):
        return
    if own is not None:
        _empty_after_abort(own)
    if not refusal(own or pocl_folder()):
        if own is not None:
            os.environ["POCL_CACHE_DIR"] = str(own)
        return
    with contextlib.suppress(OSError):
        temporary = os.environ["POCL_CACHE_DIR"] = tempfile.mkdtemp(prefix="femgpu-pocl-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)


def pocl_folder() -> Path:
    """Where PoCL keeps what it compiled."""
    named = os.environ.get("POCL_CACHE_DIR")
    return Path(named) if named else _user_folder() / "pocl" / "kcache"


def refusal(folder: Path) -> str:
    """Why files cannot be written in a folder, which is made where it does not exist; empty where they can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
            stream.write(bytes(_TRIAL_BYTES))
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return str(error)
    return "" if free >= _LEAST_BYTES else f"{free} bytes are free in {folder}, which should be {_LEAST_BYTES}"


class Trial:
    """Marks, in femgpu's own folder for PoCL, that this process depends on entries that may be damaged."""

    def __init__(self) -> None:
        self._file: tuple[int, Path] | None = None
        atexit.register(self.end)

    def begin(self) -> None:
        """Makes the mark, where there is none yet."""
        folder = _own_folder()
        if self._file is not None or folder is None or os.environ.get("POCL_CACHE_DIR") != str(folder):
            return
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(dir=folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Under its name only when it is held: others take what nobody holds for the mark of a process that is gone.
            self._file = handle, Path(name).rename(folder / f"{_MARK}{Path(name).name}")

    def end(self) -> None:
        """Removes the mark."""
        if self._file is not None:
            handle, path = self._file
            self._file = None
            path.unlink(missing_ok=True)
            os.close(handle)


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _own_folder() -> Path | None:
    """PoCL's folder of femgpu's processes; None where the kernel cache is off."""
    folder = cache_folder()
    return folder and folder.with_name(f"{folder.name}-pocl")


def _is_loaded(library: str) -> bool:
    try:
        return library in Path("/proc/self/maps").read_text()
    except OSError:
        return False


def _empty_after_abort(folder: Path) -> None:
    if not any(_is_left(path) for path in folder.glob(f"{_MARK}*")):
        return
    # Other ranks may do the same: the first to move the folder away has it.
    with contextlib.suppress(OSError):
        aside = tempfile.mkdtemp(dir=folder.parent)
        os.replace(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)
        warnings.warn(
            f"a process was ended while it built kernels or first ran them; {folder} is emptied, in case PoCL's files are damaged",
            stacklevel=3,
        )


def _is_left(path: Path) -> bool:
    """Whether the process that made a mark is gone without removing it."""
    try:
        with path.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        return False
