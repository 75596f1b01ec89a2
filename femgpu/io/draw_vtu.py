"""Draws one field of a .vtu file into a .png, off-screen.

A program of its own that knows nothing of femgpu, PETSc or MPI: rendering libraries abort the process when they find no
display to draw on; a process of its own turns that into an error of `picture`. Its one argument is a JSON object with
the keys of `draw`.
"""

from __future__ import annotations

import json
import os
import sys
from ctypes.util import find_library
from typing import Any


def draw(
    vtu: str,
    png: str,
    name: str,
    component: int | None,
    label: str,
    dim: int,
    degree: int,
    edges: bool,
    warp: float,
    size: list[int],
    colors: str,
) -> None:
    """Colours the surface of a mesh by a field.

    Args:
        vtu: file to read.
        png: file to write.
        name: point or cell data to show.
        component: which entry of a row; the norm of the row where None.
        label: title of the scalar bar.
        dim: dimension of the mesh, 2 or 3.
        degree: of the cells; curved faces are cut finer.
        edges: whether to draw the edges of the cells.
        warp: multiple of the field, then a vector, that displaces the mesh.
        size: width and height in pixels.
        colors: name of a matplotlib colour map.
    """
    if not os.environ.get("DISPLAY") and find_library("OSMesa"):
        os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", "vtkOSOpenGLRenderWindow")
    import pyvista

    grid: Any = pyvista.read(vtu)
    if warp:
        grid.points += warp * grid.point_data[name]
    plotter: Any = pyvista.Plotter(off_screen=True, window_size=size)
    bar = {"title": label, "vertical": True, "position_x": 0.86, "position_y": 0.2, "height": 0.6, "fmt": "%.3g"}
    plotter.add_mesh(
        _surface(grid, 0 if degree == 1 else min(degree, 3)),
        scalars=name,
        component=component,
        cmap=colors,
        scalar_bar_args=bar,
        lighting=dim == 3,
        ambient=0.2,
    )
    if edges:
        lines = plotter.add_mesh(_surface(grid, 0), style="wireframe", color="black", line_width=1, opacity=0.4)
        # Lines lie in the faces that they part: without this they vanish in them, here and there.
        lines.mapper.SetResolveCoincidentTopologyToPolygonOffset()
        lines.mapper.SetRelativeCoincidentTopologyLineOffsetParameters(0, -8)
        lines.mapper.SetRelativeCoincidentTopologyPolygonOffsetParameters(0, -8)
    if dim == 2:
        plotter.view_xy()
    else:
        plotter.view_isometric()
        plotter.add_axes()
    plotter.screenshot(png)
    plotter.close()


def _surface(grid: Any, level: int) -> Any:
    """The outer faces, each cut level times in every direction."""
    import pyvista
    from vtkmodules.vtkFiltersGeometry import vtkDataSetSurfaceFilter

    surface = vtkDataSetSurfaceFilter()
    surface.SetInputData(grid)
    surface.SetNonlinearSubdivisionLevel(level)
    surface.Update()
    return pyvista.wrap(surface.GetOutput())


if __name__ == "__main__":
    draw(**json.loads(sys.argv[1]))
