"""One mechanism at one epsilon: set up once, then released and measured on every data set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dp_middleware.certification import calibrate
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate, MissingExtra, ParameterError
from dp_middleware.lab.attacks import AttackResult
from dp_middleware.lab.evaluation._cases import Case, Cut, Law, Setup
from dp_middleware.lab.evaluation.measures import MEASURES
from dp_middleware.lab.evaluation.results import COLUMNS, Row
from dp_middleware.mechanisms import MECHANISMS, Mechanism
from dp_middleware.mechanisms.cape import DEFAULT_LOGIT_BOUND, Cape, CapeStrict
from dp_middleware.mechanisms.drawing import Drawer, drawer
from dp_middleware.mechanisms.kernels import units
from dp_middleware.mechanisms.rantext import RanText
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, TextMechanism
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers.policies import certificate_of, relation_of

Named = str | Mechanism
_NOT_CALIBRATED = "cannot be calibrated to this exact epsilon; drawn at the nominal one"
_SENTENCES = 32
_WORDS = 8  # of a unit that is a sentence, or a definition
_KNOWN: WeakKeyDictionary[Context, dict[str, float]] = WeakKeyDictionary()  # bounds by space
_PACKAGES = {"library": "dp-middleware", "torch": "torch", "numpy": "numpy"}
_RESULT = ("by_id", "low", "high", "trials", "confidence")
_DECIDING = ("prompt", "shift")  # parameters of a context that decide its logits


def rows(setup: Setup, chosen: Named, epsilon: float, cuts: Sequence[Cut]) -> list[list[Row]]:
    """Sets a mechanism up, draws once for each data set and measures: a row a measure."""
    about = {
        "mechanism": chosen if isinstance(chosen, str) else chosen.name,
        "asked": setup.asked,
        "asked_epsilon": epsilon,
        "space": setup.space.fingerprint,
        "space_tokens": len(setup.space),
        **{column: version(package) for column, package in _PACKAGES.items()},
    }
    law: Law | None = None
    own: Drawer | None = None
    try:
        law = law_of(setup, chosen, epsilon)
        contextual = isinstance(law.mechanism, ContextualMechanism)
        own = drawer(law.mechanism, setup.space, setup.models.context if contextual else None)
    except ParameterError as error:
        reason = str(error)
    tables: list[list[Row]] = []
    for cut in cuts:
        common: Row = cut.columns | about
        if law is not None:
            common |= _of_law(law, cut.longest)
        if law is None or own is None:
            results = [_skip(name, reason) for name in setup.measures]
        else:
            case = _released(setup, law, own, cut)
            results = [measure(name, case) for name in setup.measures]
        every = (common | result for result in results)
        tables.append([{column: row.get(column) for column in COLUMNS} for row in every])
    return tables


def law_of(setup: Setup, chosen: Named, epsilon: float) -> Law:
    """Sets a mechanism, or a name with public defaults, to this epsilon and certifies it.

    Epsilon is the ``"nominal"`` parameter or calibrated to, where that can be done: of a token
    (``"exact"``), or for what all tokens of a text share. A named CAPE has the bound of its
    logits from the context. ParameterError: a policy keeps tokens, but texts are released.
    """
    started, space, policy = time.perf_counter(), setup.space, setup.policy
    notes = [f"kept, and not attacked: {policy.label}"] if policy.kept else []
    kind = MECHANISMS[chosen] if isinstance(chosen, str) else type(chosen)
    if setup.asked == "text" and not issubclass(kind, TextMechanism):
        epsilon /= setup.tokens
    law: Mechanism
    if not isinstance(chosen, str):
        law = chosen if chosen.scale is None else chosen.at(epsilon)
    elif setup.list_size is not None and issubclass(kind, RanText):
        law = kind.with_list_size(space, epsilon=epsilon, size=setup.list_size)
    else:
        law, context = kind.with_defaults(epsilon, space), setup.models.context
        if context is not None and isinstance(law, Cape | CapeStrict):
            law = replace(law, logit_bound=public_bound(space, context))
    if policy.kept and isinstance(law, TextMechanism):
        raise ParameterError(f"keeps no tokens: {law.name} releases a text for a text")
    relation = relation_of(law, space, policy, None)
    if setup.asked != "nominal":
        try:
            law = calibrate(law, space, epsilon, adjacency=relation, length=setup.tokens)
        except CannotCalibrate:
            notes.append(_NOT_CALIBRATED)
    certificate = certificate_of(law, space, policy, relation, setup.tokens)
    seconds = time.perf_counter() - started
    return Law(mechanism=law, certificate=certificate, note="; ".join(notes), seconds=seconds)


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


def _released(setup: Setup, law: Law, drawer: Drawer, cut: Cut) -> Case:
    """Draws a release of every text, with the operating system's entropy."""
    started, vocabulary = time.perf_counter(), setup.space.vocabulary
    if isinstance(law.mechanism, TextMechanism):
        texts = tuple(drawer.draw([cut.data.texts], sampler.os_entropy)[0])
        sides: dict[str, Any] = {"raw": tuple(draft.ids for draft in cut.drafts), "texts": texts}
        sides["released"] = tuple(map(vocabulary.encode, texts))
        sides["fresh"] = tuple(np.ones(len(ids), dtype=bool) for ids in sides["raw"])
        seconds = time.perf_counter() - started
        return Case(setup=setup, law=law, data=cut.data, seconds=seconds, **sides)
    around = [draft.releases(vocabulary) for draft in cut.drafts]
    outputs = drawer.draw([draft.fresh for draft in cut.drafts], sampler.os_entropy, around)
    drafts = [draft.fill(ids) for draft, ids in zip(cut.drafts, outputs, strict=True)]
    seen = [(draft.write(vocabulary), draft) for draft in drafts]
    return Case.of_drafts(setup, law, cut.data, seen, time.perf_counter() - started)


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
        own.check(case.setup.models, case.law.mechanism)
        result = own.run(chosen)
    except (MissingExtra, ParameterError) as error:
        return _skip(name, str(error))
    notes = list(result.assumptions)
    if own.needs is not None:
        notes.append(f"model: {label(case.setup.models.need(own.needs))}")
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


def label(model: object) -> str:
    """Tells models apart."""
    name = getattr(model, "model", None) or getattr(model, "name", None)
    if not isinstance(name, str):
        return "without a name"
    given = getattr(model, "parameters", {})
    options = [f"{key}={given[key]!r}" for key in _DECIDING if key in given]
    return " ".join([type(model).__name__, name, *options])
