"""The attacks and metrics of an evaluation by name: what each takes of a release."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from dp_middleware.errors import ParameterError
from dp_middleware.lab import attacks, metrics
from dp_middleware.lab.attacks import AttackResult
from dp_middleware.lab.attacks.rows import channel
from dp_middleware.lab.evaluation._cases import Case, Model, Models
from dp_middleware.lab.metrics import MetricResult
from dp_middleware.lab.metrics.results import exactly, of_law
from dp_middleware.mechanisms import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.text_mechanisms import TextMechanism

Kind = Literal["attack", "metric"]
Result = AttackResult | MetricResult

TOP = (1, 5, 10)
_SET_TOKENS = 256  # of the vocabulary, whose mapping sets are computed
_DRAWN_TOKENS = 8  # where they are counted on draws
_SENTIMENT = re.compile("sst|review|sentiment", re.IGNORECASE)
_BY_ID = "counted by id: another token of the same word is a miss"
_OF_THESE_TEXTS = (
    "the attacker knows mechanism and space, and attacks each released token alone",
    "the prior is the word frequencies of these very texts, which no attacker has: an upper "
    "bound; compare with blind k, the success of guessing without looking",
)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Describes an attack or a metric: what it needs, and whether it is run by default.

    ``slow`` ones take a sample of the texts, ``channel`` ones need a law per token, ``aligned``
    ones compare each token with its release; ``needs`` names a language model: no default.
    """

    kind: Kind
    run: Callable[[Case], Result]
    slow: bool = False
    default: bool = True
    channel: bool = False
    aligned: bool = False
    needs: Model | None = None

    def check(self, models: Models, law: Mechanism) -> None:
        """Refuses with ParameterError what cannot be run, before anything is drawn or charged."""
        if self.needs is not None:
            models.need(self.needs)
        if self.channel:
            channel(law)
        if self.aligned and isinstance(law, TextMechanism):
            raise ParameterError("needs a token released for each token, not a text for a text")


def _bayes(case: Case) -> AttackResult:
    result = attacks.bayes(case.law.mechanism, case.setup.space, prior=case.prior, top=TOP)
    return replace(result, assumptions=(*_OF_THESE_TEXTS, "exact for tokens drawn from the prior"))


def _bayes_uniform(case: Case) -> AttackResult:
    rate = case.law.certificate.recovery
    if rate is None:
        raise ParameterError("expected a channel: no law per token is enumerated for this one")
    told = ("exact, from the certificate; tokens uniform over the vocabulary", _BY_ID)
    exact = exactly(rate) | {"assumptions": told, "details": {"top 1 by id": rate}, "by_id": rate}
    return AttackResult(attack="bayes_uniform", rate=rate, **exact)


def _bayes_on_text(case: Case) -> AttackResult:
    law, space = case.law.mechanism, case.setup.space
    result = attacks.bayes_on(case.raw, case.released, law, space, prior=case.prior, top=TOP)
    return replace(result, assumptions=(*_OF_THESE_TEXTS, *result.assumptions[2:]))


def _bayes_with_language_model(case: Case) -> AttackResult:
    how = case.law.mechanism, case.setup.space, case.setup.models.need("context")
    attack = attacks.bayes_with_language_model
    return attack(case.raw, case.released, *how, given="guesses", top=TOP)


def _by(attack: Callable[..., AttackResult], kind: Model | None = None) -> Callable[[Case], Result]:
    """Runs an attack on releases token by token, by a language model of this kind."""

    def run(case: Case) -> Result:
        given = {} if kind is None else {"model": case.setup.models.need(kind)}
        return attack(case.raw, case.released, case.setup.space, top=TOP, **given)

    return run


def _both(metric: Callable[..., MetricResult]) -> Callable[[Case], Result]:
    """Compares vectors of raw and released texts."""
    return lambda case: metric(case.data.texts, case.texts, service=case.setup.encoder)


def _compared(metric: Callable[..., MetricResult]) -> Callable[[Case], Result]:
    """Compares vectors of references and continuations."""
    return lambda case: metric(*case.compared, service=case.setup.encoder)


def _retention(case: Case) -> MetricResult:
    raw, released = case.perturbed
    return metrics.retention_on(raw, released, case.setup.space)


