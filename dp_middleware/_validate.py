"""Keyword validators for public parameters: ``positive(epsilon=epsilon)``."""

from __future__ import annotations

import math
from numbers import Integral, Real

from dp_middleware.errors import ParameterError


def _fail(expected: str, name: str, value: object) -> ParameterError:
    return ParameterError(f"expected {expected}, got {name}={value!r}")


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def positive(**parameters: float) -> None:
    """Checks that each parameter is a finite number above zero."""
    for name, value in parameters.items():
        if not _is_real(value) or not 0 < value < math.inf:
            raise _fail(f"{name} > 0 and finite", name, value)


def nonnegative(**parameters: float) -> None:
    """Checks that each parameter is a number of at least 0, or infinite."""
    for name, value in parameters.items():
        if not _is_real(value) or not value >= 0:
            raise _fail(f"{name} >= 0", name, value)


def at_least(minimum: int, **parameters: int) -> None:
    """Checks that each parameter is an integer of at least ``minimum``."""
    for name, value in parameters.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
            raise _fail(f"an integer {name} >= {minimum}", name, value)


def probability(**parameters: float) -> None:
    """Checks that each parameter lies strictly between zero and one."""
    for name, value in parameters.items():
        if not _is_real(value) or not 0 < value < 1:
            raise _fail(f"0 < {name} < 1", name, value)


def one_of(choices: tuple[str, ...], **parameters: str) -> None:
    """Checks that each parameter is one of the named choices."""
    for name, value in parameters.items():
        if value not in choices:
            raise _fail(f"{name} in {choices}", name, value)
