"""Columns in memory: a list, or a column of pandas or Polars, released as one chunk."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from dp_middleware.corpora.columns import Columns
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Detector

S = TypeVar("S")

_NAME = "text"


def release_series(
    series: S, releaser: Sanitizer | Pseudonyms, *, scope: Detector | None = None
) -> S:
    """The same column with released texts: length, order, nulls, name and index stay.

    All texts are charged to the releaser's subject, at once with a sanitizer, before the first
    draw. Calling this again charges and draws again.

    Args:
        series: Private: a list of texts and ``None``, or a Series of pandas or Polars.
        releaser: A sanitizer or pseudonyms.
        scope: Finds the private spans of a text; everything else goes out as it is.

    Raises:
        BudgetExhausted: From the ledger; nothing was drawn.
        ParameterError: A column of another kind, or of other things than texts and nulls.
    """
    columns = Columns(releaser=releaser, names=(_NAME,), scope=scope)
    released = columns.release(pa.table({_NAME: _texts(series)}))[_NAME].combine_chunks()
    result: S = _like(series, released)
    return result


def _texts(series: Any) -> pa.Array:
    """As Arrow has them; an error of its conversion would quote a text."""
    array = None
    with suppress(pa.ArrowException, TypeError, ValueError):
        if isinstance(series, list):
            array = pa.array(series)
        elif _library(series) == "pandas":
            array = pa.Array.from_pandas(series)
        elif _library(series) == "polars":
            array = series.to_arrow()
    if array is None:
        raise ParameterError(
            "expected a list, or a Series of pandas or Polars, of texts and nulls, "
            f"got {type(series).__name__}"
        )
    return array.cast(pa.large_string()) if array.type == pa.null() else array


def _like(series: Any, released: pa.Array) -> Any:
    """The released texts in the shape of what they are for."""
    if isinstance(series, list):
        return released.to_pylist()
    if _library(series) == "polars":
        return type(series)(series.name, released)
    kind = None if series.dtype == "category" else series.dtype  # categories are raw texts
    return type(series)(released.to_pylist(), index=series.index, name=series.name, dtype=kind)


def _library(series: object) -> str:
    return type(series).__module__.partition(".")[0]
