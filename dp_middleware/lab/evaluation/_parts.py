"""One mechanism at one epsilon: set up once, then released and measured on every data set."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

from dp_middleware import _validate
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.lab.attacks import AttackResult
from dp_middleware.lab.evaluation._cases import Case, Encoded, Models, label
from dp_middleware.lab.evaluation._cuts import Cut, aligned
from dp_middleware.lab.evaluation._laws import Law, Named, law_of
from dp_middleware.lab.evaluation.measures import MEASURES
from dp_middleware.lab.evaluation.results import COLUMNS, Row
from dp_middleware.lab.metrics.inputs import SentenceEncoder
from dp_middleware.mechanisms.drawing import Drawer, drawer
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, TextMechanism
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers.policies import KeepPolicy

_PACKAGES = {"library": "dp-middleware", "torch": "torch", "numpy": "numpy"}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Holds what all parts of an evaluation share; see ``evaluate``."""

    measures: tuple[str, ...]
    asked: Literal["nominal", "exact", "text"]
    list_size: float | None
    tokens: int = field(metadata=_validate.COUNT)
    policy: KeepPolicy
    generated: int = field(metadata=_validate.count(0))
    sample: int = field(metadata=_validate.COUNT)
    space: EmbeddingSpace
    models: Models
    service: SentenceEncoder = field(repr=False)

    def __post_init__(self) -> None:
        _validate.check_fields(self)


class EvaluationPart:
    """Sets up a mechanism at an epsilon, once for all data sets."""

    def __init__(self, setup: Setup, chosen: Named, epsilon: float) -> None:
        self.name = chosen if isinstance(chosen, str) else chosen.name
        self._setup, self._epsilon, self._reason = setup, epsilon, ""
        self._law: Law | None = None
        self._drawer: Drawer | None = None
        context = setup.models.context
        try:
            self._law = law = law_of(
                chosen,
                epsilon,
                setup.space,
                asked=setup.asked,
                list_size=setup.list_size,
                length=setup.tokens,
                context=context,
                policy=setup.policy,
            )
            contextual = isinstance(law.mechanism, ContextualMechanism)
            self._drawer = drawer(law.mechanism, setup.space, context if contextual else None)
        except ParameterError as error:
            self._reason = str(error)

    def rows(self, whole: Cut) -> list[Row]:
        """Draws once and measures: a row for each measure."""
        law, measures = self._law, self._setup.measures
        about = self._about(whole) | ({} if law is None else _of_law(law, whole.longest))
        if law is None or self._drawer is None:
            results = [_skip(name, self._reason) for name in measures]
        else:
            case = self._release(law, self._drawer, whole)
            results = [measure(name, case) for name in measures]
            vectors = case.encoder.rows  # of texts that are encoded again
            texts = (*whole.data.texts, *(text for text, _ in whole.data.training))
            whole.known.update({text: vectors[text] for text in texts if text in vectors})
        rows = (about | result for result in results)
        return [{column: values.get(column) for column in COLUMNS} for values in rows]

    def _about(self, whole: Cut) -> Row:
        """What all rows of this part and a data set have."""
        run = self._setup
        return {
            "data": whole.data.name,
            "data_digest": whole.digest,
            "texts": len(whole.data),
            "tokens": sum(map(len, whole.ids)),
            "unknown_share": whole.unknown_share,
            "mechanism": self.name,
            "asked": run.asked,
            "asked_epsilon": self._epsilon,
            "space": run.space.fingerprint,
            "space_tokens": len(run.space),
            **{column: version(package) for column, package in _PACKAGES.items()},
        }

    def _release(self, law: Law, drawer: Drawer, whole: Cut) -> Case:
        """Draw a release of every text, with the operating system's entropy."""
        started = time.perf_counter()
        space, raw, spelt, fresh = self._setup.space, whole.ids, None, None
        if isinstance(law.mechanism, TextMechanism):
            spelt = tuple(drawer.draw([whole.data.texts], sampler.os_entropy)[0])
            released = tuple(map(space.vocabulary.encode, spelt))
        elif whole.drafts:
            around = [draft.releases(space.vocabulary) for draft in whole.drafts]
            fresh_ids = [draft.fresh for draft in whole.drafts]
            outputs = drawer.draw(fresh_ids, sampler.os_entropy, around)
            drafts = [d.fill(ids) for d, ids in zip(whole.drafts, outputs, strict=True)]
            spelt = tuple(draft.write(space.vocabulary) for draft in drafts)
            raw, released, fresh = zip(*map(aligned, drafts), strict=True)
        else:
            released = tuple(drawer.draw(whole.ids, sampler.os_entropy))
        return Case(
            law=law,
            space=space,
            data=whole.data,
            raw=raw,
            released=released,
            spelt=spelt,
            fresh=fresh,
            models=self._setup.models,
            encoder=Encoded(self._setup.service, whole.known),
            sample=self._setup.sample,
            generated=self._setup.generated,
            seconds=time.perf_counter() - started,
        )


def _of_law(law: Law, tokens: int) -> Row:
    """What all rows of a mechanism have, for texts of up to so many tokens."""
    epsilon = law.certificate.epsilon
    whole = law.certificate.unit == "text" or not tokens
    return {
        "fingerprint": law.mechanism.fingerprint,
        "nominal_epsilon": None if law.mechanism.scale is None else law.mechanism.nominal,
        "text_epsilon": epsilon if whole else tokens * epsilon,
        "exact_epsilon": epsilon,
        "method": law.certificate.method,
        "guarantee": type(law.certificate.guarantee).__name__,
    }


_RESULT = ("by_id", "low", "high", "trials", "confidence")


def measure(name: str, case: Case) -> Row:
    """Computes one result, or the reason why there is none."""
    own, started = MEASURES[name], time.perf_counter()
    chosen = case.sampled if own.slow else case
    try:
        own.check(case.models, case.law.mechanism)
        result = own.run(chosen)
    except (MissingExtra, ParameterError) as error:
        return _skip(name, str(error))
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


def _skip(name: str, reason: str) -> Row:
    return {"kind": MEASURES[name].kind, "name": name, "reason": reason}
