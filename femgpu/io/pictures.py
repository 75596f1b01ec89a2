"""Pictures of functions, drawn off-screen by pyvista (extra `plot`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from femgpu.errors import DataError, collective
from femgpu.io import draw_vtu
from femgpu.io.files import check_folder
from femgpu.io.sampling import sample
from femgpu.io.vtu import gather_grid
from femgpu.spaces import Function

_TIMEOUT_SECONDS = 600


def picture(
    path: str | os.PathLike[str],
    u: Function,
    component: int | None = None,
    edges: bool = False,
    warp: float = 0.0,
    size: tuple[int, int] = (1200, 900),
    colors: str = "viridis",
) -> None:
    """Draws a function on a plane mesh or on the surface of a solid one, with a scalar bar, into a .png; collective.

    The function is gathered on the first rank, which draws it in a process of its own. Needs pyvista (extra `plot`), no
    display.

    Args:
        path: the .png.
        u: what to show; of a vector or tensor the norm, unless a component is given.
        component: component of u; entries of tensors count row by row.
        edges: whether to draw the edges of the cells.
        warp: multiple of u, then a vector with an entry per direction, by which the mesh is displaced; 0 leaves it in
            place.
        size: width and height in pixels.
        colors: name of a matplotlib colour map.

    Raises:
        DataError: on all ranks, for another suffix, a mesh of dimension 1, a component that does not exist, a warp by
            something else than a displacement, when pyvista is missing, or when it cannot draw.
    """
    target = Path(path)
    mesh = u.space.mesh
    _check(target, u, component, warp)
    with collective(mesh.mpi):
        if mesh.mpi.rank == 0:
            _check_surroundings(target)
    grid = sample([u], shared=True)
    scratch = tempfile.TemporaryDirectory() if mesh.mpi.rank == 0 else None
    try:
        file = Path(scratch.name if scratch else "") / "picture.vtu"
        gather_grid(file, grid, mesh.mpi)
        with collective(mesh.mpi):
            if mesh.mpi.rank == 0:
                what = {"name": u.name, "component": _entry(u, component), "label": _label(u, component)}
                how = {"edges": edges, "warp": warp, "size": list(size), "colors": colors}
                _draw(target, {"vtu": str(file), "dim": mesh.dim, "degree": grid.degree, **what, **how})
    finally:
        if scratch:
            scratch.cleanup()


def _check(path: Path, u: Function, component: int | None, warp: float) -> None:
    space = u.space
    if path.suffix != ".png":
        raise DataError(f"cannot draw {str(path)!r}: expected a name that ends in .png")
    if space.mesh.dim == 1:
        raise DataError(f"cannot draw {u.name!r} on a mesh of dimension 1; expected 2 or 3: write a .vtu and plot that")
    entries = len(space.entry_components)
    if component is not None and not 0 <= component < entries:
        raise DataError(f"component {component} of {u.name!r}: expected 0 to {entries - 1}")
    if warp and (space.value_shape != (space.mesh.dim,) or space.degree == 0):
        raise DataError(f"warp by {u.name!r} of shape {space.value_shape}: expected a vector of shape {(space.mesh.dim,)}")


def _check_surroundings(path: Path) -> None:
    if find_spec("pyvista") is None:
        raise DataError(f"cannot draw {str(path)!r} without pyvista: run pip install 'femgpu[plot]', or write a .vtu")
    check_folder(path, "draw")


def _entry(u: Function, component: int | None) -> int | None:
    """The entry of a row of the file; None shows the norm, and a scalar as it is."""
    if component is not None and u.space.num_comp > 1 and u.space.value_shape == (2, 2) and u.space.mesh.dim == 2:
        return (0, 1, 3, 4)[component]
    return component if u.space.num_comp > 1 else None


def _label(u: Function, component: int | None) -> str:
    if u.space.num_comp == 1:
        return u.name
    return f"|{u.name}|" if component is None else f"{u.name}[{component}]"


def _draw(target: Path, options: dict[str, Any]) -> None:
    """Runs the renderer and puts its picture under the target's name."""
    temporary = target.with_name(f".{target.stem}.{os.getpid()}.part.png")
    # -P keeps this folder's modules from standing in for others of the same name.
    command = [sys.executable, "-P", str(draw_vtu.__file__), json.dumps({**options, "png": str(temporary)})]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
        if done.returncode != 0 or not temporary.exists():
            last = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise DataError(
                f"cannot draw {str(target)!r}: the renderer ended with code {done.returncode}; on Debian install "
                f"libgl1, libosmesa6 and libxrender1, or write a .vtu and draw it elsewhere. Its last words:\n{last}"
            )
        os.replace(temporary, target)
    except subprocess.TimeoutExpired:
        raise DataError(f"cannot draw {str(target)!r} in {_TIMEOUT_SECONDS} s; write a .vtu and draw it elsewhere") from None
    finally:
        temporary.unlink(missing_ok=True)
