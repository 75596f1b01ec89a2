"""Templates are compiled once for an installation, and anew when one of them has changed."""

import errno
import os
import sys
from pathlib import Path

import pytest

from femgpu.kernels import templates


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(templates, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    templates._lookup.cache_clear()
    yield tmp_path
    templates._lookup.cache_clear()


def rendered(path, text, age=0.0):
    path.write_text(text)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    templates._lookup.cache_clear()
    return templates.template(path.name).render(n=2)


def test_a_changed_template_is_compiled_anew(folder):
    """Even if it is older than what was compiled, as one that an earlier version of a package brings."""
    path = folder / "power.mako"
    assert rendered(path, "${n ** 2}") == "4"
    assert rendered(path, "${n ** 3}", age=3600.0) == "8"
    assert len({module.parent for module in (folder / "__pycache__").rglob("*.mako.py")}) == 2


def test_a_template_is_compiled_once(folder):
    rendered(folder / "power.mako", "${n ** 2}")
    (module,) = (folder / "__pycache__").rglob("*.mako.py")
    before = module.stat().st_mtime_ns
    assert rendered(folder / "power.mako", "${n ** 2}", age=3600.0) == "4"
    assert module.stat().st_mtime_ns == before


@pytest.mark.parametrize("left", ["", "def render_body(context"])
def test_what_was_damaged_is_passed_over(folder, left):
    rendered(folder / "power.mako", "${n ** 2}")
    (module,) = (folder / "__pycache__").rglob("*.mako.py")
    module.write_text(left)
    assert rendered(folder / "power.mako", "${n ** 2}", age=3600.0) == "4"


def test_a_full_disk_stops_nothing(folder, monkeypatch):
    monkeypatch.setattr(os, "write", lambda *args: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no space left on device")))
    assert rendered(folder / "power.mako", "${n ** 2}") == "4"


def test_nothing_is_kept_where_python_keeps_nothing(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(folder / "power.mako", "${n ** 2}") == "4"
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert templates.module_folder() is None
    monkeypatch.setattr(Path, "mkdir", lambda *args, **kwargs: (_ for _ in ()).throw(PermissionError("read-only")))
    assert templates.module_folder() is None and not list(folder.rglob("*.mako.py"))
