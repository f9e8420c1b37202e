"""Texts to evaluate on, from files, folders and data sets."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dp_middleware import _validate
from dp_middleware._forks import StaysHere
from dp_middleware.errors import ParameterError, library, withheld

Label = str | int
Record = dict[str, Any]

_COLUMNS = ("text", "sentence", "question", "answer", "content", "review", "document", "prompt")
_LABELS = ("label", "labels")
_IN_FOLDERS = ("dev.jsonl", "validation.jsonl", "test.jsonl", "train.jsonl")
_SPLITS = ("validation", "test", "train")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")
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
        ParameterError: Another name, or not as many questions or references as texts.
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
        for kind, own in (("question", self.questions), ("reference", self.references)):
            if own and len(own) != len(self.texts):
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
        first = self.pick(range(len(self))[:limit])
        if not self.labels or self.training:
            return first
        rest = slice(limit, 2 * limit)
        training = tuple(zip(self.texts[rest], self.labels[rest], strict=True))
        return replace(first, training=training)

    def pick(self, places: Sequence[int]) -> Texts:
        """Takes the texts at these places, with their labels, questions and references."""
        return replace(
            self,
            texts=tuple(self.texts[k] for k in places),
            labels=tuple(self.labels[k] for k in places if k < len(self.labels)),
            questions=tuple(self.questions[k] for k in places if self.questions),
            references=tuple(self.references[k] for k in places if self.references),
        )


def load(source: str | Path, column: str | None = None, limit: int | None = None) -> Texts:
    """Reads texts from a file, a folder or a data set of the ``datasets`` library.

    Args:
        source: A ``.jsonl``, ``.json`` (a list of objects), ``.csv`` or ``.tsv`` file with a column
            of texts; any other file has a text on each line. A folder with a ``dev.jsonl`` (or
            validation, test, train), or a single such file. Else a name for
            ``datasets.load_dataset``, ``NAME`` or ``NAME:CONFIGURATION``.
        column: Of the texts; default the first of text, sentence, question, answer, content,
            review, document, prompt. A column ``label`` is taken along, ``question``, and
            ``reference``.
        limit: How many texts, from the first; default all. Blank ones are left out.

    Raises:
        ParameterError: Nothing is there, no such column, or the file cannot be read. Quotes no
            text.
        MissingExtra: It is no file and ``datasets`` is not installed.
    """
    if limit is not None:
        _validate.at_least(1, limit=limit)
    path = Path(source)
    if path.is_dir():
        name, records = path.resolve().name, _records(_file_in(path))
    elif path.is_file():
        name, records = path.stem, _records(path)
    else:
        name, records = str(source), _from_library(str(source))
    chosen = _text_column(records, column)
    rows = [row for row in records if isinstance(row.get(chosen), str) and row[chosen].strip()]
    rows = rows[:limit]
    if not rows:
        raise ParameterError(f"expected a text in column {chosen!r}, got none")

    def beside(name: str) -> tuple[str, ...]:
        values = [row.get(name) for row in rows]
        return tuple(x for x in values if isinstance(x, str) and name != chosen)

    questions, references = beside("question"), beside("reference")
    return Texts(
        name=re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data",
        texts=tuple(row[chosen] for row in rows),
        labels=_labels(rows),
        questions=questions if len(questions) == len(rows) else (),
        references=references if len(references) == len(rows) else (),
    )


def _labels(rows: list[Record]) -> tuple[Label, ...]:
    """Of the first column that has one in every row; digits, as in CSV files, are numbers."""
    for column in _LABELS:
        labels: list[Any] = [row.get(column) for row in rows]
        if all(isinstance(x, str | int) and not isinstance(x, bool) for x in labels):
            digits = all(isinstance(x, str) and x.isascii() and x.isdigit() for x in labels)
            return tuple(map(int, labels)) if digits else tuple(labels)
    return ()


def _text_column(rows: list[Record], column: str | None) -> str:
    names = {name for row in rows for name, value in row.items() if isinstance(value, str)}
    wanted = (column,) if column is not None else _COLUMNS
    found = next((name for name in wanted if name in names), None)
    if found is None:
        raise ParameterError(f"expected a column of texts, one of {', '.join(wanted)}: column=")
    return found


def _file_in(folder: Path) -> Path:
    for name in _IN_FOLDERS:
        if (folder / name).is_file():
            return folder / name
    files = [f for f in sorted(folder.iterdir()) if f.suffix in (".jsonl", ".json", ".csv", ".tsv")]
    if len(files) != 1:
        raise ParameterError(f"expected a dev.jsonl or one file of data, got {len(files)}")
    return files[0]


def _records(file: Path) -> list[Record]:
    with withheld("expected a readable UTF-8 file of data, got {}", OSError, UnicodeDecodeError):
        text = file.read_text(encoding="utf-8-sig")
    if file.suffix in (".jsonl", ".ndjson"):
        lines = text.split("\n")  # U+2028 may stand in a string
        return _objects([_parse(line) for line in lines if line.strip()])
    if file.suffix == ".json":
        return _objects(_parse(text))
    if file.suffix in (".csv", ".tsv"):
        csv.field_size_limit(_LARGEST_FIELD)
        reader = csv.DictReader(io.StringIO(text), delimiter="," if file.suffix == ".csv" else "\t")
        return [{name: value for name, value in row.items() if name} for row in reader]
    return [{"text": line} for line in text.splitlines()]


def _objects(rows: Any) -> list[Record]:
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return rows
    raise ParameterError("expected JSON objects, one a line or in a list, got something else")


def _parse(text: str) -> Any:
    """The value of a JSON text; ``None`` for a text that is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _from_library(name: str) -> list[Record]:
    """Rows of the validation split, else of the test or the training split."""
    if not _NAME.fullmatch(name):
        raise ParameterError("expected a file, a folder or the name of a data set: nothing there")
    datasets = library("datasets", "datasets")
    dataset, _, configuration = name.partition(":")
    with withheld(
        "expected a file, a folder or a data set of the datasets library, which failed ({})"
    ):
        splits = datasets.load_dataset(dataset, configuration or None)
        split = next(split for split in (*_SPLITS, *splits) if split in splits)
        return [dict(row) for row in splits[split]]
