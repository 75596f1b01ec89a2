"""Files that appear under their names only when complete, in folders that exist."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from femgpu.errors import DataError


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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as stream:
            yield stream
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"cannot write {str(path)!r}: {reason}; expected a writable folder with room") from error
    finally:
        temporary.unlink(missing_ok=True)
