"""The regions of measures: `dx("inclusion")`, `ds(3)`, `ds(3, subdomain_data="label")`.

UFL keeps names as subdomain ids, but its grouping of integrals knows integers only, and forgets subdomain data.
"""

from __future__ import annotations

from typing import Any

import ufl

from femgpu.errors import FormError
from femgpu.forms.ufl.show import show
from femgpu.mesh.regions import CELL_LABEL, FACET_LABEL

# Integral types, and the label that plain numbers are values of.
LABELS = {"cell": CELL_LABEL, "exterior_facet": FACET_LABEL, "interior_facet": FACET_LABEL}
# What they are called in forms.
MEASURES = {"cell": "dx", "exterior_facet": "ds", "interior_facet": "dS"}


def number_regions(form: Any) -> tuple[Any, dict[int, Any]]:
    """Replaces all regions but values of the default labels by numbers.

    Args:
        form: a form whose integrals `check_regions` has passed.

    Returns:
        The form, and the region behind each number that stands for one: a name, or (label name, value). The numbers depend on the
        regions alone.
    """
    regions = [_region(integral) for integral in form.integrals()]
    numbers = [region for region in regions if isinstance(region, int)]
    others = sorted({region for region in regions if not isinstance(region, int | None)}, key=str)
    number = {region: 1 + max(numbers, default=0) + i for i, region in enumerate(others)}
    integrals = [
        integral.reconstruct(subdomain_id="everywhere" if region is None else number.get(region, region))
        for integral, region in zip(form.integrals(), regions, strict=True)
    ]
    return ufl.Form(integrals), {value: region for region, value in number.items()}


def check_regions(form: Any, what: str) -> None:
    """Refuses regions that are none, and those that look like a value of a label but mean something else.

    UFL reads the pair of `ds(("label", 3))` as two regions, the one called "label" and number 3, which nobody can tell afterwards
    from `f * ds("label") + f * ds(3)`.

    Args:
        form: the form.
        what: how messages name it.

    Raises:
        FormError: naming what is expected.
    """
    seen: dict[Any, Any] = {}
    for integral in form.integrals():
        measure = MEASURES[integral.integral_type()]
        _check_region(integral, what, measure)
        region = _region(integral)
        if not isinstance(region, int | str) or (isinstance(region, int) and integral.subdomain_data() is not None):
            continue
        key = (integral.integral_type(), integral.ufl_domain(), str(sorted(integral.metadata().items())), integral.integrand())
        other = seen.setdefault(key, region)
        if isinstance(other, int) != isinstance(region, int):
            name, value = (region, other) if isinstance(region, str) else (other, region)
            default = f"{measure}({value}, subdomain_data={LABELS[integral.integral_type()]!r})"
            of_label = f"{measure}({value}, subdomain_data={name!r})"
            meant = default if of_label == default else f"{default} for the number, or {of_label} for a value of the label {name!r}"
            raise FormError(
                f"{what}: equal integrands over the region {name!r} and over the number {value}; write {meant}: UFL takes "
                f"{measure}(({name!r}, {value})) for the sum of both: {show(integral.integrand())}"
            )


def _check_region(integral: Any, what: str, measure: str) -> None:
    data, region = integral.subdomain_data(), integral.subdomain_id()
    integrand = show(integral.integrand())
    if data is not None and _label(data) is None:
        raise FormError(
            f"{what}: subdomain_data of type {type(data).__name__} is not supported; expected the name of a label of the mesh, "
            f"{measure}(3, subdomain_data='label'); {measure}(3) refers to {LABELS[integral.integral_type()]!r}: {integrand}"
        )
    if region == "otherwise":
        raise FormError(
            f"{what}: the subdomain 'otherwise' is not supported; expected label values, names or 'everywhere': {integrand}"
        )


def _label(data: Any) -> str | None:
    """The label that subdomain data name: by itself, or as a PETSc.DMLabel."""
    name = data.getName() if hasattr(data, "getName") else data
    return name if isinstance(name, str) and name else None


def _region(integral: Any) -> Any:
    """None for everywhere, an int for a value of the default label, else a name or (label name, value)."""
    region, data = integral.subdomain_id(), integral.subdomain_data()
    if isinstance(region, str):
        return None if region == "everywhere" else region
    label = None if data is None else _label(data)
    return int(region) if label in (None, LABELS[integral.integral_type()]) else (label, int(region))
