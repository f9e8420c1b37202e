"""The results of an evaluation: rows, comparisons at equal epsilon, files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_middleware import _files
from dp_middleware.errors import library, withheld
from dp_middleware.privacy.certificate import json_number

COLUMNS = (
    *("data", "data_digest", "texts", "tokens", "unknown_share", "mechanism", "fingerprint"),
    *("asked", "asked_epsilon", "nominal_epsilon", "exact_epsilon", "text_epsilon"),
    *("method", "guarantee", "kind", "name", "value", "by_id", "low", "high"),
    *("trials", "confidence", "details", "assumptions", "reason"),
    *("space", "space_tokens", "library", "torch", "numpy", "seconds"),
)

Row = dict[str, Any]
_UNWRITABLE = "expected a folder that can be written, got {}"
_ROUNDING = 1e-9
_SPENT = {"exact": "exact_epsilon", "text": "text_epsilon"}


@dataclass(frozen=True, kw_only=True)
class Results:
    """Holds tidy rows, one for each data set, mechanism, epsilon and measure. Holds no raw text.

    Of :data:`COLUMNS`, ``asked`` is ``"exact"``, ``"nominal"`` or ``"text"``, for a budget of a
    whole text, and ``asked_epsilon`` the number; ``exact_epsilon`` is the largest loss over all
    pairs of tokens, or of texts, enumerated where ``method`` is ``"exact"`` and else bounded by
    proof; ``text_epsilon`` is what the longest text spends; ``value`` is empty where ``reason``
    says why. Words are counted, whatever their spelling; in ``by_id`` every token is on its own.
    ``unknown_share`` of the tokens are outside the vocabulary: these are not attacked.

    Attributes:
        rows: In the order of data sets, epsilons and mechanisms.
    """

    rows: list[Row]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def data(self) -> list[str]:
        """Lists names of the data sets."""
        return list(dict.fromkeys(row["data"] for row in self.rows))

    def unknown_share(self, data: str) -> float:
        """Gives the share of the tokens of a data set that are outside the vocabulary."""
        share: float = next(row["unknown_share"] for row in self.rows if row["data"] == data)
        return share

    def values(self, name: str, data: str) -> list[Row]:
        """Lists rows of one measure on one data set that have a value."""
        own = [row for row in self.rows if (row["name"], row["data"]) == (name, data)]
        return [row for row in own if row["value"] is not None]

    def equal(self, name: str, data: str) -> dict[str, dict[float, Row | None]]:
        """Compares one measure at equal exact epsilon or budget: rows, or ``None``."""
        reached: dict[str, dict[float, Row | None]] = {}
        for row in self.rows:
            spent = _SPENT.get(row["asked"])
            if (row["name"], row["data"]) == (name, data) and spent is not None:
                epsilon = row["asked_epsilon"]
                equal = row["value"] is not None and row[spent] <= epsilon + _ROUNDING
                reached.setdefault(row["mechanism"], {})[epsilon] = row if equal else None
        return reached

    def to_pandas(self) -> Any:
        """Makes a ``pandas.DataFrame`` of them. MissingExtra: no pandas."""
        return library("pandas", "eval").DataFrame(_flat(self.rows), columns=list(COLUMNS))


def open_folder(folder: Path) -> None:
    """Makes the folder, or raises before a run whose results could not be written."""
    for package in ("pandas", "pyarrow"):
        library(package, "eval")
    with withheld(_UNWRITABLE, OSError):
        folder.mkdir(parents=True, exist_ok=True)


def _details(row: Row) -> Row:
    details = row["details"] or {}
    return {"details": {name: None if math.isnan(x) else x for name, x in details.items()}}


def _flat(rows: list[Row]) -> list[Row]:
    return [row | {"details": json.dumps(_details(row)["details"])} for row in rows]


def save(table: Results, folder: Path) -> None:
    """Writes table.csv, table.json and table.parquet, or raises ParameterError."""
    text, parquet = io.StringIO(), io.BytesIO()
    rows = [{k: json_number(v) for k, v in (row | _details(row)).items()} for row in table]
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(table.rows))
    table.to_pandas().to_parquet(parquet, index=False)
    files = {"csv": text.getvalue().encode(), "json": json.dumps(rows, indent=1).encode()}
    for suffix, data in {**files, "parquet": parquet.getvalue()}.items():
        path = folder / f"table.{suffix}"
        with withheld(_UNWRITABLE, OSError), _files.unfinished(path) as file:
            file.write(data)
