"""Validators of public parameters: ``positive(epsilon=epsilon)``, or a rule for a field."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from numbers import Integral, Real
from typing import Any

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


def one_of(choices: tuple[str | None, ...], **parameters: str | None) -> None:
    """Checks that each parameter is one of the named choices."""
    for name, value in parameters.items():
        if value not in choices:
            raise _fail(f"{name} in {choices}", name, value)


Rule = dict[str, Any]
"""Metadata of a field: the check that :func:`check_fields` makes, and the type of what it keeps."""


def _finite(**parameters: float) -> None:
    for name, value in parameters.items():
        if not _is_real(value) or not 0 <= value < math.inf:
            raise _fail(f"{name} >= 0 and finite", name, value)


def _at_most(most: int, minimum: int, **parameters: int) -> None:
    at_least(minimum, **parameters)
    for name, value in parameters.items():
        if value > most:
            raise _fail(f"{name} <= {most}", name, value)


POSITIVE: Rule = {"check": positive, "kind": float}
NONNEGATIVE: Rule = {"check": _finite, "kind": float}
PROBABILITY: Rule = {"check": probability, "kind": float}
COUNT: Rule = {"check": partial(at_least, 1), "kind": int}


def count(minimum: int = 1, most: int | None = None) -> Rule:
    """Makes the rule of an integer between these."""
    check = partial(at_least, minimum) if most is None else partial(_at_most, most, minimum)
    return {"check": check, "kind": int}


def choice(*choices: str) -> Rule:
    """Makes the rule of a word that is one of these."""
    return {"check": partial(one_of, choices), "kind": str}


def check_fields(value: Any) -> None:
    """Checks the fields of a frozen dataclass by their rules, and keeps plain numbers of them.

    ``None`` passes where it is the default.
    """
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if "check" in field.metadata and not (given is None and field.default is None):
            field.metadata["check"](**{field.name: given})
            object.__setattr__(value, field.name, field.metadata["kind"](given))
