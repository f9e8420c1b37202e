"""Rows of a file in chunks: their private cells as strings, the rest as it stands there."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from dp_middleware.errors import ParameterError, withheld

CHUNK_BYTES = 1 << 23  # of a chunk with more than one row


def readable() -> AbstractContextManager[None]:
    """Withholds an error of reading a private file, which may quote a row."""
    return withheld(
        "expected a file that can be read as its ending says, got: {}; its message is withheld, it "
        "may quote a row",
        *(OSError, pa.ArrowException, ValueError, csv.Error),
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
        self, path: Path, private: tuple[str, ...], public: tuple[str, ...] = (), size: int = 1000
    ) -> None:
        self.path, self.private, self.public, self.size = path, private, public, size
        self.read = (*private, *public)

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Yields all rows, the same chunks whenever the file is the same.

        Raises:
            ParameterError: The file cannot be read, lacks a column or has a broken row; quotes
                nothing of it.
        """

    @abstractmethod
    def write(self, file: IO[bytes], released: Iterable[tuple[Chunk, pa.Table]]) -> None:
        """Writes all rows with what was released for their private cells."""

    def as_read(self, released: str) -> str:
        """Returns a released text as it is read back from the file."""
        return released


def refuse_columns(asked: Sequence[str], names: Sequence[str]) -> None:
    """Refuses a column that is missing or there twice.

    Args:
        asked: Public.
        names: Of the file. Private: a file without a header has a row there.
    """
    for name in asked:
        if names.count(name) != 1:
            raise ParameterError(
                f"expected one column {name!r} in the file, got {names.count(name)} among "
                f"{len(names)} columns, whose names may be text; the first line of CSV and TSV is "
                "the header"
            )


def refuse_type(name: str, kind: pa.DataType) -> None:
    """Refuses a column of other things than strings."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if kind not in (pa.string(), pa.large_string(), pa.string_view()):
        got = "nested values" if pa.types.is_nested(kind) else kind  # with names, which may be text
        raise ParameterError(f"expected strings in the column {name!r}, got {got}")
