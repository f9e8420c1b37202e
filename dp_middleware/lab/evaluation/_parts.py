"""One mechanism at one epsilon: set up once, then released and measured on every data set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Literal
from weakref import WeakKeyDictionary

from dp_middleware import _validate
from dp_middleware.certification import calibrate
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate, MissingExtra, ParameterError
from dp_middleware.lab.attacks import AttackResult
from dp_middleware.lab.evaluation._cases import Case, Cut, Encoded, Law, Models, aligned, label
from dp_middleware.lab.evaluation.measures import MEASURES
from dp_middleware.lab.evaluation.results import COLUMNS, Row
from dp_middleware.mechanisms import MECHANISMS, Mechanism
from dp_middleware.mechanisms.cape import DEFAULT_LOGIT_BOUND, Cape, CapeStrict
from dp_middleware.mechanisms.drawing import Drawer, drawer
from dp_middleware.mechanisms.kernels import units
from dp_middleware.mechanisms.rantext import RanText
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, TextMechanism
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers.policies import KeepPolicy, certificate_of, relation_of

Named = str | Mechanism
_NOT_CALIBRATED = "cannot be calibrated to this exact epsilon; drawn at the nominal one"
_KEPT = "kept, and not attacked: "
_SENTENCES = 32
_WORDS = 8  # of a unit that is a sentence, or a definition
_KNOWN: WeakKeyDictionary[Context, dict[str, float]] = WeakKeyDictionary()  # bounds by space
_PACKAGES = {"library": "dp-middleware", "torch": "torch", "numpy": "numpy"}
_RESULT = ("by_id", "low", "high", "trials", "confidence")


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
    encoder: Encoded = field(repr=False)

    def __post_init__(self) -> None:
        _validate.check_fields(self)

    def rows(self, chosen: Named, epsilon: float, cuts: Sequence[Cut]) -> list[list[Row]]:
        """Sets a mechanism up, draws once for each data set and measures: a row a measure."""
        law: Law | None = None
        own: Drawer | None = None
        try:
            law = self.law(chosen, epsilon)
            contextual = isinstance(law.mechanism, ContextualMechanism)
            own = drawer(law.mechanism, self.space, self.models.context if contextual else None)
        except ParameterError as error:
            reason = str(error)
        tables = []
        for cut in cuts:
            if law is None or own is None:
                results = [_skip(each, reason) for each in self.measures]
            else:
                case = self._released(law, own, cut)
                results = [measure(each, case) for each in self.measures]
            about = {
                "data": cut.data.name,
                "data_digest": cut.digest,
                "texts": len(cut.data),
                "tokens": sum(map(len, cut.ids)),
                "unknown_share": cut.unknown_share,
                "mechanism": chosen if isinstance(chosen, str) else chosen.name,
                "asked": self.asked,
                "asked_epsilon": epsilon,
                "space": self.space.fingerprint,
                "space_tokens": len(self.space),
                **{column: version(package) for column, package in _PACKAGES.items()},
                **({} if law is None else _of_law(law, cut.longest)),
            }
            rows = (about | result for result in results)
            tables.append([{column: row.get(column) for column in COLUMNS} for row in rows])
        return tables

    def law(self, chosen: Named, epsilon: float) -> Law:
        """Sets a mechanism, or a name with public defaults, to this epsilon and certifies it.

        Epsilon is the ``"nominal"`` parameter or calibrated to, where that can be done: of a token
        (``"exact"``), or for what all tokens of a text share. A named CAPE has the bound of its
        logits from the context. ParameterError: a policy keeps tokens, but texts are released.
        """
        started, space, policy = time.perf_counter(), self.space, self.policy
        notes = [_KEPT + policy.label] if policy.kept else []
        kind = MECHANISMS[chosen] if isinstance(chosen, str) else type(chosen)
        if self.asked == "text" and not issubclass(kind, TextMechanism):
            epsilon /= self.tokens
        law: Mechanism
        if isinstance(chosen, str) and self.list_size is not None and issubclass(kind, RanText):
            law = kind.with_list_size(space, epsilon=epsilon, size=self.list_size)
        elif isinstance(chosen, str):
            law = kind.with_defaults(epsilon, space)
            if self.models.context is not None and isinstance(law, Cape | CapeStrict):
                law = replace(law, logit_bound=public_bound(space, self.models.context))
        else:
            law = chosen if chosen.scale is None else chosen.at(epsilon)
        if policy.kept and isinstance(law, TextMechanism):
            raise ParameterError(f"keeps no tokens: {law.name} releases a text for a text")
        relation = relation_of(law, space, policy, None)
        if self.asked != "nominal":
            try:
                law = calibrate(law, space, epsilon, adjacency=relation, length=self.tokens)
            except CannotCalibrate:
                notes.append(_NOT_CALIBRATED)
        certificate = certificate_of(law, space, policy, relation, self.tokens)
        seconds = time.perf_counter() - started
        return Law(mechanism=law, certificate=certificate, note="; ".join(notes), seconds=seconds)

    def _released(self, law: Law, drawer: Drawer, cut: Cut) -> Case:
        """Draws a release of every text, with the operating system's entropy."""
        started = time.perf_counter()
        space, raw, spelt, fresh = self.space, cut.ids, None, None
        if isinstance(law.mechanism, TextMechanism):
            spelt = tuple(drawer.draw([cut.data.texts], sampler.os_entropy)[0])
            released = tuple(map(space.vocabulary.encode, spelt))
        elif cut.drafts:
            around = [draft.releases(space.vocabulary) for draft in cut.drafts]
            fresh_ids = [draft.fresh for draft in cut.drafts]
            outputs = drawer.draw(fresh_ids, sampler.os_entropy, around)
            drafts = [d.fill(ids) for d, ids in zip(cut.drafts, outputs, strict=True)]
            spelt = tuple(draft.write(space.vocabulary) for draft in drafts)
            raw, released, fresh = zip(*map(aligned, drafts), strict=True)
        else:
            released = tuple(drawer.draw(cut.ids, sampler.os_entropy))
        return Case(
            law=law,
            space=space,
            data=cut.data,
            raw=raw,
            released=released,
            spelt=spelt,
            fresh=fresh,
            models=self.models,
            encoder=self.encoder,
            sample=self.sample,
            generated=self.generated,
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


def public_bound(space: EmbeddingSpace, context: Context) -> float:
    """Finds the largest logit over some sentences of WordNet; the default without logits."""
    known = _KNOWN.setdefault(context, {})
    if space.fingerprint not in known:
        sentences = [unit for unit in units.english() if unit.count(" ") >= _WORDS - 1]
        known[space.fingerprint] = DEFAULT_LOGIT_BOUND
        with suppress(ParameterError):  # no logit is above zero
            found = context.logit_bound(sentences[:: len(sentences) // _SENTENCES], space)
            known[space.fingerprint] = found
    return known[space.fingerprint]
