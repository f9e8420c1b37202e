"""The results of an evaluation: rows, comparisons at equal epsilon, files, finished parts."""

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
from dp_middleware.errors import MissingExtra, library, withheld
from dp_middleware.privacy.certificate import json_number

COLUMNS = (
    *("data", "data_digest", "texts", "tokens", "unknown_share", "mechanism", "fingerprint"),
    *("asked", "asked_epsilon", "nominal_epsilon", "exact_epsilon", "text_epsilon"),
    *("method", "guarantee", "kind", "name", "value", "by_id", "low", "high"),
    *("trials", "confidence", "details", "assumptions", "reason"),
    *("space", "space_tokens", "library", "torch", "numpy", "seconds"),
)

_ROUNDING = 1e-9
_SPENT = {"exact": "exact_epsilon", "text": "text_epsilon"}


@dataclass(frozen=True, kw_only=True)
class Results:
    """Holds tidy rows, one for each data set, mechanism, epsilon and measure. Holds no raw text.

    The columns are :data:`COLUMNS`: ``asked`` is ``"exact"``, ``"nominal"`` or ``"text"``, for a
    budget of a whole text, and ``asked_epsilon`` the number; ``exact_epsilon`` is the largest loss
    over all pairs of tokens, or of texts for a mechanism of those, enumerated where ``method`` is
    ``"exact"`` and else bounded by proof; ``text_epsilon`` is what the longest text spends;
    ``value``, ``low`` and ``high`` are empty where ``reason`` says why. Attacks, retention and
    mapping sets count words, whatever their spelling; ``by_id`` is the same number with every
    token on its own. ``unknown_share`` is the share of the tokens of the texts that are outside
    the vocabulary: these are replaced by any word, whatever the epsilon, and are not attacked.

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
        """Names of the data sets."""
        return list(dict.fromkeys(row["data"] for row in self.rows))

    def unknown_share(self, data: str) -> float:
        """Share of the tokens of a data set that are outside the vocabulary."""
        share: float = next(row["unknown_share"] for row in self.rows if row["data"] == data)
        return share

    def values(self, name: str, data: str) -> list[Row]:
        """Rows of one measure on one data set that have a value."""
        return [
            row
            for row in self.rows
            if row["name"] == name and row["data"] == data and row["value"] is not None
        ]

    def equal(self, name: str, data: str) -> dict[str, dict[float, Row | None]]:
        """One measure at equal exact epsilon or budget: rows by mechanism and by epsilon.

        ``None`` where a mechanism cannot be calibrated to it, or cannot be run. Empty if nothing
        was calibrated.
        """
        reached: dict[str, dict[float, Row | None]] = {}
        for row in self.rows:
            spent = _SPENT.get(row["asked"])
            if (row["name"], row["data"]) == (name, data) and spent is not None:
                epsilon = row["asked_epsilon"]
                equal = row["value"] is not None and row[spent] <= epsilon + _ROUNDING
                reached.setdefault(row["mechanism"], {})[epsilon] = row if equal else None
        return reached

    def to_csv(self) -> str:
        """The rows, one a line; details as JSON."""
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_flat(self.rows))
        return text.getvalue()

    def to_json(self) -> str:
        """The rows as a list."""
        rows = [pack_row({**row, "details": _details(row)}) for row in self.rows]
        return json.dumps(rows, indent=1)

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``; details as JSON.

        Raises:
            MissingExtra: pandas is not installed.
        """
        pandas = library("pandas", "eval")
        return pandas.DataFrame(_flat(self.rows), columns=list(COLUMNS))


def check_extras() -> None:
    """Raises MissingExtra before a run whose results could not be written."""
    from importlib.util import find_spec

    for package in ("pandas", "pyarrow"):
        if find_spec(package) is None:
            raise MissingExtra(package, "eval")


def _flat(rows: list[Row]) -> list[Row]:
    return [{**row, "details": json.dumps(_details(row))} for row in rows]


def _details(row: Row) -> dict[str, Any]:
    details = row["details"] or {}
    return {name: None if math.isnan(value) else value for name, value in details.items()}


Row = dict[str, Any]

_UNWRITABLE = "expected a folder that can be written, got {}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Holds the rows of one mechanism at one epsilon on one data set.

    It is not complete, and not kept, where a package was missing.
    """

    rows: list[Row]
    complete: bool = True


class Cells:
    """Keeps finished cells in a folder, made if it is not there; ``None``: nothing is kept."""

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
            return Cell(rows=rows)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def store(self, name: str | None, cell: Cell) -> None:
        """Write whole or not at all; a cell without a name is not kept."""
        if self._folder is None or name is None or not cell.complete:
            return
        data = {"rows": [pack_row(row) for row in cell.rows]}
        write(self._folder / name, json.dumps(data, indent=1).encode())


def save(table: Results, folder: Path) -> None:
    """Writes table.csv, table.json and table.parquet, or raises ParameterError."""
    parquet = io.BytesIO()
    table.to_pandas().to_parquet(parquet, index=False)
    write(folder / "table.csv", table.to_csv().encode())
    write(folder / "table.json", table.to_json().encode())
    write(folder / "table.parquet", parquet.getvalue())


def write(path: Path, data: bytes) -> None:
    """Writes whole or not at all, or raises ParameterError."""
    with withheld(_UNWRITABLE, OSError), _files.unfinished(path) as file:
        file.write(data)


def pack_row(row: Row) -> Row:
    """The row with infinity as a string, as JSON has none."""
    return {k: json_number(v) if isinstance(v, float) else v for k, v in row.items()}
