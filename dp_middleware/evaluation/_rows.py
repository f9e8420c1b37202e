"""Rows of the table: what all have in common beside what one measure says, or why it cannot."""

from __future__ import annotations

import time

from dp_middleware.attacks import AttackResult
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.evaluation._cases import Case, label
from dp_middleware.evaluation._cells import Row
from dp_middleware.evaluation._pipelines import Pipeline
from dp_middleware.evaluation.measures import MEASURES
from dp_middleware.evaluation.results import COLUMNS

MISSING = "missing package"  # marks a result that an installation changes; no column
_RESULT = ("by_id", "low", "high", "trials", "confidence")


def measure(name: str, case: Case) -> Row:
    """One result, or the reason why there is none."""
    own, started = MEASURES[name], time.perf_counter()
    law = case.law if isinstance(case.law, Pipeline) else case.law.mechanism
    chosen = case.sampled if own.slow else case
    try:
        own.check(case.models, law)
        result = own.run(chosen)
    except MissingExtra as error:
        return {**skip(name, str(error)), MISSING: True}
    except ParameterError as error:
        return skip(name, str(error))
    notes = list(result.assumptions)
    if own.needs is not None:
        model = case.models.need(own.needs)
        notes.append(f"model: {label(model) or 'without a name'}")
    if len(chosen.data) < len(case.data):
        notes.append(f"on {len(chosen.data)} of {len(case.data)} texts, evenly spaced")
    if case.law.note:
        notes.append(case.law.note)
    return {
        "kind": own.kind,
        "name": name,
        "value": result.rate if isinstance(result, AttackResult) else result.value,
        **{column: getattr(result, column) for column in _RESULT},
        "details": dict(result.details),
        "assumptions": "; ".join(notes),
        "seconds": time.perf_counter() - started,
    }


def skip(name: str, reason: str) -> Row:
    """A row without a result."""
    return {"kind": MEASURES[name].kind, "name": name, "reason": reason}


def row(about: Row, result: Row) -> Row:
    """A row with every column, in order."""
    values = about | result
    return {column: values.get(column) for column in COLUMNS}
