"""What a program is told while something public takes long: records of the logger dp_middleware."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

PATIENCE = 2.0
"""Seconds without a word."""

_log = logging.getLogger("dp_middleware")


@contextmanager
def told(what: str) -> Iterator[None]:
    """Say at INFO that this goes on, once it takes longer than our patience, and how long it took.

    Args:
        what: Public: names of mechanisms, epsilons and sizes.
    """
    if not _log.isEnabledFor(logging.INFO):
        yield
        return
    started = time.monotonic()
    timer = Timer(PATIENCE, _log.info, ["%s ...", what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # its record comes first
        if (seconds := time.monotonic() - started) >= PATIENCE:
            _log.info("%s took %.1f s", what, seconds)
