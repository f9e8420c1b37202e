"""Rows of the table: what is said of every result, and why one is missing."""

from __future__ import annotations

import time
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from dp_middleware.attacks import AttackResult
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.evaluation import _cases
from dp_middleware.evaluation._cases import Case, Cut
from dp_middleware.evaluation._laws import Law
from dp_middleware.evaluation.measures import MEASURES, Result

Row = dict[str, Any]

COLUMNS = (
    "data",
    "data_digest",
    "texts",
    "tokens",
    "mechanism",
    "fingerprint",
    "asked",
    "asked_epsilon",
    "nominal_epsilon",
    "exact_epsilon",
    "method",
    "guarantee",
    "kind",
    "name",
    "value",
    "low",
    "high",
    "trials",
    "confidence",
    "details",
    "assumptions",
    "reason",
    "space",
    "space_tokens",
    "library",
    "torch",
    "numpy",
    "seconds",
)
MISSING = "missing package"
"""Marks a result that an installation changes; no column."""

_RESULT = ("value", "low", "high", "trials", "confidence")


def about_data(whole: Cut, space: EmbeddingSpace) -> Row:
    """What all rows of a data set have."""
    return {
        "data": whole.data.name,
        "data_digest": whole.digest,
        "texts": len(whole.data),
        "tokens": whole.tokens,
        "space": space.fingerprint,
        "space_tokens": len(space),
        **_versions(),
    }


def about_law(law: Law) -> Row:
    """What all rows of a mechanism at an epsilon have."""
    return {
        "fingerprint": law.mechanism.fingerprint,
        "nominal_epsilon": law.nominal,
        "exact_epsilon": law.certificate.epsilon,
        "method": law.certificate.method,
        "guarantee": type(law.certificate.guarantee).__name__,
    }


def measured(name: str, case: Case) -> Row:
    """One result, or the reason why there is none."""
    measure, started = MEASURES[name], time.perf_counter()
    chosen = case.sampled if measure.slow else case
    try:
        found = _of(measure.run(chosen))
    except MissingExtra as error:
        return {**skipped(name, str(error)), MISSING: True}
    except ParameterError as error:
        return skipped(name, str(error))
    notes = list(found.pop("assumptions"))
    if measure.needs is not None:
        notes.append(f"model: {_cases.label(measure.needs(case.models)) or 'without a name'}")
    if len(chosen.data) < len(case.data):
        notes.append(f"on {len(chosen.data)} of {len(case.data)} texts, evenly spaced")
    if case.law.note:
        notes.append(case.law.note)
    seconds = time.perf_counter() - started
    return {**_named(name), **found, "assumptions": "; ".join(notes), "seconds": seconds}


def skipped(name: str, reason: str) -> Row:
    """A row without a result."""
    return {**_named(name), "reason": reason}


def whole(*parts: Row) -> Row:
    """A row with every column, in order."""
    merged = {name: value for part in parts for name, value in part.items()}
    return {name: merged.get(name) for name in COLUMNS}


def _named(name: str) -> Row:
    return {"kind": MEASURES[name].kind, "name": name}


def _of(result: Result) -> Row:
    value = result.rate if isinstance(result, AttackResult) else result.value
    numbers = (value, result.low, result.high, result.trials, result.confidence)
    return {
        **dict(zip(_RESULT, numbers, strict=True)),
        "details": dict(result.details),
        "assumptions": result.assumptions,
    }


@lru_cache(maxsize=1)
def _versions() -> Row:
    packages = {"library": "dp-middleware", "torch": "torch", "numpy": "numpy"}
    return {column: version(package) for column, package in packages.items()}
