"""Data sets cut to some tokens a text, and one as a mechanism released it, for the measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_middleware._forks import StaysHere
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.errors import ParameterError
from dp_middleware.frameworks.inferdpt import for_extractor, for_remote
from dp_middleware.lab.evaluation.data import Texts
from dp_middleware.lab.metrics.inputs import Chat, SentenceEncoder
from dp_middleware.mechanisms import Mechanism
from dp_middleware.privacy import Certificate
from dp_middleware.sanitizers.draft import Draft, read
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Occurrence

Vector = NDArray[np.float32]


class Encoded:
    """Keeps vectors of an encoder in memory as long as this object; private, if the texts are."""

    def __init__(self, service: SentenceEncoder) -> None:
        self.backend = getattr(service, "backend", service)
        self._rows: dict[str, Vector] = {}
        self._service = service

    def encode(self, texts: Sequence[str]) -> Vector:
        """Returns vectors of whole texts, float32 (n, d)."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if missing:
            self._rows.update(zip(missing, self._service.encode(missing), strict=True))
        return np.stack([self._rows[text] for text in texts])


Model = Literal["context", "masked", "chat"]

_WANTED: dict[Model, str] = {
    "context": "a language model: context=, or --context",
    "masked": "a masked language model: masked=, or --masked-model",
    "chat": "a chat model: chat=, or --chat-model",
}
_DECIDING = ("prompt", "shift", "unmasked")  # parameters of a context that decide its logits
NOT_ALIGNED = "needs a token released for each token, not a text for a text"
_ASK = "Continue this text in one or two sentences. Answer with the continuation only.\n\n"


@dataclass(frozen=True, kw_only=True)
class Law:
    """Holds a mechanism with its certificate, why it is not what was asked for, and seconds."""

    mechanism: Mechanism
    certificate: Certificate
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Models:
    """Holds language models, where there are any; a measure without its model is skipped.

    Attributes:
        context: For contextual mechanisms and the Bayes attack with a language model's prior.
        masked: For the masked-token attack.
        chat: From messages to text. Is sent released texts, and questions of pairs as they are.
        extractor: From messages to text. Is sent **raw** texts, and the chat model's answers.
    """

    context: Context | None = None
    masked: MaskedContext | None = None
    chat: Chat | None = None
    extractor: Chat | None = None

    def need(self, kind: Model) -> Any:
        """Returns the model of this kind, or raises ParameterError."""
        model = getattr(self, kind)
        if model is None:
            raise ParameterError(f"needs {_WANTED[kind]}")
        return model


@dataclass(frozen=True, kw_only=True)
class Case(StaysHere):
    """Holds a release of a data set, both sides: private.

    ``raw`` has ids of each text, -1 for a token that is not attacked: an unknown or a kept one;
    ``spelt`` the released texts where they are more than what was drawn; ``fresh``, bool (n,) each,
    which tokens were drawn for, ``None``: all. ``seconds`` are to draw, ``sample`` texts are taken
    by slow measures, and ``generated`` tokens of an answer count; 0: all.
    """

    law: Law
    space: EmbeddingSpace
    data: Texts
    raw: tuple[Ids, ...] = field(repr=False)
    released: tuple[Ids, ...] = field(repr=False)
    models: Models
    encoder: Encoded = field(repr=False)
    sample: int
    seconds: float = 0.0
    spelt: tuple[str, ...] | None = field(default=None, repr=False)
    fresh: tuple[NDArray[np.bool_], ...] | None = field(default=None, repr=False)
    generated: int = 0

    @property
    def perturbed(self) -> tuple[list[Ids], list[Ids]]:
        """Gives raw and released ids of the tokens that were drawn for."""
        raw, released = list(self.raw), list(self.released)
        if self.fresh is None:
            return raw, released
        places = list(enumerate(self.fresh))
        return [raw[k][own] for k, own in places], [released[k][own] for k, own in places]

    @cached_property
    def texts(self) -> list[str]:
        """Lists the released texts."""
        if self.spelt is not None:
            return list(self.spelt)
        return [self.space.vocabulary.decode(ids) for ids in self.released]

    @cached_property
    def prior(self) -> Floats:
        """Counts how often each token of the vocabulary occurs in the raw texts, as shares."""
        ids = np.concatenate([np.empty(0, dtype=np.int64), *self.raw])
        counts = np.bincount(ids[ids != UNKNOWN], minlength=len(self.space)).astype(np.float64)
        if not counts.any():
            raise ParameterError("expected texts with a token of the vocabulary, got none")
        return np.asarray(counts / counts.sum())

    @cached_property
    def answers(self) -> list[str]:
        """Asks the chat model to go on from each released text."""
        chat = self.models.need("chat")
        if not self.generated and self.models.extractor is None:
            return [chat([{"role": "user", "content": _ASK + text}]) for text in self.texts]
        unit = self.law.certificate.unit
        return [chat(for_remote(text, None, unit)) for text in self.texts]

    @cached_property
    def continuations(self) -> list[str]:
        """Gives what a user gets: the answers, or what the extractor made of them."""
        written, extractor = self.answers, self.models.extractor
        if extractor is not None:
            pairs = zip(self.data.texts, written, strict=True)
            written = [extractor(for_extractor(raw, answer, None)) for raw, answer in pairs]
        if not self.generated:
            return written
        tokens = self.space.vocabulary.occurrences
        return [passage(text, tokens(text)[: self.generated]) for text in written]

    @property
    def compared(self) -> tuple[list[str], list[str]]:
        """Returns references and continuations of the texts that have a reference."""
        if not any(self.data.references):
            raise ParameterError("needs references: a column 'reference', or generated=")
        pairs = zip(self.data.references, self.continuations, strict=True)
        first, second = zip(*((own, text) for own, text in pairs if own), strict=True)
        return list(first), list(second)

    @cached_property
    def sampled(self) -> Case:
        """Keeps evenly spaced texts only, as many as ``sample``; a public choice."""
        if len(self.data) <= self.sample:
            return self
        places = np.linspace(0, len(self.data) - 1, self.sample).astype(int).tolist()
        sides = {name: getattr(self, name) for name in ("raw", "released", "spelt", "fresh")}
        picked: dict[str, Any] = {
            name: tuple(side[k] for k in places) for name, side in sides.items() if side is not None
        }
        return replace(self, data=self.data.pick(places), **picked)


