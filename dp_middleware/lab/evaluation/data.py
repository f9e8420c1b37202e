"""Texts to evaluate on, from files, folders and data sets."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dp_middleware import _validate
from dp_middleware._forks import StaysHere
from dp_middleware.errors import ParameterError, withheld

Label = str | int
Record = dict[str, Any]

_COLUMNS = ("text", "sentence", "question", "answer", "content", "review", "document", "prompt")
_IN_FOLDERS = ("dev.jsonl", "validation.jsonl", "test.jsonl", "train.jsonl")
NAME = re.compile(r"\w[\w.-]*")  # of files and of cells of a table: no path, no formula
_LARGEST_FIELD = 1 << 27  # characters of one cell of a CSV file


@dataclass(frozen=True, kw_only=True)
class Texts(StaysHere):
    """Holds a data set.

    Attributes:
        name: What rows and files call it, of letters, digits, ``_.-``; public.
        texts: Private, if the data set is.
        labels: One per text, or none at all.
        training: Further texts and their labels, for a classifier; none of ``texts``.
        questions: Of a task on pairs, one per text; **public**: a chat model is sent them.
        references: What answers are compared with, one per text: how it goes on, or an answer.

    Raises:
        ParameterError: Another name, or not as many labels, questions or references as texts.
    """

    name: str
    texts: tuple[str, ...] = field(repr=False)
    labels: tuple[Label, ...] = field(default=(), repr=False)
    training: tuple[tuple[str, Label], ...] = field(default=(), repr=False)
    questions: tuple[str, ...] = field(default=(), repr=False)
    references: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ParameterError(f"expected a data set's name as {NAME.pattern}, got another")
        for kind in ("label", "question", "reference"):
            if (own := getattr(self, f"{kind}s")) and len(own) != len(self.texts):
                raise ParameterError(f"expected a {kind} for each text, or none at all")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def digest(self) -> str:
        """Returns a SHA-256 over texts and labels: confirms a guess of all, tells nothing else."""
        digest = hashlib.sha256()
        labels = (*map(repr, self.labels), *map(repr, self.training))
        added = (*map(repr, self.questions), *map(repr, self.references))
        for part in (*self.texts, *labels, *added):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()

    def head(self, limit: int) -> Texts:
        """Takes the first so many texts; as many more, if they have labels, to train on."""
        _validate.at_least(1, limit=limit)
        rest = slice(limit, 2 * limit) if not self.training else slice(0)
        training = zip(self.texts[rest] if self.labels else (), self.labels[rest], strict=True)
        first = self.pick(range(len(self))[:limit])
        return replace(first, training=self.training or tuple(training))

    def pick(self, places: Sequence[int]) -> Texts:
        """Takes the texts at these places, with their labels, questions and references."""
        picked: dict[str, Any] = {
            name: tuple(getattr(self, name)[k] for k in places)
            for name in ("texts", "labels", "questions", "references")
            if getattr(self, name)
        }
        return replace(self, **picked)


def load(source: str | Path, column: str | None = None, limit: int | None = None) -> Texts:
    """Reads texts from a file or a folder.

    Args:
        source: A ``.jsonl``, ``.json`` (a list of objects), ``.csv`` or ``.tsv`` file with a column
            of texts; any other has a text on each line. Or a folder with a ``dev.jsonl`` (or
            validation, test, train), or a single such file.
        column: Of the texts; default the first of text, sentence, question, answer, content,
            review, document, prompt. ``label``, ``question`` and ``reference`` are taken along.
        limit: How many texts, from the first; default all. Blank ones are left out.

    Raises:
        ParameterError: Nothing is there, no such column, or it cannot be read. Quotes no text.
    """
    if limit is not None:
        _validate.at_least(1, limit=limit)
    path = Path(source)
    if not path.exists():
        raise ParameterError("expected a file or a folder of data: nothing there")
    name = path.resolve().name if path.is_dir() else path.stem
    records = _records(_file_in(path) if path.is_dir() else path)
    chosen = _text_column(records, column)
    rows = [row for row in records if isinstance(row.get(chosen), str) and row[chosen].strip()]
    if not (rows := rows[:limit]):
        raise ParameterError(f"expected a text in column {chosen!r}, got none")

    def beside(name: str) -> tuple[str, ...]:
        values: list[Any] = [row.get(name) for row in rows if name != chosen]
        return tuple(values) if all(isinstance(value, str) for value in values) else ()

    return Texts(
        name=re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data",
        texts=tuple(row[chosen] for row in rows),
        labels=_labels(rows),
        questions=beside("question"),
        references=beside("reference"),
    )


def _labels(rows: list[Record]) -> tuple[Label, ...]:
    """Where every row has one; digits, as in CSV files, are numbers."""
    labels: list[Any] = [row.get("label") for row in rows]
    if not all(isinstance(x, str | int) and not isinstance(x, bool) for x in labels):
        return ()
    digits = all(isinstance(x, str) and x.isascii() and x.isdigit() for x in labels)
    return tuple(map(int, labels)) if digits else tuple(labels)


def _text_column(rows: list[Record], column: str | None) -> str:
    names = {name for row in rows for name, value in row.items() if isinstance(value, str)}
    wanted = (column,) if column is not None else _COLUMNS
    for name in wanted:
        if name in names:
            return name
    raise ParameterError(f"expected a column of texts, one of {', '.join(wanted)}: column=")


def _file_in(folder: Path) -> Path:
    for file in map(folder.joinpath, _IN_FOLDERS):
        if file.is_file():
            return file
    files = [f for f in sorted(folder.iterdir()) if f.suffix in (".jsonl", ".json", ".csv", ".tsv")]
    if len(files) != 1:
        raise ParameterError(f"expected a dev.jsonl or one file of data, got {len(files)}")
    return files[0]


def _records(file: Path) -> list[Record]:
    with withheld("expected a readable UTF-8 file of data, got {}", OSError, UnicodeDecodeError):
        text = file.read_text(encoding="utf-8-sig")
    if file.suffix in (".jsonl", ".ndjson"):
        lines = text.split("\n")  # U+2028 may stand in a string
        return [row for line in lines if line.strip() for row in _parse(f"[{line}]")]
    if file.suffix == ".json":
        return _parse(text)
    if file.suffix in (".csv", ".tsv"):
        csv.field_size_limit(_LARGEST_FIELD)
        reader = csv.DictReader(io.StringIO(text), delimiter="," if file.suffix == ".csv" else "\t")
        return [{name: value for name, value in row.items() if name} for row in reader]
    return [{"text": line} for line in text.splitlines()]


def _parse(text: str) -> list[Record]:
    """The objects of a list of JSON."""
    with suppress(ValueError):
        rows = json.loads(text)
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return rows
    raise ParameterError("expected JSON objects, one a line or in a list, got something else")
