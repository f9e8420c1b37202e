"""The attacks and metrics of an evaluation by name: what each takes of a release."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from dp_middleware import attacks as of, metrics
from dp_middleware.attacks import AttackResult
from dp_middleware.attacks.rows import channel
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation import _cases
from dp_middleware.evaluation._cases import Case, Chat, Models
from dp_middleware.evaluation.data import Texts
from dp_middleware.mechanisms import ChannelMechanism, Mechanism
from dp_middleware.metrics import MetricResult, Task

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
    """An attack or a metric.

    Attributes:
        kind: Which.
        run: From a release to a result; raises what tells why it cannot.
        slow: Whether it takes a sample of the texts.
        default: Whether it is run unless something else is asked for: no language model needed.
        channel: Whether the mechanism must have a law per token.
        needs: Takes the language model that is needed; raises if it is missing.
    """

    kind: Kind
    run: Callable[[Case], Result]
    slow: bool = False
    default: bool = True
    channel: bool = False
    needs: Callable[[Models], object] | None = None

    def check(self, models: Models, law: Mechanism) -> None:
        """Refuse what cannot be run, before anything is drawn or charged.

        Raises:
            ParameterError: A model is missing, or the mechanism has no law per token.
        """
        if self.needs is not None:
            self.needs(models)
        if self.channel:
            channel(law)


def _bayes(case: Case) -> Result:
    found = of.bayes(case.law.mechanism, case.space, prior=case.prior, top=TOP)
    return replace(found, assumptions=(*_OF_THESE_TEXTS, "exact for tokens drawn from the prior"))


def _bayes_uniform(case: Case) -> Result:
    rate = case.law.certificate.recovery
    if rate is None:
        raise ParameterError("expected a channel: no law per token is enumerated for this one")
    return AttackResult(
        attack="bayes_uniform",
        rate=rate,
        low=rate,
        high=rate,
        confidence=1.0,
        trials=0,
        assumptions=("exact, from the certificate; tokens uniform over the vocabulary",),
        details={"top 1": rate},
    )


def _bayes_on_text(case: Case) -> Result:
    law = case.law.mechanism
    found = of.bayes_on(case.raw, case.released, law, case.space, prior=case.prior, top=TOP)
    return replace(found, assumptions=(*_OF_THESE_TEXTS, *found.assumptions[2:]))


def _bayes_with_language_model(case: Case) -> Result:
    law = case.law.mechanism
    context = _cases.context(case.models)
    return of.bayes_with_language_model(
        case.raw, case.released, law, case.space, context, given="guesses", top=TOP
    )


def _inversion(case: Case) -> Result:
    return of.embedding_inversion(case.raw, case.released, case.space, top=TOP)


def _masked_token(case: Case) -> Result:
    model = _cases.masked(case.models)
    return of.masked_token(case.raw, case.released, case.space, model=model, top=TOP)


def _llm_inference(case: Case) -> Result:
    return of.llm_inference(case.raw, case.released, case.space, model=_chat(case), top=TOP)


def _ngram_leakage(case: Case) -> Result:
    return of.ngram_leakage(case.data.texts, case.answers)


def _retention(case: Case) -> Result:
    return metrics.retention_on(case.raw, case.released)


def _mapping_set_size(case: Case) -> Result:
    law, space = case.law.mechanism, case.space
    if not isinstance(law, ChannelMechanism):
        used = None if law.notion == "metric" else case.models.context
        ids = space.spread(_DRAWN_TOKENS)
        return metrics.mapping_set_size_drawn(law, space, ids=ids, context=used)

    def compute() -> MetricResult:
        return metrics.mapping_set_size(law, space, ids=space.spread(_SET_TOKENS))

    return space.derived(("mapping set size", law.fingerprint), compute)


def _rouge_l(case: Case) -> Result:
    return metrics.rouge_l(case.data.texts, case.texts)


def _bert_score(case: Case) -> Result:
    return metrics.bert_score(case.data.texts, case.texts)


def _sbert_cosine(case: Case) -> Result:
    return metrics.sbert_cosine(case.data.texts, case.texts, service=case.encoder)


def _diversity(case: Case) -> Result:
    return metrics.diversity(case.texts)


def _mauve(case: Case) -> Result:
    return metrics.mauve(case.data.texts, case.texts, service=case.encoder)


def _coherence(case: Case) -> Result:
    return metrics.coherence(case.data.texts, case.answers, service=case.encoder)


def _probe_accuracy(case: Case) -> Result:
    texts, labels = zip(*case.data.training, strict=True) if case.data.training else ((), ())
    if not labels or not case.data.labels:
        raise ParameterError("needs labels, and more labelled texts than are evaluated")
    return metrics.probe_accuracy(texts, labels, case.texts, case.data.labels, service=case.encoder)


def _classification_accuracy(case: Case) -> Result:
    chat, data = _chat(case), case.data
    task, questions = _task(data), data.questions or None
    return metrics.classification_accuracy(
        case.texts, data.labels, chat, task=task, questions=questions
    )


def _task(data: Texts) -> Task:
    """Pairs are QNLI's; sentiment must be named, by the labels or by the data set."""
    if data.labels and data.questions:
        return metrics.QNLI
    named = set(map(str, data.labels)) <= set(metrics.SST2.labels)
    if data.labels and (named or _SENTIMENT.search(data.name)):
        return metrics.SST2
    raise ParameterError(
        "needs labels of a known task: negative and positive, or 0 and 1 of a data set whose name "
        "says sst, review or sentiment, or those of pairs with a question (QNLI)"
    )


