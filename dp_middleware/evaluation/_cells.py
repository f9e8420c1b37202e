"""Finished parts of an evaluation on disk, one file each, so that a run that ends early goes on."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_middleware import _files
from dp_middleware.errors import withheld
from dp_middleware.privacy.certificate import json_number

Row = dict[str, Any]

_UNWRITABLE = "expected a folder that can be written, got {}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One mechanism at one epsilon on one data set.

    Attributes:
        rows: Results; see ``Results``.
        example: What became of the sample text: ``tokens`` and ``released``, which are public.
        complete: Whether to keep it: not where a package was missing.
    """

    rows: list[Row]
    example: dict[str, Any] | None
    complete: bool = True


class Cells:
    """The files of a folder, under names that say all that decides a cell.

    Args:
        folder: Made if it is not there; ``None``: nothing is kept.

    Raises:
        ParameterError: It cannot be made.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            with withheld(_UNWRITABLE, OSError):
                folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str | None) -> Cell | None:
        """The finished cell of this name; ``None`` if it was not finished, or is damaged."""
        if self._folder is None or name is None:
            return None
        try:
            data = json.loads((self._folder / name).read_text(encoding="utf-8"))
            rows = [
                {name: math.inf if value == "inf" else value for name, value in row.items()}
                for row in data["rows"]
            ]
            return Cell(rows=rows, example=data["example"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def store(self, name: str | None, cell: Cell) -> None:
        """Write whole or not at all; a cell without a name is not kept."""
        if self._folder is None or name is None or not cell.complete:
            return
        data = {"rows": [pack_row(row) for row in cell.rows], "example": cell.example}
        write(self._folder / name, json.dumps(data, indent=1).encode())


def write(path: Path, data: bytes) -> None:
    """Write whole or not at all: whoever reads meanwhile, or after a crash, sees one or the other.

    Raises:
        ParameterError: The folder cannot be written.
    """
    with withheld(_UNWRITABLE, OSError), _files.unfinished(path) as file:
        file.write(data)


def pack_row(row: Row) -> Row:
    """The row with infinity as a string, as JSON has none."""
    return {k: json_number(v) if isinstance(v, float) else v for k, v in row.items()}
