"""The codebook that maximises the expected similarity of a nearest response.

f(C) = (w sum_x p(x) s_k(x, C) + sum_{y in C} a(y)) / (w k + M), s_k the sum of the k largest s(x,
y), w = e^epsilon - 1, p the prior, a(y) = sum_x p(x) s(x, y); C may have a codeword twice. Greedy,
then the best of adding, dropping and swapping (Dinkelbach's method); see docs/mechanisms.md.
"""

from __future__ import annotations

import math
import os
from threading import Lock

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace

_BATCH = 128  # columns judged together
_NONE = -1e9  # less than any gain or similarity
_STEEP = 50.0  # nats, beyond which a codeword is worth nothing beside the nearest one
_ENTRIES = 1 << 29  # similarities held at once, 4 bytes each
_FEW = 32  # codewords up to which a larger k is worth its time
_NEAR = 8  # the larger k
_UNIONS = 4  # tried for it
_COARSE = 1024  # tokens of the thinned problem on which it is started
_TOLERANCE = 1e-6  # relative gain below which a move is not made
_PASS_TOLERANCE = 1e-4  # relative gain of a pass below which there is no other
_PASSES = 20
_SEARCHING = Lock()  # the number of threads is the process's


class Problem:
    """Holds similarities of Y possible codewords to P points, and the weight of an answer.

    ``similarity`` float32 (Y, P), ``prior`` (P,) of sum one, ``mean`` (Y,) a(y), ``weight`` w.
    """

    def __init__(self, similarity: torch.Tensor, prior: torch.Tensor, epsilon: float) -> None:
        self.similarity, self.prior, self.epsilon = similarity, prior, epsilon
        self.mean = similarity @ prior
        self.weight = math.expm1(min(epsilon, _STEEP))

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
        """Takes codewords of largest gain, one at a time, while f grows (lazily: Minoux 1978)."""
        size = len(self.similarity)
        first = int(self.mean.argmax())
        best, chosen = self.similarity[first].clone(), [first]
        batches = torch.arange(size, device=best.device).tensor_split(1 + size // _BATCH)
        bounds = torch.cat([self.gains(batch, best) for batch in batches])
        bounds[first] = _NONE
        total = self.weight * float(best @ self.prior) + float(self.mean[first])
        value = total / (self.weight + 1)
        while len(chosen) < size:
            judged = torch.topk(bounds, min(_BATCH, size - len(chosen))).indices
            more = (self.similarity[judged] - best).relu_()
            gains = self.weight * (more @ self.prior) + self.mean[judged]
            bounds[judged] = _NONE
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
                gains[k] = _NONE
            bounds[judged] = gains
            if float(bounds.max()) <= value:
                break
        return torch.tensor(chosen, device=best.device)


def best_codebook(
    space: EmbeddingSpace, epsilon: float, prior: Floats, outputs: Ids
) -> tuple[Ids, int]:
    """Finds the ids of the codewords, ascending, and k, for a prior float64 (V,) of sum one."""
    unit = torch.tensor(space.centred_unit, dtype=torch.float32, device=space.device)
    points, most = np.flatnonzero(prior), max(1, _ENTRIES // len(outputs))
    if len(points) > most:  # the likeliest, of equals some that are the same in every run
        shuffled = np.random.default_rng(0).permutation(points)
        points = np.sort(shuffled[np.argsort(-prior[shuffled], kind="stable")[:most]])
    weights = torch.tensor(prior[points] / prior[points].sum(), device=space.device).float()
    problem = Problem(unit[outputs] @ unit[points].T, weights, epsilon)
    with _SEARCHING:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # in a long row of small products threads wait for others
        try:
            best = _Search(problem, problem.greedy()).improve()
            if len(best.codebook) <= _FEW:
                best = max(best, _with_larger_near(best), key=lambda search: search.value)
        finally:
            torch.set_num_threads(threads)
    return np.sort(outputs[best.codebook.cpu().numpy()]), best.near


def _after_fork() -> None:
    """Another thread of the parent may have held it."""
    global _SEARCHING
    _SEARCHING = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _with_larger_near(search: _Search) -> _Search:
    """Starts from the union of several good codebooks, each of which takes one of the k.

    f is concave in repetitions, so a union is worth the mean of its parts or more; the best of some
    is found on a thinned problem, the same in every run.
    """
    problem, size, device = search.problem, len(search.codebook), search.codebook.device
    rows, columns = (
        np.linspace(0, length - 1, min(length, _COARSE)).astype(np.int64)
        for length in problem.similarity.shape
    )
    prior = problem.prior[columns].double()
    shares = prior / prior.sum() if prior.sum() > 0 else prior + 1 / len(columns)
    coarse = Problem(problem.similarity[rows][:, columns], shares.float(), problem.epsilon)
    generator = np.random.default_rng(0)

    def part() -> torch.Tensor:
        chosen = generator.choice(len(rows), min(size, len(rows)), replace=False)
        return _Search(coarse, torch.from_numpy(chosen).to(device)).improve().codebook

    unions = [torch.cat([part() for _ in range(_NEAR)]) for _ in range(_UNIONS)]
    improved = (_Search(coarse, union, near=_NEAR).improve() for union in unions)
    best = max(improved, key=lambda union: union.value)
    start = torch.from_numpy(rows).to(device)[best.codebook]
    return _Search(problem, start, near=_NEAR).improve()


class _Search:
    """A codebook under improvement, with its value f and each point's most similar codewords.

    ``codebook`` int64 (M,) has positions in the problem; they may repeat if k, ``near``, is not 1.
    """

    def __init__(self, problem: Problem, codebook: torch.Tensor, near: int = 1) -> None:
        self.problem, self.codebook, self.near = problem, codebook, near
        points, device = problem.similarity.shape[1], codebook.device
        self._top = torch.empty(near + 1, points, device=device)
        self._nearest = torch.empty(near + 1, points, dtype=torch.int64, device=device)
        self._refresh(torch.arange(points, device=device))

    def improve(self) -> _Search:
        """Adds, drops and swaps codewords until no move improves f."""
        everyone = torch.arange(len(self.problem.similarity), device=self.codebook.device)
        for _ in range(_PASSES):
            before = self.value
            for batch in everyone.tensor_split(1 + len(everyone) // _BATCH):
                self._take(batch)
            self._drop()
            if self.value - before <= _PASS_TOLERANCE * abs(before):
                break
        return self

    def _take(self, batch: torch.Tensor) -> None:
        """Add or swap in codewords of the batch where that improves f, the best ones first."""
        if self.near == 1:  # a second copy of a codeword would bring nothing
            batch = batch[~torch.isin(batch, self.codebook)]
        if not len(batch):
            return
        adding, swapping, _ = self._judge(batch)
        gains = torch.maximum(adding, swapping)
        for codeword in batch[gains.argsort(descending=True)][: int((gains > self._least).sum())]:
            while self._take_one(codeword) and self.near > 1:
                pass

    @property
    def _least(self) -> float:
        """The smallest gain for which a move is made."""
        total = self.problem.weight * self.near + len(self.codebook)
        return _TOLERANCE * total * abs(self.value)

    def _take_one(self, codeword: torch.Tensor) -> bool:
        """Add the codeword, or swap it for another, if that improves f."""
        adding, swapping, out = self._judge(codeword[None])
        if max(float(adding), float(swapping)) <= self._least:
            return False
        moved = self.problem.similarity[codeword] > self._top[-1]
        if float(adding) >= float(swapping):
            self.codebook = torch.cat([self.codebook, codeword[None]])
        else:
            moved |= (self._nearest == out).any(dim=0)
            self.codebook[out] = codeword
        self._refresh(moved.nonzero()[:, 0])
        return True

    def _judge(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Gain from adding each codeword, from its best swap, and what it would replace."""
        problem, size = self.problem, len(self.codebook)
        rows, last, following = problem.similarity[batch], self._top[-2], self._top[-1]
        gain = problem.gains(batch, last)
        saved = torch.minimum(rows, last).sub_(following)
        k, x = (saved > 0).nonzero(as_tuple=True)
        amounts = saved[k, x] * problem.prior[x]
        less = torch.zeros(len(batch) * size, device=rows.device)
        for nearest in self._nearest[:-1]:
            less.index_add_(0, k * size + nearest[x], amounts)
        cost = (self._removal - less.view(len(batch), size)) * problem.weight
        cheapest, out = (cost + problem.mean[self.codebook]).min(dim=1)
        return gain - self.value, gain - cheapest, out

    def _drop(self) -> None:
        """Drop codewords that cost more than they bring, the worst first."""
        while len(self.codebook) > self.near:
            cost = self._removal * self.problem.weight + self.problem.mean[self.codebook]
            k = int(cost.argmin())
            if self.value - float(cost[k]) <= _TOLERANCE * abs(self.value):
                return
            moved = (self._nearest == k).any(dim=0).nonzero()[:, 0]
            self.codebook = torch.cat([self.codebook[:k], self.codebook[k + 1 :]])
            self._nearest -= (self._nearest > k).long()
            self._refresh(moved)

    def _refresh(self, points: torch.Tensor) -> None:
        """Find the k + 1 most similar codewords of these points anew, and what follows."""
        similarity, size = self.problem.similarity, len(self.codebook)
        for part in points.tensor_split(1 + len(points) * size // (1 << 24)):
            columns = similarity[self.codebook[:, None], part[None, :]]
            if size == self.near:  # no next one
                columns = torch.cat([columns, torch.full_like(columns[:1], _NONE)])
            self._top[:, part], self._nearest[:, part] = torch.topk(columns, self.near + 1, dim=0)
        lost = (self._top[:-1] - self._top[-1]) * self.problem.prior
        removal = torch.zeros(size + 1, device=lost.device)
        self._removal = removal.index_add_(0, self._nearest[:-1].ravel(), lost.ravel())[:size]
        self.value = self.problem.value(self._top[:-1].sum(dim=0), self.codebook, self.near)
