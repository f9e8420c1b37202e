"""What is said while something public takes long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Timer

PATIENCE = 2.0  # seconds without a word

_log = logging.getLogger("dp_middleware")
_going_on = list[str]()


@contextmanager
def in_time(say: Callable[[], object]) -> Iterator[None]:
    """Says something in another thread once this takes longer than our patience, never after it."""
    timer = Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def told(what: str) -> Iterator[None]:
    """Logs at INFO that this goes on, once it takes longer than our patience, and how long it took.

    ``what`` is public: names of mechanisms, epsilons and sizes.
    """
    started, is_heard = time.monotonic(), _log.isEnabledFor(logging.INFO)
    _going_on.append(what)
    try:
        with in_time(lambda: _log.info("%s ...", what)) if is_heard else nullcontext():
            yield
    finally:
        _going_on.remove(what)
        if is_heard and (seconds := time.monotonic() - started) >= PATIENCE:
            _log.info("%s took %.1f s", what, seconds)


def going_on() -> str:
    """Returns the innermost of what :func:`told` tells in this process now; empty: nothing."""
    return next(reversed(tuple(_going_on)), "")
