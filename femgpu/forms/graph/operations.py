"""The operations of the scalar graph: OpenCL C text, numpy function and cost of each, in one table."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Operation:
    """One kind of node.

    Attributes:
        text: OpenCL C with `{0}`, `{1}`, ... for the operands; valid in C99 too.
        numpy: the same, vectorised.
        flops: floating-point operations.
        logical: whether the result is a truth value.
    """

    text: str
    numpy: Callable[..., Any]
    flops: int = 1
    logical: bool = False


def _call(name: str, function: Callable[..., Any], num_operands: int = 1) -> Operation:
    operands = ", ".join(f"{{{i}}}" for i in range(num_operands))
    return Operation(f"{name}({operands})", function)


def _bessel(name: str, of_scipy: str) -> Operation:
    """A function of integer order, the first operand; in `kernels/cl/bessel.cl`."""

    def evaluate(order: Any, x: Any) -> Any:
        # Imported here: few forms need it, and all programs would wait for it.
        from scipy import special

        return getattr(special, of_scipy)(order, x)

    return Operation(f"{name}((int)({{0}}), {{1}})", evaluate, flops=_BESSEL)


# Operations of a Bessel function, about.
_BESSEL = 300

# numpy has no error function; this one is a loop inside numpy, good enough for a reference.
_erf = np.vectorize(math.erf, otypes=[np.float64])

OPERATIONS: dict[str, Operation] = {
    "+": Operation("{0} + {1}", np.add),
    "-": Operation("{0} - {1}", np.subtract),
    "*": Operation("{0} * {1}", np.multiply),
    "neg": Operation("-{0}", np.negative, flops=0),
    "rcp": Operation("R(0x1p+0 /* 1.0 */) / {0}", lambda a: np.divide(1.0, a)),
    "?": Operation("{0} ? {1} : {2}", np.where, flops=0),
    "!": Operation("!{0}", np.logical_not, flops=0, logical=True),
    "&&": Operation("{0} && {1}", np.logical_and, flops=0, logical=True),
    "||": Operation("{0} || {1}", np.logical_or, flops=0, logical=True),
    "<": Operation("{0} < {1}", np.less, flops=0, logical=True),
    ">": Operation("{0} > {1}", np.greater, flops=0, logical=True),
    "<=": Operation("{0} <= {1}", np.less_equal, flops=0, logical=True),
    ">=": Operation("{0} >= {1}", np.greater_equal, flops=0, logical=True),
    "==": Operation("{0} == {1}", np.equal, flops=0, logical=True),
    "!=": Operation("{0} != {1}", np.not_equal, flops=0, logical=True),
    "fmin": _call("fmin", np.fmin, 2),
    "fmax": _call("fmax", np.fmax, 2),
    "pow": _call("pow", np.power, 2),
    "atan2": _call("atan2", np.arctan2, 2),
    "fabs": _call("fabs", np.abs),
    "sqrt": _call("sqrt", np.sqrt),
    "exp": _call("exp", np.exp),
    "log": _call("log", np.log),
    "sin": _call("sin", np.sin),
    "cos": _call("cos", np.cos),
    "tan": _call("tan", np.tan),
    "asin": _call("asin", np.arcsin),
    "acos": _call("acos", np.arccos),
    "atan": _call("atan", np.arctan),
    "sinh": _call("sinh", np.sinh),
    "cosh": _call("cosh", np.cosh),
    "tanh": _call("tanh", np.tanh),
    "erf": _call("erf", _erf),
    "bessel_j": _bessel("bessel_j", "jv"),
    "bessel_y": _bessel("bessel_y", "yv"),
    "bessel_i": _bessel("bessel_i", "iv"),
    "bessel_k": _bessel("bessel_k", "kv"),
}

# Operations in double precision on a GPU, in units of one addition or multiplication; the others cost what they count.
EFFORT = {
    "rcp": 8.0, "sqrt": 10.0, "exp": 16.0, "log": 24.0, "pow": 60.0, "sin": 24.0, "cos": 24.0, "tan": 36.0, "asin": 24.0,
    "acos": 24.0, "atan": 24.0, "atan2": 32.0, "sinh": 28.0, "cosh": 28.0, "tanh": 28.0, "erf": 32.0,
}  # fmt: skip

# Instructions that operations become in double precision on a GPU, whose compilers put functions in place of calls: counted in
# the PTX of libdevice 12.9, without what is called from there. The others are one or, where they cost nothing, none.
LENGTH = {
    "rcp": 8, "sqrt": 10, "exp": 45, "log": 70, "pow": 250, "sin": 80, "cos": 80, "tan": 90, "asin": 65,
    "acos": 80, "atan": 45, "atan2": 75, "sinh": 65, "cosh": 40, "tanh": 70, "erf": 70,
}  # fmt: skip
_CALLS = re.compile(rf"\b({'|'.join(LENGTH)})\s*\(")


def length(text: str) -> int:
    """Instructions that C text becomes, about: its operators, and what functions are in place of their calls."""
    return sum(text.count(operator) for operator in "+-*/<>?(") + sum(LENGTH[name] for name in _CALLS.findall(text))
