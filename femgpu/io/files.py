"""Files that appear under their names only when complete, in folders that exist."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from femgpu.errors import DataError, collective, file_errors


def check_folder(path: Path, verb: str = "write") -> None:
    """Refuses a file in a folder that does not exist.

    Args:
        path: the file.
        verb: what is to be done with it, for the message.

    Raises:
        DataError: naming the folder.
    """
    if not path.parent.is_dir():
        raise DataError(f"cannot {verb} {str(path)!r}: {str(path.parent)!r} is not a folder; create it first")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path`, which becomes `path` when the block succeeds and is removed when it fails.

    Raises:
        DataError: when the system refuses the file.
    """
    temporary = _beside(path)
    try:
        with file_errors(path, "write"):
            with open(temporary, "wb") as stream:
                yield stream
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_together(writers: Mapping[Path, Callable[[BinaryIO], None]], comm: Any) -> None:
    """Writes files that belong together: none replaces the one before it unless all of all ranks are complete; collective.

    Args:
        writers: the files of this rank, and what writes each of them.
        comm: an mpi4py communicator.

    Raises:
        DataError: on all ranks, when the system refuses a file.
    """
    try:
        with collective(comm):
            for path, write in writers.items():
                with file_errors(path, "write"):
                    if path.is_dir():
                        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                    with open(_beside(path), "wb") as stream:
                        write(stream)
        with collective(comm):
            for path in writers:
                with file_errors(path, "write"):
                    os.replace(_beside(path), path)
    finally:
        for path in writers:
            _beside(path).unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Where a file is written."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")
