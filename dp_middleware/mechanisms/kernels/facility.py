"""The codebook's problem, a kind of facility location: what codewords are worth, a greedy start."""

from __future__ import annotations

import math

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Ids

BATCH = 128
"""Columns judged together."""

NONE = -1e9
"""Less than any gain or similarity."""

_STEEP = 50.0  # nats, beyond which a codeword is worth nothing beside the nearest one


class Problem:
    """Holds similarities of Y possible codewords to P points, and the weight of an answer.

    ``similarity`` is float32 (Y, P), ``prior`` (P,) sums to one, ``mean`` (Y,) is a(y) and
    ``weight`` w = e^epsilon - 1.
    """

    def __init__(self, similarity: torch.Tensor, prior: torch.Tensor, epsilon: float) -> None:
        self.similarity, self.prior, self.epsilon = similarity, prior, epsilon
        self.mean = similarity @ prior
        self.weight = math.expm1(min(epsilon, _STEEP))

    def part(self, rows: Ids, columns: Ids) -> Problem:
        """Gives the problem on some codewords and points."""
        prior = self.prior[columns].double()
        total = prior.sum()
        shares = (prior / total if total > 0 else prior + 1 / len(columns)).float()
        return Problem(self.similarity[rows][:, columns], shares, self.epsilon)

    def value(self, best: torch.Tensor, codebook: torch.Tensor, near: int) -> float:
        """Computes f from sums of the ``near`` largest similarities (P,) and the codewords (M,)."""
        reached = float(best.double() @ self.prior.double())
        total = self.weight * reached + float(self.mean[codebook].double().sum())
        return total / (self.weight * near + len(codebook))

    def gains(self, codewords: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
        """Computes what each codeword would add to the numerator of f."""
        more = (self.similarity[codewords] - best).relu_() @ self.prior
        return self.weight * more + self.mean[codewords]

    def greedy(self) -> torch.Tensor:
        """Takes codewords of largest gain, one at a time, while f grows.

        Gains only shrink as the codebook grows, so old ones are upper bounds and few of them are
        computed anew (lazy evaluation, Minoux 1978): those of a batch are kept up to date while the
        next codeword is certain to be among them.
        """
        size = len(self.similarity)
        first = int(self.mean.argmax())
        best, chosen = self.similarity[first].clone(), [first]
        batches = torch.arange(size, device=best.device).tensor_split(1 + size // BATCH)
        bounds = torch.cat([self.gains(batch, best) for batch in batches])
        bounds[first] = NONE
        total = self.weight * float(best @ self.prior) + float(self.mean[first])
        value = total / (self.weight + 1)
        while len(chosen) < size:
            judged = torch.topk(bounds, min(BATCH, size - len(chosen))).indices
            more = (self.similarity[judged] - best).relu_()
            gains = self.weight * (more @ self.prior) + self.mean[judged]
            bounds[judged] = NONE
            rest = float(bounds.max())
            while (gain := float(gains.max())) >= max(rest, value):
                k = int(gains.argmax())
                chosen.append(int(judged[k]))
                total += gain
                value = total / (self.weight + len(chosen))
                closer = more[k].nonzero()[:, 0]
                step, before = more[k, closer], more[:, closer]
                best[closer] += step
                after = (before - step).relu_()
                gains -= self.weight * ((before - after) @ self.prior[closer])
                more[:, closer] = after
                gains[k] = NONE
            bounds[judged] = gains
            if float(bounds.max()) <= value:
                break
        return torch.tensor(chosen, device=best.device)
