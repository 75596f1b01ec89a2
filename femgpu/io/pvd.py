"""Series of files for ParaView: a .pvd collection names a .vtu file for each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from femgpu.errors import DataError, collective
from femgpu.io.files import check_folder, replacing
from femgpu.io.sampling import check_functions, name_apart
from femgpu.io.vtu import write_one_file
from femgpu.spaces import Function, SubFunction


class Collection:
    """A .pvd file and the .vtu files beside it.

    The first write begins the collection anew unless `resume` was called.

    Args:
        path: the .pvd file.
        comm: an mpi4py communicator.

    Raises:
        DataError: for another suffix or a folder that does not exist.
    """

    def __init__(self, path: Path, comm: Any):
        if path.suffix != ".pvd":
            raise DataError(f"cannot write a series to {str(path)!r}: expected a name that ends in .pvd")
        if comm.rank == 0:
            check_folder(path)
        self.path = path
        self.comm = comm
        self._times: dict[str, float] = {}

    def resume(self, time: float) -> None:
        """Goes on with the collection that is there, up to a time; collective.

        Raises:
            DataError: on all ranks, when the file is no collection.
        """
        with collective(self.comm):
            if self.comm.rank == 0 and self.path.is_file():
                self._times = {name: entry for name, entry in read_collection(self.path) if entry <= time}

    def write(self, step: int, time: float, functions: Sequence[Function | SubFunction]) -> None:
        """Writes functions of one mesh as the state at a time; the collection names the file once it is complete; collective.

        Args:
            step: number of the file; one of the same number is replaced.
            time: the time.
            functions: what to write, with different names.

        Raises:
            DataError: on all ranks, when a file is refused or the functions do not go into one.
        """
        name_apart(functions)
        check_functions(functions)
        name = f"{self.path.stem}_{step:06d}.vtu"
        write_one_file(self.path.with_name(name), functions)
        with collective(self.comm):
            if self.comm.rank == 0:
                self._times[name] = time
                self._write_collection()

    def _write_collection(self) -> None:
        root = ElementTree.Element("VTKFile", type="Collection", version="0.1")
        collection = ElementTree.SubElement(root, "Collection")
        for name, time in sorted(self._times.items(), key=lambda entry: entry[1]):
            ElementTree.SubElement(collection, "DataSet", timestep=repr(time), part="0", file=name)
        ElementTree.indent(root)
        with replacing(self.path) as stream:
            stream.write(b'<?xml version="1.0"?>\n' + ElementTree.tostring(root) + b"\n")


def read_collection(path: Path) -> list[tuple[str, float]]:
    """Files and times of a collection, in the order of the file.

    Raises:
        DataError: when the file is missing or is no collection.
    """
    try:
        entries = ElementTree.parse(path).getroot().iterfind("Collection/DataSet")
        return [(entry.attrib["file"], float(entry.attrib["timestep"])) for entry in entries]
    except (OSError, ElementTree.ParseError, KeyError, ValueError) as error:
        raise DataError(f"cannot read {str(path)!r} as a .pvd collection: {error}") from error
