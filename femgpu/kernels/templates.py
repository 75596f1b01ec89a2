"""The templates that programs are made from, compiled to Python once for an installation, as Python's own modules are."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from mako.lookup import TemplateLookup
from mako.template import Template

from femgpu.kernels.source import FOLDER


def template(name: str) -> Template:
    """A template in `cl/`."""
    try:
        return _lookup().get_template(name)
    except Exception:
        # What is kept was damaged, or the disk is full: as Python's caches, it decides about nothing but time.
        return _lookup(keeps=False).get_template(name)


@cache
def _lookup(keeps: bool = True) -> TemplateLookup:
    folder = module_folder() if keeps else None
    return TemplateLookup(directories=[str(FOLDER)], strict_undefined=True, module_directory=folder)


def module_folder() -> str | None:
    """Where compiled templates are kept: beside Python's caches of its modules, by their text; None where Python keeps none.

    A program takes some ten of them, at 10 ms each.
    """
    if sys.dont_write_bytecode:
        return None
    text = b"".join(path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.is_file())
    folder = Path(cache_from_source(str(FOLDER / "templates.py"))).parent / hashlib.sha256(text).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None
