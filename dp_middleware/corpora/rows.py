"""Rows of a file in chunks: their private cells as strings, the rest as it stands there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from dp_middleware.errors import ParameterError

_USUAL = frozenset([
    "id", "name", "first_name", "last_name", "mail", "email", "phone", "address", "city",
    "who", "user", "user_id", "subject", "author", "role", "text", "texts", "title",
    "body", "content", "note", "notes", "comment", "message", "messages", "document", "summary",
    "prompt", "question", "answer", "response", "review", "report", "description", "label", "score",
    "rating", "category", "language", "source", "target", "split", "date", "time", "timestamp",
])  # fmt: skip
"""Names of columns that tell nothing."""

CHUNK_BYTES = 1 << 23  # of a chunk with more than one row


def broken_row(number: int, reason: str) -> ParameterError:
    """Says that a row, from 1, the header not counted, cannot be released, in public words."""
    return ParameterError(
        f"expected rows that can be released, got {reason} in row {number}; mend it"
    )


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some rows that follow each other.

    Attributes:
        cells: Private; (n,) rows of strings.
        rows: The n rows, as their format needs them to write.
    """

    cells: pa.Table = field(repr=False)
    rows: Any = field(repr=False)


class Format(ABC):
    """A kind of file.

    Args:
        path: Of the file.
        private: Columns that are released.
        public: Columns that are read and stay: subjects and ids.
        size: Rows of a chunk.
    """

    def __init__(
        self,
        path: Path,
        private: tuple[str, ...],
        public: tuple[str, ...] = (),
        size: int = 1000,
    ) -> None:
        self.path, self.private, self.public, self.size = path, private, public, size

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Yields all rows, the same chunks whenever the file is the same.

        Raises:
            ParameterError: The file cannot be read, lacks a column or has a broken row; quotes
                nothing of it.
        """

    def check(self) -> None:  # noqa: B027 - most have nothing to add
        """Refuses what is wrong with the file as a whole, before it is read.

        Raises:
            ParameterError: Quotes nothing of the file.
        """

    @abstractmethod
    def write(self, file: IO[bytes], released: Iterable[tuple[Chunk, pa.Table]]) -> None:
        """Writes all rows with what was released for their private cells."""

    def as_read(self, released: str) -> str:
        """Returns a released text as it is read back from the file."""
        return released

    def refuse_columns(self, names: list[str]) -> None:
        """Refuses a column that is missing or there twice.

        Args:
            names: Of the file. Private: a file without a header has a row there.
        """
        for name in (*self.private, *self.public):
            if names.count(name) != 1:
                raise ParameterError(
                    f"expected one column {name!r} in the file, got {names.count(name)} among "
                    f"{shown_columns(names, name)}; the first line of CSV and TSV is the header"
                )


def shown_columns(names: Sequence[str], asked: str) -> str:
    """How many columns there are, and the names of those that are certainly no text.

    Args:
        names: Private: a file without a header has a row there, so that a name is shown only if it
            is a usual one, or what was asked for in other letters.
        asked: Public.
    """
    usual = [name for name in names if name.lower() in {*_USUAL, asked.lower()}]
    withheld = len(names) - len(usual)
    known = ", ".join(repr(name) for name in usual)
    others = f"{withheld} whose names are withheld: they may be text" if withheld else ""
    return f"{len(names)} columns: {' and '.join(filter(None, (known, others)))}"