def _mapping_set_size(case: Case) -> MetricResult:
    law, space = case.law.mechanism, case.setup.space
    if not isinstance(law, ChannelMechanism):
        used = None if law.notion == "metric" else case.setup.models.context
        ids = space.spread(_DRAWN_TOKENS)
        return metrics.mapping_set_size_drawn(law, space, ids=ids, context=used)
    return space.derived(
        ("mapping set size", law.fingerprint),
        lambda: metrics.mapping_set_size(law, space, ids=space.spread(_SET_TOKENS)),
    )


def _probe_accuracy(case: Case) -> MetricResult:
    data, encoder = case.data, case.setup.encoder
    if not data.training or not data.labels:
        raise ParameterError("needs labels, and more labelled texts than are evaluated")
    texts, labels = zip(*data.training, strict=True)
    return metrics.probe_accuracy(texts, labels, case.texts, data.labels, service=encoder)


def _classification_accuracy(case: Case) -> MetricResult:
    """Pairs are QNLI's; sentiment must be named, by the labels or by the data set."""
    model, data = case.setup.models.need("chat"), case.data
    named = set(map(str, data.labels)) <= set(metrics.SST2.labels)
    if not data.labels or not (data.questions or named or _SENTIMENT.search(data.name)):
        raise ParameterError(
            "needs labels of a known task: negative and positive, or 0 and 1 of a data set whose "
            "name says sst, review or sentiment, or those of pairs with a question (QNLI)"
        )
    pairs = {"task": metrics.QNLI, "questions": data.questions}
    how: dict[str, Any] = pairs if data.questions else {}
    return metrics.classification_accuracy(case.texts, data.labels, model, **how)


def _cost(case: Case) -> MetricResult:
    tokens = sum(map(len, case.raw))
    details = {"setup seconds": case.law.seconds, "tokens": float(max(1, tokens))}
    told = "wall-clock seconds per token of one run; tables may be there already"
    result = of_law("cost", case.seconds / max(1, tokens), told, **details)
    return replace(result, confidence=0.0, trials=1)


_attack = partial(Measure, kind="attack")
_metric = partial(Measure, kind="metric")
_aligned = partial(Measure, kind="attack", slow=True, aligned=True)
_answers = partial(Measure, kind="metric", slow=True, needs="chat")

MEASURES: dict[str, Measure] = {
    "bayes": _attack(run=_bayes, channel=True),
    "bayes-uniform": _attack(run=_bayes_uniform, channel=True),
    "bayes-on-text": _attack(run=_bayes_on_text, default=False, channel=True),
    "bayes-language-model": _attack(
        run=_bayes_with_language_model, slow=True, channel=True, needs="context"
    ),
    "embedding-inversion": _aligned(run=_by(attacks.embedding_inversion)),
    "masked-token": _aligned(run=_by(attacks.masked_token, "masked"), needs="masked"),
    "llm-inference": _aligned(run=_by(attacks.llm_inference, "chat"), needs="chat"),
    "ngram-leakage": _attack(
        run=lambda case: attacks.ngram_leakage(case.data.texts, case.answers),
        slow=True,
        needs="chat",
    ),
    "retention": _metric(run=_retention, aligned=True),
    "mapping-set-size": _metric(run=_mapping_set_size, aligned=True),
    "rouge-l": _metric(run=lambda case: metrics.rouge_l(case.data.texts, case.texts)),
    "bert-score": _metric(
        run=lambda case: metrics.bert_score(case.data.texts, case.texts), slow=True
    ),
    "sbert-cosine": _metric(run=_both(metrics.sbert_cosine), slow=True),
    "diversity": _metric(run=lambda case: metrics.diversity(case.texts)),
    "probe-accuracy": _metric(run=_probe_accuracy, slow=True),
    "cost": _metric(run=_cost),
    "mauve": _metric(run=_both(metrics.mauve), slow=True, default=False),
    "coherence": _answers(
        run=lambda case: metrics.coherence(
            case.data.texts, case.continuations, service=case.setup.encoder
        )
    ),
    "alignment": _answers(run=_compared(metrics.alignment)),
    "answer-diversity": _answers(run=lambda case: metrics.diversity(case.continuations)),
    "answer-mauve": _answers(run=_compared(metrics.mauve)),
    "classification-accuracy": _answers(run=_classification_accuracy),
}
"""Every attack and metric by the name that the command line takes."""


def named(kind: Kind, *, default: bool = False) -> tuple[str, ...]:
    """Lists names of one kind; of the default ones only."""
    return tuple(
        name
        for name, measure in MEASURES.items()
        if measure.kind == kind and (not default or (measure.default and measure.needs is None))
    )
