"""NearestResponse: e^epsilon for the k codewords nearest to the token, 1 for the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import numpy as np

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.mechanisms.kernels import chosen
from dp_middleware.mechanisms.kernels.lists import smallest

Nearness = Literal["distance", "centred_cosine"]


@dataclass(frozen=True, kw_only=True)
class NearestResponse(ChannelMechanism):
    """Releases one of the k codewords nearest to x with weight e^epsilon, another with weight 1.

    Reference:
        This library; a staircase mechanism in the sense of Kairouz, Oh and Viswanath (2014), of the
        family of k-subset and generalised randomised response.

    Guarantee:
        epsilon-DP per token, exactly: all rows have the normaliser k e^epsilon + M - k, so no
        factor of 2 is lost. For k = M all rows are equal and the loss is 0.

    Attributes:
        epsilon: Nats per token. Positive.
        candidates: Number k of codewords that are near.
        codebook: Ids of the M possible outputs, public; ``None``: all V tokens. A token listed m
            times stands for m codewords, of which a released one shows no more.
        nearness: By Euclidean ``"distance"``, ties by index, or by ``"centred_cosine"``, the cosine
            of mean-centred vectors; the token itself first.
    """

    name = "nearest-response"
    truth = "epsilon-DP, exactly: no factor 2 is lost"
    references = ("kairouz2014", "ye2018")
    full_support = False
    tight = True

    candidates: int = field(metadata=_validate.COUNT)
    codebook: tuple[int, ...] | None = None
    nearness: Nearness = field(default="distance", metadata=_validate.choice(*get_args(Nearness)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codebook is not None:
            codewords = chosen.array(self.codebook, "codebook as ids of tokens", "iu")
            object.__setattr__(self, "codebook", tuple(np.sort(codewords).tolist()))

    @classmethod
    def tuned(
        cls,
        space: EmbeddingSpace,
        *,
        epsilon: float,
        prior: chosen.Prior | None = None,
        outputs: Collection[int] | None = None,
    ) -> Self:
        """Chooses the codebook and k of largest expected similarity, from public quantities alone.

        Similarity is the cosine of mean-centred vectors; see ``kernels/codebook.py``. Kept on disk;
        those of the default space for epsilon 1, 2, ... 12 come with the package. Between these, by
        the default prior, the search is among codewords of theirs and takes seconds; else a minute.

        Args:
            space: V tokens with vectors.
            epsilon: Nats per token.
            prior: Public weights of the tokens: ``"english"``, p / (1 + 1000 p) for the frequency p
                of a token in English; ``"uniform"`` over whole words; public texts, for the same of
                their tokens; or an array (V,). Default: English from epsilon 6 on if at least half
                of the words of English text are tokens, else uniform.
            outputs: Ids that may become codewords; default the whole words, of an English
                vocabulary the ordinary ones: no names, slurs or obscenities.

        Raises:
            ParameterError: The prior has another name or shape, a negative weight, or no positive
                one.
        """
        ids, near = chosen.Chosen(space, epsilon, prior, outputs).codebook()
        book = tuple(ids.tolist())
        return cls(epsilon=epsilon, candidates=near, codebook=book, nearness="centred_cosine")

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Gives the tuned mechanism."""
        return cls.tuned(space, epsilon=nominal)

    @classmethod
    def has_defaults(cls, nominal: float, space: EmbeddingSpace) -> bool:
        """Tells whether the codebook is there, or a search in a small space takes no time."""
        return chosen.Chosen(space, nominal).is_known()

    def possible(self, space: EmbeddingSpace) -> Ids | None:
        """Lists the tokens of the codebook."""
        return None if self.codebook is None else self.codewords(space)[0]

    def outputs(self, space: EmbeddingSpace) -> Ids | None:
        """Gives the codebook."""
        return None if self.codebook is None else np.repeat(*self.codewords(space))

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        codewords, copies = self.codewords(space)
        far, outputs = np.full(len(space), -np.inf), space.on_device(codewords)
        far[codewords] = self.log_weights(copies, np.zeros_like(copies), copies)
        rows = space.on_device(far).repeat(len(ids), 1)
        for block in slices(len(ids), space.block):
            listed = self.nearest(ids[block], space, min(self.candidates, len(codewords)))
            copied = copies[listed.cpu().numpy()]
            weights = self.log_weights(copied, self.raised(copied), copies)
            rows[block].scatter_(1, outputs[listed], space.on_device(weights))
        return rows

    def log_weights(self, copied: Ids, raised: Ids, copies: Ids) -> Floats:
        """Computes ln P of codewords listed ``copied`` times, of which ``raised`` are near."""
        total = int(copies.sum())
        near = min(self.candidates, total)
        with np.errstate(divide="ignore"):
            logs, others = np.log(np.arange(copies.max() + 1)), np.log(total - near)
        log_total = np.logaddexp(self.epsilon + np.log(near), others)
        # NumPy's, one by one: with torch's the last bits depend on the place in the block
        weights = np.logaddexp(self.epsilon + logs[raised], logs[copied - raised])
        return np.asarray(weights - log_total)

    def raised(self, copied: Ids) -> Ids:
        """Counts the copies among the k near ones, (n, r), of codewords listed ``copied`` times."""
        return np.clip(self.candidates - (copied.cumsum(axis=1) - copied), 0, copied)

    def codewords(self, space: EmbeddingSpace) -> tuple[Ids, Ids]:
        """Lists distinct codewords and how often each is listed."""
        if self.codebook is None:
            return np.arange(len(space)), np.ones(len(space), dtype=np.int64)
        if (last := self.codebook[-1]) >= len(space):
            raise ParameterError(f"expected codebook of this space, V = {len(space)}, got {last}")
        return np.unique(self.codebook, return_counts=True)

    def nearest(self, ids: Ids, space: EmbeddingSpace, count: int) -> torch.Tensor:
        """Finds each id's nearest places among distinct codewords, nearest first; (n, count)."""
        codewords, _ = self.codewords(space)
        if self.nearness == "centred_cosine":
            values = space.centred_cosine_rows(ids, codewords).neg_()
        else:
            values = space.distance_rows(ids)
            if len(codewords) < len(space):
                values = values[:, space.on_device(codewords)]
        place = np.minimum(np.searchsorted(codewords, ids), len(codewords) - 1)
        own = np.flatnonzero(codewords[place] == ids)
        values[space.on_device(own), space.on_device(place[own])] = -np.inf
        return smallest(values, count)