def label(model: object) -> str | None:
    """Tells models apart; ``None`` for one without a name."""
    if model is None:
        return "none"
    name = getattr(model, "model", None) or getattr(model, "name", None)
    given = getattr(model, "parameters", {})
    options = [f"{key}={given[key]!r}" for key in _DECIDING if key in given]
    return " ".join([type(model).__name__, name, *options]) if isinstance(name, str) else None


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Holds a data set cut to so many tokens a text; ``digest`` is of all of it. Private."""

    data: Texts
    digest: str
    ids: tuple[Ids, ...] = field(repr=False)
    drafts: tuple[Draft, ...] = field(default=(), repr=False)

    @property
    def longest(self) -> int:
        """Counts tokens that are drawn for, of the text with most of them."""
        own = [draft.fresh for draft in self.drafts] or self.ids
        return max(map(len, own), default=0)

    @property
    def unknown_share(self) -> float:
        """Computes the share of the tokens that are outside the vocabulary; 0 without any."""
        unknown = sum(int((ids == UNKNOWN).sum()) for ids in self.ids)
        return unknown / max(1, sum(map(len, self.ids)))


def cut(data: Texts, space: EmbeddingSpace, tokens: int, policy: KeepPolicy, generated: int) -> Cut:
    """Cuts texts to so many tokens; the next ``generated`` are references, if there are none."""
    texts, ids, references = [], [], []
    for text in data.texts:
        every = space.vocabulary.occurrences(text)
        first = every[:tokens]
        texts.append(text[: first[-1].end] if first else "")
        ids.append(np.array([token.id for token in first], dtype=np.int64))
        references.append(passage(text, every[tokens : tokens + generated]))
    drafts = [read(text, None, space, policy) for text in texts if policy.kept]
    if drafts:  # what is cut off may have changed the last token
        ids = [draft.ids for draft in drafts]
    if data.references or not any(references):
        references = list(data.references)
    return Cut(
        data=replace(data, texts=tuple(texts), references=tuple(references)),
        digest=data.digest,
        ids=tuple(ids),
        drafts=tuple(drafts),
    )


def passage(text: str, tokens: Sequence[Occurrence]) -> str:
    """Cuts out the part of a text in which these tokens stand."""
    return text[tokens[0].start : tokens[-1].end].strip() if tokens else ""


def aligned(draft: Draft) -> tuple[Ids, Ids, NDArray[np.bool_]]:
    """Returns raw and released ids and which were drawn for, without kept words of no id."""
    fresh = draft.perturbed
    raw = np.where(fresh, draft.ids, UNKNOWN)
    released = np.where(fresh, draft.outputs, draft.ids)
    has_id = fresh | (draft.ids != UNKNOWN)
    return raw[has_id], released[has_id], fresh[has_id]