def _cost(case: Case) -> Result:
    tokens = max(1, sum(map(len, case.raw)))
    value = case.seconds / tokens
    return MetricResult(
        metric="cost",
        value=value,
        low=value,
        high=value,
        confidence=0.0,
        trials=1,
        assumptions=(
            "wall-clock seconds per token of one run beside whatever else runs; tables may be "
            "there from the data set before, certificates from disk",
        ),
        details={"setup seconds": case.law.seconds, "tokens": float(tokens)},
    )


def _chat(case: Case) -> Chat:
    return _cases.chat(case.models)


MEASURES: dict[str, Measure] = {
    "bayes": Measure(kind="attack", run=_bayes, channel=True),
    "bayes-uniform": Measure(kind="attack", run=_bayes_uniform, channel=True),
    "bayes-on-text": Measure(kind="attack", run=_bayes_on_text, default=False, channel=True),
    "bayes-language-model": Measure(
        kind="attack",
        run=_bayes_with_language_model,
        slow=True,
        default=False,
        channel=True,
        needs=_cases.context,
    ),
    "embedding-inversion": Measure(kind="attack", run=_inversion, slow=True),
    "masked-token": Measure(
        kind="attack", run=_masked_token, slow=True, default=False, needs=_cases.masked
    ),
    "llm-inference": Measure(
        kind="attack", run=_llm_inference, slow=True, default=False, needs=_cases.chat
    ),
    "ngram-leakage": Measure(
        kind="attack", run=_ngram_leakage, slow=True, default=False, needs=_cases.chat
    ),
    "retention": Measure(kind="metric", run=_retention),
    "mapping-set-size": Measure(kind="metric", run=_mapping_set_size),
    "rouge-l": Measure(kind="metric", run=_rouge_l),
    "bert-score": Measure(kind="metric", run=_bert_score, slow=True),
    "sbert-cosine": Measure(kind="metric", run=_sbert_cosine, slow=True),
    "diversity": Measure(kind="metric", run=_diversity),
    "probe-accuracy": Measure(kind="metric", run=_probe_accuracy, slow=True),
    "cost": Measure(kind="metric", run=_cost),
    "mauve": Measure(kind="metric", run=_mauve, slow=True, default=False),
    "coherence": Measure(
        kind="metric", run=_coherence, slow=True, default=False, needs=_cases.chat
    ),
    "classification-accuracy": Measure(
        kind="metric", run=_classification_accuracy, slow=True, default=False, needs=_cases.chat
    ),
}
"""Every attack and metric by the name that the command line takes."""


def named(kind: Kind, *, default: bool = False) -> tuple[str, ...]:
    """Names of one kind; of the default ones only."""
    return tuple(
        name
        for name, each in MEASURES.items()
        if each.kind == kind and (each.default or not default)
    )
