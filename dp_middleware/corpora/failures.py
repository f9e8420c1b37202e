"""What goes wrong with files, told without their contents."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from dp_middleware.errors import ParameterError, raise_alone


@contextmanager
def readable() -> Iterator[None]:
    """A private file is read.

    Raises:
        ParameterError: In place of what went wrong, which may quote a row.
    """
    failure: ParameterError | None = None
    try:
        yield
    except ParameterError:
        raise
    except (OSError, pa.ArrowException, ValueError, csv.Error) as error:
        failure = ParameterError(
            f"expected a file that can be read as its ending says, got: {_reason(error)}; its "
            "message is withheld, it may quote a row"
        )
    raise_alone(failure)


@contextmanager
def on_disk() -> Iterator[None]:
    """Released text is written or read.

    Raises:
        ParameterError: In place of what went wrong.
    """
    failure: ParameterError | None = None
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        failure = ParameterError(
            "expected room and files that can be written and read for the chunks, got: "
            f"{_reason(error)}; what was released is kept; mend this and run the same again"
        )
    raise_alone(failure)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
