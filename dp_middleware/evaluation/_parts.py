"""One mechanism at one epsilon: set up once, then released and measured on every data set."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from dp_middleware import _validate
from dp_middleware.attacks import AttackResult
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.evaluation import _cases
from dp_middleware.evaluation._cases import Case, Cut, Encoded, Models, drawn
from dp_middleware.evaluation._cells import Cell, Key, Row
from dp_middleware.evaluation._laws import Law, law
from dp_middleware.evaluation.measures import MEASURES, Result
from dp_middleware.evaluation.results import COLUMNS
from dp_middleware.mechanisms import Mechanism
from dp_middleware.mechanisms.base import ContextualMechanism
from dp_middleware.mechanisms.drawing import Drawer, drawer
from dp_middleware.metrics.inputs import Encoder
from dp_middleware.sampling import sampler

Chosen = str | Mechanism

SAMPLE = (
    "the nurse wrote that the young patient felt much better after the second week of treatment"
)
"""Public and the project's own; what becomes of its tokens is shown."""

_MISSING = "missing package"  # marks a result that an installation changes; no column
_RESULT = ("value", "low", "high", "trials", "confidence")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all parts of an evaluation share; see ``evaluate``.

    Attributes:
        measures: Names of attacks and metrics.
        exact: Whether epsilons are certified ones.
        tokens: Of each text.
        sample: Texts that slow measures take.
        space: V tokens with vectors.
        models: Language models.
        service: An encoder of texts.
    """

    measures: tuple[str, ...]
    exact: bool
    tokens: int
    sample: int
    space: EmbeddingSpace
    models: Models
    service: Encoder = field(repr=False)

    def __post_init__(self) -> None:
        _validate.at_least(1, tokens=self.tokens, sample=self.sample)


class Part:
    """A mechanism at an epsilon, set up when its first data set needs it."""

    def __init__(self, setup: Setup, chosen: Chosen, epsilon: float) -> None:
        self.chosen, self.epsilon = chosen, epsilon
        self.name = chosen if isinstance(chosen, str) else chosen.name
        self._setup = setup
        self._ready: tuple[Law | None, Drawer | None, str] | None = None

    def key(self, whole: Cut) -> Key:
        """Of the part on this data set."""
        run = self._setup
        models = (run.models.context, run.models.masked, run.models.chat)
        backend = getattr(run.service, "backend", run.service)
        labels = [_cases.label(model) for model in (*models, backend)]
        named = [label for label in labels if label is not None]
        settings = (*run.measures, str(run.tokens), str(run.sample), *named)
        return Key(
            chosen=self.chosen,
            epsilon=self.epsilon,
            exact=run.exact,
            data=whole.data.name,
            digest=whole.digest,
            space=run.space.fingerprint,
            settings=settings if len(named) == len(labels) else None,
        )

    def cell(self, whole: Cut) -> Cell:
        """Draw once and measure."""
        law, drawer, reason = self._set_up()
        about = {
            **_about_data(whole, self._setup.space),
            **({} if law is None else _about_law(law)),
            "mechanism": self.name,
            "asked": "exact" if self._setup.exact else "nominal",
            "asked_epsilon": self.epsilon,
        }
        if law is None or drawer is None:
            results = [_skipped(name, reason) for name in self._setup.measures]
            return Cell(rows=[_row(about, each) for each in results], example=None)
        case = self._case(law, drawer, whole)
        results = [_measured(name, case) for name in self._setup.measures]
        _keep(whole, case.encoder)
        rows = [_row(about, each) for each in results]
        complete = not any(_MISSING in each for each in results)
        return Cell(rows=rows, example=self._example(law, drawer), complete=complete)

    def _case(self, law: Law, drawer: Drawer, whole: Cut) -> Case:
        run, encoder = self._setup, Encoded(self._setup.service, whole.known)
        return drawn(drawer, law, whole, run.space, run.models, encoder, run.sample)

    def _set_up(self) -> tuple[Law | None, Drawer | None, str]:
        if self._ready is None:
            self._ready = self._fresh()
        return self._ready

    def _fresh(self) -> tuple[Law | None, Drawer | None, str]:
        run, found = self._setup, None
        try:
            found = law(self.chosen, self.epsilon, run.space, exact=run.exact, length=run.tokens)
            contextual = isinstance(found.mechanism, ContextualMechanism)
            context = run.models.context if contextual else None
            return found, drawer(found.mechanism, run.space, context), ""
        except ParameterError as error:
            return found, None, str(error)

    def _example(self, law: Law, drawer: Drawer) -> dict[str, Any]:
        ids = self._setup.space.vocabulary.encode(SAMPLE)
        released = drawer.draw([ids], sampler.os_entropy)[0]
        names = (*self._setup.space.vocabulary.tokens, "(unknown)")  # the last for -1
        return {
            "mechanism": self.name,
            "asked_epsilon": self.epsilon,
            "exact_epsilon": str(law.certificate.epsilon),
            "tokens": [names[number].strip() for number in ids.tolist()],
            "released": [names[number].strip() for number in np.asarray(released).tolist()],
        }


def _keep(whole: Cut, encoder: Encoded) -> None:
    """Vectors of texts that every mechanism is compared with."""
    texts = (*whole.data.texts, *(text for text, _ in whole.data.training))
    whole.known.update({text: encoder.rows[text] for text in texts if text in encoder.rows})


def _about_data(whole: Cut, space: EmbeddingSpace) -> Row:
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


def _about_law(law: Law) -> Row:
    """What all rows of a mechanism at an epsilon have."""
    return {
        "fingerprint": law.mechanism.fingerprint,
        "nominal_epsilon": law.nominal,
        "exact_epsilon": law.certificate.epsilon,
        "method": law.certificate.method,
        "guarantee": type(law.certificate.guarantee).__name__,
    }


def _measured(name: str, case: Case) -> Row:
    """One result, or the reason why there is none."""
    measure, started = MEASURES[name], time.perf_counter()
    chosen = case.sampled if measure.slow else case
    try:
        found = _of(measure.run(chosen))
    except MissingExtra as error:
        return {**_skipped(name, str(error)), _MISSING: True}
    except ParameterError as error:
        return _skipped(name, str(error))
    notes = list(found.pop("assumptions"))
    if measure.needs is not None:
        notes.append(f"model: {_cases.label(measure.needs(case.models)) or 'without a name'}")
    if len(chosen.data) < len(case.data):
        notes.append(f"on {len(chosen.data)} of {len(case.data)} texts, evenly spaced")
    if case.law.note:
        notes.append(case.law.note)
    seconds = time.perf_counter() - started
    return {**_named(name), **found, "assumptions": "; ".join(notes), "seconds": seconds}


def _skipped(name: str, reason: str) -> Row:
    """A row without a result."""
    return {**_named(name), "reason": reason}


def _row(*parts: Row) -> Row:
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
