"""One data set as one mechanism released it, with what the measures need of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware import sampling
from dp_middleware._private import StaysHere
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation._encoded import Encoded
from dp_middleware.evaluation._laws import Law
from dp_middleware.evaluation.data import Texts
from dp_middleware.mechanisms.drawing import Drawer
from dp_middleware.vocabulary import UNKNOWN

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
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
    released: Sequence[Ids] = drawer.draw(whole.ids, sampling.os_entropy)
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
