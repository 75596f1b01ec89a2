"""The options of p-multigrid."""

from __future__ import annotations

from dataclasses import dataclass

from petsc4py import PETSc

from femgpu.errors import OptionError
from femgpu.forms import Form
from femgpu.krylov import Operator, Vectors
from femgpu.multigrid import KINDS, Diagonal, Level, MakeLevel
from femgpu.operators import couples_components
from femgpu.runtime import Device
from femgpu.spaces import Field

PRECISIONS = ("auto", "single", "double")
GEOMETRIC = ("auto", "no")
SMOOTHERS = ("jacobi", "pbjacobi")
# Degree on tetrahedra up to which half of it is near enough.
_HALVED = 4


@dataclass(frozen=True)
class PMGOptions:
    """What `-pc_femgpu_pmg_...` say; the table stands at `PMG`.

    Attributes:
        degrees: of the levels below the form's own; empty: see `default_degrees`.
        steps: products with the operator before and after each coarse correction.
        kind: of the smoothers' polynomials.
        smoother: one of `SMOOTHERS`, what they are over.
        precision: one of `PRECISIONS`.
        estimate: products to estimate a largest eigenvalue.
        geometric: one of `GEOMETRIC`, whether there are levels on the meshes that the problem's refines.
        lag: set-ups after which what is below degree 1 is renewed; -1: when diagonals or iterations say so.
    """

    degrees: tuple[int, ...] = ()
    steps: int = 3
    kind: str = "fourth"
    smoother: str = "jacobi"
    precision: str = "auto"
    estimate: int = 10
    geometric: str = "auto"
    lag: int = -1

    def read(self, pc: PETSc.PC) -> PMGOptions:
        """These, and what the options of a PC say.

        Raises:
            OptionError: for degrees that do not decrease to 1, steps below 1, and unknown words.
        """
        prefix = f"{pc.getOptionsPrefix() or ''}pc_femgpu_pmg_"
        options = PETSc.Options(prefix)

        def number(name: str, default: int, extra: int = 1) -> int:
            value: int = options.getInt(name, default)
            if value < 1 and value != extra:
                more = "" if extra == 1 else f", or {extra}"
                raise OptionError(f"-{prefix}{name} {value}: expected an integer of at least 1{more}")
            return value

        def word(name: str, default: str, choices: tuple[str, ...]) -> str:
            value: str = options.getString(name, default)
            if value not in choices:
                raise OptionError(f"-{prefix}{name} {value}: expected one of {', '.join(choices)}")
            return value

        degrees = tuple(map(int, options.getIntArray("degrees", [])))
        if degrees and (degrees[-1] != 1 or any(a <= b for a, b in zip(degrees, degrees[1:], strict=False))):
            given = ",".join(map(str, degrees))
            raise OptionError(f"-{prefix}degrees {given}: expected degrees that decrease to 1, such as 4,2,1")
        return PMGOptions(
            degrees=degrees,
            steps=number("steps", self.steps),
            kind=word("kind", self.kind, KINDS),
            smoother=word("smoother", self.smoother, SMOOTHERS),
            precision=word("precision", self.precision, PRECISIONS),
            geometric=word("geometric", self.geometric, GEOMETRIC),
            estimate=number("esteig_steps", self.estimate),
            lag=number("lag", self.lag, extra=-1),
        )

    def begins_single(self, device: Device) -> bool:
        """Whether the cycle is in single precision at first; with `auto` set-up may object."""
        return prefers_single(device) if self.precision == "auto" else self.precision == "single"

    def levels_of(self, form: Form) -> MakeLevel:
        """What makes the levels of a form, smoothed as they say: over blocks only where these are more than their diagonals."""
        blocks = self.smoother == "pbjacobi" and couples_components(form)

        def make(vectors: Vectors, operator: Operator, diagonal: Diagonal, size: int, first: int) -> Level:
            return Level(vectors, operator, diagonal, size if blocks else 1, self.kind, self.steps, first, self.estimate)

        return make

    def degrees_below(self, field: Field, prefix: str) -> tuple[int, ...]:
        """Degrees of the levels below fields like this one; with bubbles they may begin with the field's own, without.

        Args:
            field: a field of the form's space.
            prefix: of the PC's options.

        Raises:
            OptionError: where the options name degrees that are not lower.
        """
        tetrahedra = any(element.cell == "tetrahedron" for element in field.elements)
        degrees = self.degrees or default_degrees(field.degree, tetrahedra) or (1,)
        if degrees[0] < field.degree + field.bubble:
            return degrees
        if degrees == (1,):
            return ()
        what = f"degree {field.degree}{' with bubbles' if field.bubble else ''}"
        given = ",".join(map(str, degrees))
        raise OptionError(f"-{prefix}pc_femgpu_pmg_degrees {given}: the form's space has {what}; expected lower ones")


def default_degrees(degree: int, tetrahedra: bool) -> tuple[int, ...]:
    """Degrees of the levels below one: p/2, p/4, ..., 1; on tetrahedra p - 1, ..., 4, 2, 1, and 2, 1 below 3.

    A few steps over the diagonal reduce what a coarse level leaves only if its degree is near, and on tetrahedra it must be nearer:
    there the diagonal says ever less of the operator (`docs/multigrid.md`, "Levels").

    Args:
        degree: p.
        tetrahedra: whether the mesh has some.
    """
    if degree == 1:
        return ()
    below = degree // 2
    if tetrahedra:
        below = degree - 1 if degree > _HALVED else (degree + 1) // 2
    return below, *default_degrees(below, tetrahedra)


def prefers_single(device: Device) -> bool:
    """Whether a cycle in single precision is faster: on a CPU it takes as long."""
    return device.is_gpu
