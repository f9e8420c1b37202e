"""What goes wrong with files, told without their contents."""

from __future__ import annotations

import csv
from contextlib import AbstractContextManager

import pyarrow as pa

from dp_middleware.errors import withheld


def readable() -> AbstractContextManager[None]:
    """Reads a private file in its block: an error, which may quote a row, is withheld."""
    return withheld(
        "expected a file that can be read as its ending says, got: {}; its message is withheld, it "
        "may quote a row",
        *(OSError, pa.ArrowException, ValueError, csv.Error),
    )


def on_disk() -> AbstractContextManager[None]:
    """Writes or reads released text in its block."""
    return withheld(
        "expected room and files that can be written and read for the chunks, got: {}; what was "
        "released is kept; mend this and run the same again",
        *(OSError, pa.ArrowInvalid),
    )
