"""Finished parts of an evaluation on disk, one file each, so that a run that ends early goes on."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_middleware._files import code_fingerprint, folders_fingerprint
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import Mechanism

Row = dict[str, Any]

_INFINITE = "inf"
_FORMAT = 1  # raised when what a cell holds changes


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One mechanism at one epsilon on one data set.

    Attributes:
        rows: Results; see ``Results``.
        example: What became of the sample text: ``tokens`` and ``released``, which are public.
        complete: Whether it is to be kept: not where a package was missing.
    """

    rows: list[Row]
    example: dict[str, Any] | None
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class Key:
    """All that decides a cell, code included; public.

    Attributes:
        chosen: A name or a mechanism.
        epsilon: Asked for.
        exact: Whether it is the exact one.
        data: Name of the data set.
        digest: Of the data set.
        space: Fingerprint of the space.
        settings: Whatever else decides: measures, numbers of tokens and texts, models; ``None``
            for a model without a name, which cannot be told from another: nothing is kept.
    """

    chosen: str | Mechanism
    epsilon: float
    exact: bool
    data: str
    digest: str
    space: str
    settings: tuple[str, ...] | None

    @property
    def mechanism(self) -> str:
        """Its name."""
        return self.chosen if isinstance(self.chosen, str) else self.chosen.name

    @property
    def filename(self) -> str | None:
        """The same for equal keys, another for others; ``None`` if it cannot be told."""
        if self.settings is None:
            return None
        law = self.chosen if isinstance(self.chosen, str) else self.chosen.fingerprint
        parts = (
            *(str(_FORMAT), version("dp-middleware"), code_fingerprint(), _code_fingerprint()),
            *(law, repr(self.epsilon), str(self.exact), self.digest, self.space, *self.settings),
        )
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        kind = "exact" if self.exact else "nominal"
        return f"{self.data}-{self.mechanism}-{kind}-{self.epsilon:g}-{digest}.json"


class Cells:
    """The files of a folder.

    Args:
        folder: Made if it is not there; ``None``: nothing is kept.

    Raises:
        ParameterError: It cannot be made.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ParameterError(
                    f"expected a folder that can be written, got {type(error).__name__}"
                ) from None

    def load(self, key: Key) -> Cell | None:
        """What was finished; ``None`` if it was not, or is damaged."""
        name = key.filename
        if self._folder is None or name is None:
            return None
        try:
            found = json.loads((self._folder / name).read_text(encoding="utf-8"))
            return Cell(rows=[parsed(row) for row in found["rows"]], example=found["example"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def store(self, key: Key, cell: Cell) -> None:
        """Write whole or not at all."""
        name = key.filename
        if self._folder is None or name is None or not cell.complete:
            return
        data = {"rows": [plain(row) for row in cell.rows], "example": cell.example}
        write(self._folder / name, json.dumps(data, indent=1).encode())


def _code_fingerprint() -> str:
    """Changes whenever a file that decides a measure does."""
    return folders_fingerprint("attacks", "metrics", "evaluation", "contexts")


def write(path: Path, data: bytes) -> None:
    """Write whole or not at all: whoever reads meanwhile, or after a crash, sees one or the other.

    Raises:
        ParameterError: The folder cannot be written.
    """
    try:
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
            file.write(data)
        Path(file.name).replace(path)
    except OSError as error:
        raise ParameterError(
            f"expected a folder that can be written, got {type(error).__name__}"
        ) from None


def plain(row: Row) -> Row:
    """JSON has no infinity."""
    return {k: _INFINITE if isinstance(v, float) and math.isinf(v) else v for k, v in row.items()}


def parsed(row: Row) -> Row:
    """Inverse of :func:`plain`."""
    return {name: math.inf if value == _INFINITE else value for name, value in row.items()}
