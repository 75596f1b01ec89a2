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
    return _lookup().get_template(name)


class _Lookup(TemplateLookup):
    """Templates that others include, too: compiled in memory where what is kept is damaged or cannot be written."""

    def get_template(self, uri: str) -> Template:
        """As Python's caches, those of templates decide about nothing but time."""
        try:
            return super().get_template(uri)
        except Exception:
            return _lookup(keeps=False).get_template(uri)


@cache
def _lookup(keeps: bool = True) -> TemplateLookup:
    kind, folder = (_Lookup, module_folder()) if keeps else (TemplateLookup, None)
    return kind(directories=[str(FOLDER)], strict_undefined=True, module_directory=folder)


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
