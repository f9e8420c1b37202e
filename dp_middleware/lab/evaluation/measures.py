"""The attacks and metrics of an evaluation by name: what each takes of a release."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from dp_middleware.errors import ParameterError
from dp_middleware.lab import attacks, metrics
from dp_middleware.lab.attacks import AttackResult
from dp_middleware.lab.attacks.rows import channel
from dp_middleware.lab.evaluation._cases import NOT_ALIGNED, Case, Model, Models
from dp_middleware.lab.metrics import MetricResult
from dp_middleware.lab.metrics.results import exactly
from dp_middleware.mechanisms import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.text_mechanisms import TextMechanism

Kind = Literal["attack", "metric"]
Result = AttackResult | MetricResult

TOP = (1, 5, 10)
_SET_TOKENS = 256  # of the vocabulary, whose mapping sets are computed
_DRAWN_TOKENS = 8  # where they are counted on draws
_SENTIMENT = re.compile("sst|review|sentiment", re.IGNORECASE)
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
            raise ParameterError(NOT_ALIGNED)


def _bayes(case: Case) -> AttackResult:
    result = attacks.bayes(case.law.mechanism, case.space, prior=case.prior, top=TOP)
    return replace(result, assumptions=(*_OF_THESE_TEXTS, "exact for tokens drawn from the prior"))


def _bayes_uniform(case: Case) -> AttackResult:
    rate = case.law.certificate.recovery
    if rate is None:
        raise ParameterError("expected a channel: no law per token is enumerated for this one")
    return AttackResult(
        attack="bayes_uniform",
        rate=rate,
        **exactly(rate),
        assumptions=(
            "exact, from the certificate; tokens uniform over the vocabulary",
            "counted by id: another token of the same word is a miss",
        ),
        details={"top 1 by id": rate},
        by_id=rate,
    )


def _bayes_on_text(case: Case) -> AttackResult:
    law = case.law.mechanism
    result = attacks.bayes_on(case.raw, case.released, law, case.space, prior=case.prior, top=TOP)
    return replace(result, assumptions=(*_OF_THESE_TEXTS, *result.assumptions[2:]))


def _bayes_with_language_model(case: Case) -> AttackResult:
    law, context = case.law.mechanism, case.models.need("context")
    return attacks.bayes_with_language_model(
        case.raw, case.released, law, case.space, context, given="guesses", top=TOP
    )


def _by(attack: Callable[..., AttackResult], kind: Model | None = None) -> Callable[[Case], Result]:
    """Runs an attack on releases token by token, by a language model of this kind."""

    def run(case: Case) -> Result:
        given = {} if kind is None else {"model": case.models.need(kind)}
        return attack(case.raw, case.released, case.space, top=TOP, **given)

    return run


def _mapping_set_size(case: Case) -> MetricResult:
    law, space = case.law.mechanism, case.space
    if not isinstance(law, ChannelMechanism):
        used = None if law.notion == "metric" else case.models.context
        ids = space.spread(_DRAWN_TOKENS)
        return metrics.mapping_set_size_drawn(law, space, ids=ids, context=used)
    return space.derived(
        ("mapping set size", law.fingerprint),
        lambda: metrics.mapping_set_size(law, space, ids=space.spread(_SET_TOKENS)),
    )


def _probe_accuracy(case: Case) -> MetricResult:
    texts, labels = zip(*case.data.training, strict=True) if case.data.training else ((), ())
    if not labels or not case.data.labels:
        raise ParameterError("needs labels, and more labelled texts than are evaluated")
    return metrics.probe_accuracy(texts, labels, case.texts, case.data.labels, service=case.encoder)


def _classification_accuracy(case: Case) -> MetricResult:
    """Pairs are QNLI's; sentiment must be named, by the labels or by the data set."""
    model, data = case.models.need("chat"), case.data
    named = set(map(str, data.labels)) <= set(metrics.SST2.labels)
    if not data.labels or not (data.questions or named or _SENTIMENT.search(data.name)):
        raise ParameterError(
            "needs labels of a known task: negative and positive, or 0 and 1 of a data set whose "
            "name says sst, review or sentiment, or those of pairs with a question (QNLI)"
        )
    task, questions = (metrics.QNLI, data.questions) if data.questions else (metrics.SST2, None)
    return metrics.classification_accuracy(
        case.texts, data.labels, model, task=task, questions=questions
    )


def _cost(case: Case) -> MetricResult:
    tokens = max(1, sum(map(len, case.raw)))
    value = case.seconds / tokens
    assumption = "wall-clock seconds per token of one run; tables may be there already"
    details = {"setup seconds": case.law.seconds, "tokens": float(tokens)}
    spread = {**exactly(value), "confidence": 0.0, "trials": 1}
    return MetricResult(
        metric="cost", value=value, **spread, assumptions=(assumption,), details=details
    )


_attack = partial(Measure, kind="attack")
_metric = partial(Measure, kind="metric")
_answers = partial(Measure, kind="metric", slow=True, needs="chat")

MEASURES: dict[str, Measure] = {
    "bayes": _attack(run=_bayes, channel=True),
    "bayes-uniform": _attack(run=_bayes_uniform, channel=True),
    "bayes-on-text": _attack(run=_bayes_on_text, default=False, channel=True),
    "bayes-language-model": _attack(
        run=_bayes_with_language_model, slow=True, channel=True, needs="context"
    ),
    "embedding-inversion": _attack(run=_by(attacks.embedding_inversion), slow=True, aligned=True),
    "masked-token": _attack(
        run=_by(attacks.masked_token, "masked"), slow=True, aligned=True, needs="masked"
    ),
    "llm-inference": _attack(
        run=_by(attacks.llm_inference, "chat"), slow=True, aligned=True, needs="chat"
    ),
    "ngram-leakage": _attack(
        run=lambda case: attacks.ngram_leakage(case.data.texts, case.answers),
        slow=True,
        needs="chat",
    ),
    "retention": Measure(
        kind="metric",
        run=lambda case: metrics.retention_on(*case.perturbed, case.space),
        aligned=True,
    ),
    "mapping-set-size": _metric(run=_mapping_set_size, aligned=True),
    "rouge-l": _metric(run=lambda case: metrics.rouge_l(case.data.texts, case.texts)),
    "bert-score": _metric(
        run=lambda case: metrics.bert_score(case.data.texts, case.texts), slow=True
    ),
    "sbert-cosine": _metric(
        run=lambda case: metrics.sbert_cosine(case.data.texts, case.texts, service=case.encoder),
        slow=True,
    ),
    "diversity": _metric(run=lambda case: metrics.diversity(case.texts)),
    "probe-accuracy": _metric(run=_probe_accuracy, slow=True),
    "cost": _metric(run=_cost),
    "mauve": _metric(
        run=lambda case: metrics.mauve(case.data.texts, case.texts, service=case.encoder),
        slow=True,
        default=False,
    ),
    "coherence": _answers(
        run=lambda case: metrics.coherence(
            case.data.texts, case.continuations, service=case.encoder
        )
    ),
    "alignment": _answers(run=lambda case: metrics.alignment(*case.compared, service=case.encoder)),
    "answer-diversity": _answers(run=lambda case: metrics.diversity(case.continuations)),
    "answer-mauve": _answers(run=lambda case: metrics.mauve(*case.compared, service=case.encoder)),
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
