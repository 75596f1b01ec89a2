"""Labels of a mesh under names that HDF5 can hold: a slash would part groups, and PETSc's list of labels would end there."""

from __future__ import annotations

from collections.abc import Sequence

from petsc4py import PETSc

from femgpu.mesh.regions import copy_labels


def quote_labels(source: PETSc.DMPlex, target: PETSc.DMPlex, names: Sequence[str]) -> None:
    """Gives a clone that is to be written the labels of its DM, those with a slash in their names under others.

    Args:
        source: the DM.
        target: the clone.
        names: of all labels, in one order on all ranks.
    """
    quoted = {name: name.replace("%", "%25").replace("/", "%2F") for name in names}
    copy_labels(source, target, quoted)
    _remove(target, quoted)


def unquote_labels(dm: PETSc.DMPlex) -> None:
    """Gives labels that were read their names back."""
    found = [dm.getLabelName(i) for i in range(dm.getNumLabels())]
    quoted = {name: name.replace("%2F", "/").replace("%25", "%") for name in found if "%" in name}
    copy_labels(dm, dm, quoted)
    _remove(dm, quoted)


def _remove(dm: PETSc.DMPlex, renamed: dict[str, str]) -> None:
    for name, new in renamed.items():
        if name != new and dm.hasLabel(name):
            dm.removeLabel(name)
