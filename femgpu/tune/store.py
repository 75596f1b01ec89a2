"""Winners of measurements: a record for each work and kind of device in femgpu's cache, and files with all of a device."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from femgpu.caches import cache_folder, load_record, sealed, store_record, unsealed, write_file
from femgpu.errors import DataError

# Of files that are exported; another number is another meaning of what is in them.
_FORMAT = "femgpu-winners-1"
_PREFIX, _NAME = "winner-", re.compile(r"winner-[0-9a-f]{24}\.json")


@dataclass(frozen=True)
class Winner:
    """What a measurement found.

    Attributes:
        name: of the offer, see `Offer.name`.
        words: the plan in words.
        seconds: that it took.
        cells: of the mesh on which it was measured.
    """

    name: str
    words: str
    seconds: float
    cells: int


def load(kind: Mapping[str, str], what: str) -> Winner | None:
    """The winner for a work on a kind of device; None where none is stored.

    Args:
        kind: `Device.kind`: platform, device, its units and driver.
        what: everything that decides about it, as text.
    """
    return _winner(load_record(_file(kind, what)) or {})


def store(kind: Mapping[str, str], what: str, winner: Winner) -> None:
    """Keeps a winner."""
    store_record(_file(kind, what), {"kind": dict(kind)} | asdict(winner))


def winners(kind: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """All records of a kind of device, by the names of their files."""
    folder = cache_folder()
    found = {path.name: load_record(path.name) for path in sorted(folder.glob(f"{_PREFIX}*.json"))} if folder else {}
    return {name: record for name, record in found.items() if record and record.get("kind") == dict(kind)}


def export_winners(path: Path, kind: Mapping[str, str]) -> int:
    """Writes all winners of a kind of device to a file; returns how many.

    Raises:
        DataError: when the file cannot be written, or there are none.
    """
    found = winners(kind)
    if not found:
        raise DataError(f"--export {path}: nothing is stored for {_words(kind)}; run `femgpu tune script.py` first")
    try:
        write_file(path.absolute(), sealed({"format": _FORMAT, "kind": dict(kind), "winners": found}).encode())
    except OSError as error:
        raise DataError(f"--export {path}: cannot be written ({error}); name another file") from None
    return len(found)


def import_winners(path: Path, kind: Mapping[str, str]) -> int:
    """Stores all winners of a file; returns how many.

    Raises:
        DataError: when the file cannot be read, is damaged or of another kind of device, or the cache is off.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise DataError(f"--import {path}: cannot be read ({error})") from None
    record = unsealed(text)
    if record is None or record.get("format") != _FORMAT or not all(map(_NAME.fullmatch, record["winners"])):
        raise DataError(f"--import {path}: {_flaw(text, kind)}; expected one that `femgpu tune --export` wrote")
    if record["kind"] != dict(kind):
        raise DataError(f"--import {path}: measured on {_words(record['kind'])}; this is {_words(kind)}: run `femgpu tune` here")
    if cache_folder() is None:
        raise DataError(f"--import {path}: FEMGPU_CACHE_DIR=0 turns the cache off; name a folder")
    for name, winner in record["winners"].items():
        store_record(name, winner)
    return len(record["winners"])


def _file(kind: Mapping[str, str], what: str) -> str:
    return f"{_PREFIX}{hashlib.sha256(repr([sorted(kind.items()), what]).encode()).hexdigest()[:24]}.json"


def _winner(record: Mapping[str, Any]) -> Winner | None:
    try:
        return Winner(str(record["name"]), str(record["words"]), float(record["seconds"]), int(record["cells"]))
    except (KeyError, TypeError, ValueError):
        return None


def _flaw(text: str, kind: Mapping[str, str]) -> str:
    """What is wrong with a file, as far as it can be told: what it is, and of which device."""
    try:
        record = json.loads(text)["record"]
        form, of = record["format"], _words(record["kind"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "damaged, or no such file"
    if form != _FORMAT:
        return f"of another version of femgpu, in the format {form} for {_FORMAT}"
    here = _words(kind)
    return f"measured on {of}, and damaged or changed since" + f"; this is {here}: run `femgpu tune` here" * (of != here)


def _words(kind: Mapping[str, str]) -> str:
    return f"{kind['device']} ({kind['platform']}, {kind['units']} units, driver {kind['driver']})"
