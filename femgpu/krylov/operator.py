"""What a Krylov method is given: an operator and a preconditioner on device buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Operator:
    """q = A p on device buffers.

    Attributes:
        apply: q = A p.
        add: with `DOT_WORDS` numbers as third argument q += A p times the quotient of the last two, and to those before are added
            shares of p.q; entries where `mask` is set are left to the method in both; None: there is only `apply`.
        mask: device buffer (n,) uint8 of the entries that A only scales; None: none.
        scale: device buffer (1,) of their factor.
        bind: with p and q the launches of q += A p, for a q that is prepared likewise, without slots; None: there are none.
    """

    apply: Callable[[Any, Any], None]
    add: Callable[[Any, Any, Any], None] | None = None
    mask: Any = None
    scale: Any = None
    bind: Callable[[Any, Any], Sequence[Callable[[], None]]] | None = None


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """z = M r on device buffers.

    Attributes:
        diagonal: device buffer of the diagonal of M; None: M is 1, or `apply` does it.
        apply: z = M r where M is no diagonal.
    """

    diagonal: Any = None
    apply: Callable[[Any, Any], None] | None = None
