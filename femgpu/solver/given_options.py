"""PETSc options that a program gives one of its problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from petsc4py import PETSc

from femgpu.errors import OptionError, callers, told

Method = TypeVar("Method", bound=Callable[..., Any])


class GivenOptions:
    """Options of one problem, in PETSc's database only while that problem is made or solves: its solvers read some of them late.

    What the database holds under the same name, from the command line, rules.

    Args:
        prefix: the problem's options prefix.
        options: values by name, without dash and prefix; None stands for an option without a value.

    Raises:
        OptionError: for options that are no mapping of names.
    """

    def __init__(self, prefix: str, options: Mapping[str, Any] | None):
        options = {} if options is None else options
        if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
            raise OptionError(f"petsc_options is {told(options)}; expected values by name: {{'ksp_type': 'cg', 'pc_type': 'gamg'}}")
        self._options = {prefix + name.removeprefix("-"): value for name, value in options.items()}
        self._unread: set[str] | None = set(self._options)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._options)

    @contextmanager
    def inserted(self) -> Iterator[None]:
        """Puts the options into the database, and takes them out again."""
        database = PETSc.Options()
        added = [name for name in self._options if not database.hasName(name)]
        for name in added:
            database.setValue(name, self._options[name])
        try:
            yield
        finally:
            for name in added:
                if self._unread is not None and database.used(name):
                    self._unread.discard(name)
                database.delValue(name)
            if self._unread is not None:
                self._unread &= set(added)  # the others are the command line's

    def warn_unread(self) -> None:
        """Names, once, the options that nothing has read, misspelt ones say: -options_left does not see what is taken out again."""
        database = PETSc.Options()
        unread = sorted(name for name in self._unread or () if not database.used(name))
        self._unread = None
        if unread:
            listing = ", ".join(f"-{name}" for name in unread)
            said = f"petsc_options that no solver has read: {listing}; misspelt, or not for what was chosen?"
            warnings.warn(said, stacklevel=callers())


def with_given_options(method: Method) -> Method:
    """Makes a method of a problem run with the problem's `given_options` inserted."""

    @wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.given_options.inserted():
            return method(self, *args, **kwargs)

    return cast("Method", wrapped)
