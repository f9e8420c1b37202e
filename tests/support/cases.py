"""One test for many values: a loop, and what fails says with which value it did."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from dp_middleware.errors import ParameterError


def over(names, values):
    """Runs a test with all values, as ``pytest.mark.parametrize`` would, in one case.

    For values that differ in nothing but themselves: fixtures are made once. A value that is
    skipped skips no other. Of several names with commas between them, each value is a tuple.
    """
    arguments = [name.strip() for name in names.split(",")]
    assert values, "a test of no values cannot fail"

    def decorate(test):
        @functools.wraps(test)
        def run(**given):
            skipped = []
            for value in values:
                row = dict(zip(arguments, value if len(arguments) > 1 else (value,), strict=True))
                try:
                    test(**given, **row)
                except pytest.skip.Exception as error:
                    skipped.append(error)
                except BaseException as error:
                    error.add_note(f"with {', '.join(f'{k} = {v!r:.200}' for k, v in row.items())}")
                    raise
            if len(skipped) == len(values):
                raise skipped[0]

        own = inspect.signature(test)
        kept = [each for name, each in own.parameters.items() if name not in arguments]
        run.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


def refuses(
    told: str, call: Callable[[Any], object], *values: Any, kind: type[Exception] = ParameterError
) -> None:
    """Asserts that a call refuses each of some values, in words that match."""
    for value in values:
        with pytest.raises(kind, match=told):
            call(value)
