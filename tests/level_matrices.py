"""Coarse functions in finer spaces as matrices: what transfers between levels are held against."""

import numpy as np

from femgpu.mesh.refine import child_values


def matrix_between(coarse, fine, children=False):
    """(fine.num_local, coarse.num_local) nodal values of the coarse basis functions, cell by cell from their tabulations.

    Args:
        coarse: the space of the functions.
        fine: a space on the same mesh.
        children: it is on a mesh that refines that one, both of degree 1.
    """
    found = np.full((fine.num_local, coarse.num_local), np.nan)
    for origin, field in zip(coarse.fields, fine.fields, strict=True):
        for element, other, origins, offsets in zip(origin.elements, field.elements, origin.offsets, field.offsets, strict=True):
            table = child_values(element.cell).reshape(-1, element.num_basis) if children else element.tabulate(other.nodes)[0]
            for nodes, parents in zip(offsets.reshape(len(origins), -1), origins, strict=True):
                for component in range(field.num_comp):
                    rows = np.zeros((len(nodes), coarse.num_local))
                    np.add.at(rows.T, parents + component, table.T)
                    found[nodes + component] = rows
    assert not np.isnan(found).any()
    return found
