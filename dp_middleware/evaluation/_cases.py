"""One data set as one mechanism released it, with what the measures need of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware._forks import StaysHere
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation._laws import Law
from dp_middleware.evaluation.data import Texts
from dp_middleware.mechanisms.drawing import Drawer
from dp_middleware.metrics.inputs import Encoder
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Vector = NDArray[np.float32]


class Encoded:
    """Vectors of an encoder, kept in memory as long as this object.

    Args:
        service: Asked for what is not known, all of it at once.
        known: Vectors by text. Private, if the texts are.

    Attributes:
        backend: Of the service, whose name results give.
        rows: What is known by now.
    """

    def __init__(self, service: Encoder, known: Mapping[str, Vector] | None = None) -> None:
        self.backend = getattr(service, "backend", service)
        self.rows: dict[str, Vector] = dict(known or {})
        self._service = service

    def encode(self, texts: Sequence[str]) -> Vector:
        """Vectors of whole texts, float32 (n, d)."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.rows]
        if missing:
            self.rows.update(zip(missing, self._service.encode(missing), strict=True))
        return np.stack([self.rows[text] for text in texts])


Chat = Callable[[list[dict[str, str]]], str]

_ASK = "Continue this text in one or two sentences. Answer with the continuation only.\n\n"


@dataclass(frozen=True, kw_only=True)
class Models:
    """Language models, where there are any; a measure without its model is skipped.

    Attributes:
        context: For contextual mechanisms and the Bayes attack with a language model's prior.
        masked: For the masked-token attack.
        chat: From messages to text. Is sent released texts, and questions of pairs as they are.
    """

    context: Context | None = None
    masked: MaskedContext | None = None
    chat: Chat | None = None


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A data set cut to so many tokens a text. Private.

    Attributes:
        data: With the texts as they were cut.
        digest: Of the data set before that.
        ids: int64 (n,) each.
        known: Vectors of texts that are encoded again and again.
    """

    data: Texts
    digest: str
    ids: tuple[Ids, ...] = field(repr=False)
    known: dict[str, Any] = field(repr=False)

    @property
    def tokens(self) -> int:
        """Of all texts together."""
        return sum(map(len, self.ids))


def cut(data: Texts, space: EmbeddingSpace, tokens: int) -> Cut:
    """The data set with the first ``tokens`` tokens of each text."""
    texts, ids = [], []
    for text in data.texts:
        found = space.vocabulary.occurrences(text)[:tokens]
        texts.append(text[: found[-1].end] if found else "")
        ids.append(np.array([each.id for each in found], dtype=np.int64))
    cut_data = replace(data, texts=tuple(texts))
    return Cut(data=cut_data, digest=data.digest, ids=tuple(ids), known={})


@dataclass(frozen=True, kw_only=True)
class Case(StaysHere):
    """A release of a data set. Private: it holds both sides.

    Attributes:
        law: The mechanism and its certificate.
        space: V tokens with vectors.
        data: What was released, cut.
        raw: Ids of each text, -1 for a token that is not attacked: an unknown or a kept one.
        released: Ids drawn for them, or kept.
        models: Language models.
        encoder: Of sentence vectors.
        sample: How many texts the slow measures take.
        seconds: To draw.
        spelt: The released texts where they are more than what was drawn: public parts too.
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

    @cached_property
    def texts(self) -> list[str]:
        """The released texts."""
        if self.spelt is not None:
            return list(self.spelt)
        return [self.space.vocabulary.decode(ids) for ids in self.released]

    @cached_property
    def prior(self) -> Floats:
        """How often each token of the vocabulary occurs in the raw texts, as shares."""
        ids = np.concatenate([np.empty(0, dtype=np.int64), *self.raw])
        counts = np.bincount(ids[ids != UNKNOWN], minlength=len(self.space)).astype(np.float64)
        if not counts.any():
            raise ParameterError("expected texts with a token of the vocabulary, got none")
        shares: Floats = counts / counts.sum()
        return shares

    @cached_property
    def answers(self) -> list[str]:
        """How the chat model goes on from each released text."""
        chat = self.models.chat
        if chat is None:
            raise ParameterError("needs a chat model: chat=, or --chat-model")
        return [chat([{"role": "user", "content": _ASK + text}]) for text in self.texts]

    @cached_property
    def sampled(self) -> Case:
        """The same with evenly spaced texts only, as many as ``sample``; a public choice."""
        if len(self.data) <= self.sample:
            return self
        places = np.linspace(0, len(self.data) - 1, self.sample).astype(int).tolist()
        data = replace(
            self.data,
            texts=tuple(self.data.texts[k] for k in places),
            labels=tuple(self.data.labels[k] for k in places if self.data.labels),
            questions=tuple(self.data.questions[k] for k in places if self.data.questions),
        )
        return replace(
            self,
            data=data,
            raw=tuple(self.raw[k] for k in places),
            released=tuple(self.released[k] for k in places),
            spelt=None if self.spelt is None else tuple(self.spelt[k] for k in places),
        )


def drawn(
    drawer: Drawer,
    law: Law,
    whole: Cut,
    space: EmbeddingSpace,
    models: Models,
    encoder: Encoded,
    sample: int,
) -> Case:
    """Draw a release of every text, with the operating system's entropy."""
    started = time.perf_counter()
    released: Sequence[Ids] = drawer.draw(whole.ids, sampler.os_entropy)
    return Case(
        law=law,
        space=space,
        data=whole.data,
        raw=whole.ids,
        released=tuple(released),
        models=models,
        encoder=encoder,
        sample=sample,
        seconds=time.perf_counter() - started,
    )


def chat(models: Models) -> Chat:
    """From messages to text.

    Raises:
        ParameterError: There is none; so for the others.
    """
    if models.chat is None:
        raise ParameterError("needs a chat model: chat=, or --chat-model")
    return models.chat


def masked(models: Models) -> MaskedContext:
    """Fills in masked tokens."""
    if models.masked is None:
        raise ParameterError("needs a masked language model: masked=, or --masked-model")
    return models.masked


def context(models: Models) -> Context:
    """A prior of each token from those before it."""
    if models.context is None:
        raise ParameterError("needs a language model: context=, or --context")
    return models.context


def label(model: object) -> str | None:
    """Tells models apart; ``None`` for one without a name."""
    if model is None:
        return "none"
    name = getattr(model, "model", None) or getattr(model, "name", None)
    return f"{type(model).__name__} {name}" if isinstance(name, str) else None
