"""Await private work in threads; no future's ``repr`` shows its result or its error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """As ``asyncio.to_thread``, whose futures asyncio quotes in debug mode and when one is lost.

    Raises:
        BaseException: What the function raises.
    """
    outcome = await asyncio.to_thread(lambda: _Outcome(function, *args, **kwargs))
    return outcome.value()


class _Outcome(Generic[T]):
    def __init__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._error: BaseException | None = None
        try:
            self._value = function(*args, **kwargs)
        except BaseException as error:
            self._error = error

    def value(self) -> T:
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            self._error = None  # it refers to this frame
