"""Validators of public parameters: ``positive(epsilon=epsilon)``, or a rule for a field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any

from dp_middleware.errors import ParameterError

Rule = dict[str, Any]
"""Metadata of a field: the check that :func:`check_fields` makes, and the type of what it keeps."""


Check = Callable[..., None]


def _check_of(expected: str, fits: Callable[[Any], bool], kind: type = Real) -> Check:
    def check(**parameters: Any) -> None:
        for name, value in parameters.items():
            if not isinstance(value, kind) or isinstance(value, bool) or not fits(value):
                raise ParameterError(f"expected {expected.format(name)}, got {name}={value!r}")

    return check


positive = _check_of("{} > 0 and finite", lambda value: 0 < value < math.inf)
nonnegative = _check_of("{} >= 0", lambda value: value >= 0)  # or infinite
probability = _check_of("0 < {} < 1", lambda value: 0 < value < 1)
_finite = _check_of("{} >= 0 and finite", lambda value: 0 <= value < math.inf)


def at_least(minimum: int, most: float = math.inf, /, **parameters: int) -> None:
    """Checks that each parameter is an integer of at least ``minimum``, and at most ``most``."""
    expected = f"an integer {{}} >= {minimum}" + f" and <= {most}" * math.isfinite(most)
    _check_of(expected, lambda value: minimum <= value <= most, Integral)(**parameters)


def one_of(choices: tuple[str | None, ...], **parameters: str | None) -> None:
    """Checks that each parameter is one of the named choices."""
    _check_of(f"{{}} in {choices}", choices.__contains__, object)(**parameters)


POSITIVE: Rule = {"check": positive, "kind": float}
NONNEGATIVE: Rule = {"check": _finite, "kind": float}
PROBABILITY: Rule = {"check": probability, "kind": float}


def count(minimum: int = 1, most: float = math.inf) -> Rule:
    """Makes the rule of an integer between these."""
    return {"check": partial(at_least, minimum, most), "kind": int}


COUNT = count()


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
