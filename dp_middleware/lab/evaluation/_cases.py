"""Data sets cut to some tokens a text, and one as a mechanism released it, for the measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware._forks import StaysHere
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.errors import ParameterError
from dp_middleware.frameworks.inferdpt import for_extractor, for_remote
from dp_middleware.lab.evaluation.data import Texts
from dp_middleware.lab.metrics.results import Chat, SentenceEncoder
from dp_middleware.mechanisms import Mechanism
from dp_middleware.privacy import Certificate
from dp_middleware.sanitizers.draft import Draft, read
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Occurrence

Vector = NDArray[np.float32]
Model = Literal["context", "masked", "chat"]

_WANTED: dict[Model, str] = {
    "context": "a language model: context=, or --context",
    "masked": "a masked language model: masked=, or --masked-model",
    "chat": "a chat model: chat=, or --chat-model",
}
_ASK = "Continue this text in one or two sentences. Answer with the continuation only.\n\n"


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


@dataclass(frozen=True, kw_only=True)
class Models:
    """Holds language models; a measure without its model is skipped.

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
        if (model := getattr(self, kind)) is None:
            raise ParameterError(f"needs {_WANTED[kind]}")
        return model


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Holds what all parts of an evaluation share; see ``evaluate``."""

    space: EmbeddingSpace
    encoder: Encoded = field(repr=False)
    models: Models = field(default_factory=Models)
    measures: tuple[str, ...] = ()
    asked: Literal["nominal", "exact", "text"] = "nominal"
    list_size: float | None = None
    policy: KeepPolicy = field(default_factory=KeepPolicy.nothing)
    tokens: int = field(default=64, metadata=_validate.COUNT)
    generated: int = field(default=0, metadata=_validate.count(0))
    sample: int = field(default=32, metadata=_validate.COUNT)

    def __post_init__(self) -> None:
        _validate.check_fields(self)

    def cut(self, data: Texts) -> Cut:
        """Cuts texts to ``tokens``; the next ``generated`` are references, if there are none."""
        texts, references = [], []
        for text in data.texts:
            every = self.space.vocabulary.occurrences(text)
            first = every[: self.tokens]
            texts.append(text[: first[-1].end] if first else "")
            references.append(passage(text, every[self.tokens : self.tokens + self.generated]))
        if data.references or not any(references):
            references = list(data.references)
        drafts = [read(text, None, self.space, self.policy) for text in texts]
        own = replace(data, texts=tuple(texts), references=tuple(references))
        return Cut(data=own, digest=data.digest, drafts=tuple(drafts))


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Holds a data set cut to so many tokens a text; ``digest`` is of all of it. Private."""

    data: Texts
    digest: str
    drafts: tuple[Draft, ...] = field(repr=False)

    @property
    def longest(self) -> int:
        """Counts tokens that are drawn for, of the text with most of them."""
        return max((len(draft.fresh) for draft in self.drafts), default=0)

    @property
    def columns(self) -> dict[str, Any]:
        """Says what all rows of the data set have."""
        tokens = sum(len(draft.ids) for draft in self.drafts)
        unknown = sum(int((draft.ids == UNKNOWN).sum()) for draft in self.drafts)
        own = {"data": self.data.name, "data_digest": self.digest, "texts": len(self.data)}
        return own | {"tokens": tokens, "unknown_share": unknown / max(1, tokens)}


@dataclass(frozen=True, kw_only=True)
class Law:
    """Holds a mechanism with its certificate, why it is not what was asked for, and seconds."""

    mechanism: Mechanism
    certificate: Certificate
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Case(StaysHere):
    """Holds a release of a data set, both sides, text by text: private.

    ``raw`` has ids, -1 for a token that is not attacked: an unknown or a kept one; ``fresh``, bool
    (n,), says which were drawn for, ``texts`` what was released, ``seconds`` how long it took.
    """

    setup: Setup
    law: Law
    data: Texts
    raw: tuple[Ids, ...] = field(repr=False)
    released: tuple[Ids, ...] = field(repr=False)
    fresh: tuple[NDArray[np.bool_], ...] = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)
    seconds: float

    @classmethod
    def of_drafts(
        cls, setup: Setup, law: Law, data: Texts, seen: Sequence[tuple[str, Draft]], seconds: float
    ) -> Case:
        """Makes one of released texts and their drafts, without kept words of no id."""
        raw, released, masks = [], [], []
        for _, draft in seen:
            fresh = draft.perturbed
            has_id = fresh | (draft.ids != UNKNOWN)
            raw.append(np.where(fresh, draft.ids, UNKNOWN)[has_id])
            released.append(np.where(fresh, draft.outputs, draft.ids)[has_id])
            masks.append(fresh[has_id])
        sides: dict[str, Any] = {"raw": tuple(raw), "released": tuple(released)}
        sides |= {"fresh": tuple(masks), "texts": tuple(text for text, _ in seen)}
        return cls(setup=setup, law=law, data=data, seconds=seconds, **sides)

    @property
    def perturbed(self) -> tuple[list[Ids], list[Ids]]:
        """Gives raw and released ids of the tokens that were drawn for."""
        places = list(enumerate(self.fresh))
        return [self.raw[k][own] for k, own in places], [self.released[k][own] for k, own in places]

    @cached_property
    def prior(self) -> Floats:
        """Counts how often each token of the vocabulary occurs in the raw texts, as shares."""
        ids = np.concatenate([np.empty(0, dtype=np.int64), *self.raw])
        counts = np.bincount(ids[ids != UNKNOWN], minlength=len(self.setup.space))
        if not counts.any():
            raise ParameterError("expected texts with a token of the vocabulary, got none")
        return np.asarray(counts.astype(np.float64) / counts.sum())

    @cached_property
    def answers(self) -> list[str]:
        """Asks the chat model to go on from each released text."""
        chat, unit = self.setup.models.need("chat"), self.law.certificate.unit
        if self.setup.generated or self.setup.models.extractor is not None:
            return [chat(for_remote(text, None, unit)) for text in self.texts]
        return [chat([{"role": "user", "content": _ASK + text}]) for text in self.texts]

    @cached_property
    def continuations(self) -> list[str]:
        """Gives what a user gets: the answers, or what the extractor made of them."""
        written, extractor = self.answers, self.setup.models.extractor
        if extractor is not None:
            pairs = zip(self.data.texts, written, strict=True)
            written = [extractor(for_extractor(raw, answer, None)) for raw, answer in pairs]
        if not self.setup.generated:
            return written
        tokens = self.setup.space.vocabulary.occurrences
        return [passage(text, tokens(text)[: self.setup.generated]) for text in written]

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
        if len(self.data) <= self.setup.sample:
            return self
        places = np.linspace(0, len(self.data) - 1, self.setup.sample).astype(int).tolist()
        sides = ("raw", "released", "fresh", "texts")
        picked: dict[str, Any] = {n: tuple(getattr(self, n)[k] for k in places) for n in sides}
        return replace(self, data=self.data.pick(places), **picked)


def passage(text: str, tokens: Sequence[Occurrence]) -> str:
    """Cuts out the part of a text in which these tokens stand."""
    return text[tokens[0].start : tokens[-1].end].strip() if tokens else ""
