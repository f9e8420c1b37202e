"""An exponential mechanism on a list of random radius, averaged over the radius."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_middleware._parts import parts
from dp_middleware.mechanisms import _exact
from dp_middleware.mechanisms._cells import FINE, Cells, Placed
from dp_middleware.mechanisms._radius import FEW, RadiusLaw

if TYPE_CHECKING:
    import torch

    from dp_middleware.embedding.space import EmbeddingSpace

    At = Callable[[torch.Tensor], torch.Tensor]

Floats = NDArray[np.float64]

NEAREST = 128
"""Tokens of a row that enter the list one by one."""

_SMALL = 7.0  # nats: cells get narrower down to radii with probability e^-7 below
_GAUSS = 0.5 + np.array([-0.5, 0.5]) / np.sqrt(3.0)  # places in a cell
_SPREAD = 12  # bits of what is put there
_UNIT = 2.0**50  # integrals over parts of a cell are added as integers
_NUMBERS = 1 << 18  # of fine cells of rows at a time
_TINY = 1e-300


class RadiusMarginal:
    """Rows of an exponential mechanism on a list of random radius, averaged over the radius.

    With a = epsilon/2 and k(d, r) = exp(-a d/r) for d < r, beyond that 0 (``literal``) or e^-a,
    the row is P(y | x) in proportion to g(d(x, y)), g(d) = E_r[k(d, r) / Z(r)], Z(r) the sum of k
    over all tokens. A row depends on its distances only.

    Radii and distances lie in the same cells. Z at the edges of cells is a product of how the
    tokens lie in them. Inside a cell it grows smoothly, and by steps where tokens enter the list:
    the nearest ones where they are, those farther away at their mean place in a fine cell. A
    second product gives what the radii of farther cells add to g, and a sum over the steps what
    those of the token's own cell add.

    Both products are exact, what comes before the second is made of single operations on tables
    that are the same on every machine, and sums over a cell are of integers. So machines and
    devices differ by the last bits of the second matrix, of exponentials and of logarithms only.

    Args:
        law: Radius for noise epsilon 1.
        noise_scale: Noise epsilon e; the radius is 1/e of the law's.
        reach: An upper bound on the distances.
        epsilon: Of the exponential mechanism, nats.
        literal: Whether tokens beyond the radius have probability 0.
        space: V tokens with vectors.
    """

    def __init__(
        self,
        law: RadiusLaw,
        *,
        noise_scale: float,
        reach: float,
        epsilon: float,
        literal: bool,
        space: EmbeddingSpace,
    ) -> None:
        unit = law.quantiles(max(_SMALL, math.log(len(space))))[0]
        low, high = (radius / noise_scale for radius in law.quantiles())
        cells = Cells(unit / noise_scale, max(high, 1.01 * reach), reach, len(space))
        first = 0 if law.dimensions <= FEW else int(np.searchsorted(cells.edges, low)) - 1
        first = max(0, min(first, len(cells.edges) - 2))
        self._cells, self._first, self._size = cells, first, len(space)
        self._own = own = max(0, cells.reached - first)  # cells of radii that may hold tokens
        self._bottom = float(_exact.exp(np.array(-0.5 * epsilon)))
        self._floor, self._literal = 0.0 if literal else self._bottom, float(literal)
        radii = _radii(law, cells.edges[first:], noise_scale)
        steep = epsilon * np.diff(cells.edges) / (cells.edges[1:] + cells.edges[:-1])
        steep = steep[first:][:own]
        entering = _entering(cells, first, 0.5 * epsilon, self._floor, len(space))
        farther, at_edge, log_scale = _farther(cells, first, radii, 0.5 * epsilon, self._floor)
        floor = np.zeros_like(log_scale)
        if not literal:
            floor[first:] = self._floor * np.exp(-log_scale[first:])
        weight = at_edge[:own] / (self._literal + steep / 2 + steep**2 / 8) / _UNIT
        put = space.on_device
        self._entering, self._farther = put(entering), (put(farther[0]), put(farther[1]))
        self._at_edge, self._constant, self._log_scale = put(at_edge), put(floor), put(log_scale)
        self._step = put(np.exp(np.diff(log_scale[first:])))
        self._steep, self._weight, self._tilt = put(steep), put(weight), put(radii.tilt)
        self._bend, self._twist = put(radii.bend[:own].copy()), put(radii.twist[:own].copy())
        self._edges = put(np.arange(FINE + 1)[:, None] / FINE)

    def to_log_probs(self, rows: torch.Tensor) -> None:
        """Replace rows of distances by their log-probabilities.

        Args:
            rows: float64 (n, V) on the space's device.
        """
        import torch

        step = len(rows)
        if rows.device.type == "cpu":
            step = max(4, min(64, _NUMBERS // max(1, self._own * FINE)))
        for block in torch.split(rows, max(1, step)):
            self._rewrite(block)

    def _rewrite(self, rows: torch.Tensor) -> None:
        import torch

        placed = self._cells.placed(rows, min(NEAREST, self._size) if self._own else 1)
        growth = self._growth(placed)
        means = 1.0 / growth.at(lambda table: table, 0.5 + self._tilt)
        growth = _Growth(*(each[:, : self._own] for each in growth))
        starts, ends, mean = self._over_fine_cells(placed, growth)
        if self._own:
            tokens = self._over_tokens(placed, growth)
            mean = torch.where(tokens.known, tokens.mean, mean)
            means[:, : self._own] = mean.double().mul_(1 / _UNIT)
        g = _exact.product(means, self._farther)
        g, constant = g[:, :-1], g[:, -1:] * self._constant
        own = slice(self._first, -1)
        beyond = g[:, own].clone()
        g[:, self._first :] += means[:, : len(self._at_edge)] * self._at_edge
        fall = torch.minimum(g[:, self._first + 1 :] * self._step, beyond).add_(_TINY)
        tail = _Tail(beyond, fall.div_(beyond + _TINY).log_(), constant[:, own])
        log_g = (g + constant).log_().add_(self._log_scale)
        lower = log_g[:, None, : self._first + 1]
        lower = lower[..., :-1] + lower.diff(dim=2) * self._edges
        far = tail.at(_each, self._edges)
        start = self._log(_each, far[:, :-1], self._edges[:-1], starts)
        end = self._log(_each, far[:, 1:], self._edges[1:], ends)
        start, end = torch.cat([lower[:, :-1], start], dim=2), torch.cat([lower[:, 1:], end], dim=2)
        self._cells.write(rows, placed.flat, log_g[:, :1], start, end)
        if self._own:
            far = tail.at(tokens.at, placed.place)
            values = self._log(tokens.at, far, placed.place, tokens.integral)
            values = torch.where(tokens.inside, values, rows.gather(1, placed.token))
            rows.scatter_(1, placed.token, values)
        for (part,) in parts(rows):
            part.copy_(torch.log_softmax(part, dim=1))

    def _growth(self, placed: Placed) -> _Growth:
        """How Z grows in the cells of radii, but for tokens that enter there."""
        import torch

        number, total = placed.number.sum(dim=1), placed.total.sum(dim=1)
        second = _exact.rounded((total - 0.5 * number) * 3.0**0.5 + 0.5 * number, _SPREAD)
        spread = torch.stack([number - second, second], dim=2).flatten(1)
        z = spread @ self._entering
        z += placed.zero * (1.0 - self._floor) + self._size * self._floor
        start, rise = z[:, :-1], z.diff(dim=1)
        number, total = (each[:, self._first :] for each in (number, total))
        rise[:, : self._own] -= (
            number * self._literal + (number - total) * self._steep
        ) * self._bottom
        rise.clamp_(min=0.0)
        return _Growth(start, rise, torch.minimum(rise * rise / (2.0 * start), rise))

    def _inverse(
        self,
        at: At,
        growth: _Growth,
        place: torch.Tensor,
        number: torch.Tensor,
        total: torch.Tensor,
    ) -> torch.Tensor:
        """1/Z at a place in a cell, when a number of tokens have entered there.

        Args:
            at: Takes tables over cells to where the places are.
            growth: Of what is before the cells.
            place: In the cell, in [0, 1].
            number: Tokens that have entered.
            total: The sum of their places.
        """
        steep = at(self._steep)
        z = number * (place * steep + self._literal)
        z.sub_(total * steep).mul_(self._bottom).add_(growth.at(at, place))
        return z.reciprocal_()

    def _above(self, at: At, place: torch.Tensor) -> torch.Tensor:
        """The share of a cell's radii beyond a place."""
        rest = 1.0 - place
        return (at(self._twist) * rest + at(self._bend)).mul_(place).add_(1.0).mul_(rest)

    def _over_fine_cells(
        self, placed: Placed, growth: _Growth
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Integrals of 1/Z over the rest of the cell, if tokens enter at their fine cell's mean.

        Returns:
            From the start and from the end of every fine cell, for a token in it, float64
            (n, FINE, cells), and over the whole cell, int64 (n, cells), in units of 1 / _UNIT.
        """
        import torch

        number, total = placed.number[..., self._first :], placed.total[..., self._first :]
        before = (
            torch.nn.functional.pad(each.cumsum(dim=1), (0, 0, 1, 0)) for each in (number, total)
        )
        inverse = self._inverse(_each, growth, self._edges, *before)
        left, right = inverse[:, :-1], inverse[:, 1:]
        share = self._above(_each, self._edges).diff(dim=0).mul_(-_UNIT)
        middle = self._edges[:-1] + 0.5 / FINE
        late = (total - number * middle).mul_(FINE * self._bottom * self._literal)
        mean = (left * right).mul_(late).add_((left + right).mul_(0.5)).mul_(share).long()
        after = mean.flip(1).cumsum(dim=1).flip(1)
        whole = after[:, 0].clone()
        end = after.sub_(mean).double()
        return (right * share).add_(end), end, whole

    def _over_tokens(self, placed: Placed, growth: _Growth) -> _Tokens:
        """The same integrals where all tokens of a cell are known; from each of them."""
        import torch

        own, count = self._own, placed.cell.shape[1]
        cell = placed.cell - self._first
        inside = (cell >= 0) & (placed.cell < placed.complete)
        cell.clamp_(0, own - 1)

        def at(table: torch.Tensor) -> torch.Tensor:
            return table.expand(len(cell), -1).gather(1, cell)

        number = placed.number.sum(dim=1).long()
        end = number.cumsum(dim=1).add_(placed.zero.long())
        start, end = ((end - number), end)
        start, end = (each[:, self._first :].clamp(max=count) for each in (start, end))
        place, before = placed.place, at(start)
        rank = torch.arange(1, count + 1, device=cell.device)
        total = _summed(place)
        total = total[:, 1:] - total.gather(1, before)
        alike = torch.nn.functional.pad(cell[:, 1:] == cell[:, :-1], (0, 1))
        following = torch.where(alike, place.roll(-1, dims=1), 1.0)
        middle = (place + following).mul_(0.5)
        number = (rank - before).double()
        inverse = self._inverse(at, growth, middle, number, total.double().mul_(1 / _UNIT))
        share = self._above(at, place).sub_(self._above(at, following))
        sums = _summed(share.mul_(inverse))
        to_end = sums.gather(1, end)
        integral = at(to_end).sub_(sums[:, :-1]).double()
        first = place.gather(1, start.clamp(max=count - 1))
        tilt = self._tilt[:own]
        early = 1.0 / growth.at(_whole, (first * tilt + 0.5) * first)
        early *= (1.0 - self._above(_whole, first)) * _UNIT
        cells = torch.arange(self._first, self._first + own, device=cell.device)
        known = (cells < placed.complete) & (end > start)
        return _Tokens(at, inside, integral, known, to_end - sums.gather(1, start) + early.long())

    def _log(
        self, at: At, far: torch.Tensor, place: torch.Tensor, integral: torch.Tensor
    ) -> torch.Tensor:
        """ln g at a place in a cell, from what farther cells and the rest of this one give."""
        steep = at(self._steep) * (0.5 - 0.5 * place)
        weight = ((0.5 * steep + 1.0) * steep + self._literal) * at(self._weight)
        log_scale = self._log_scale[self._first : -1]
        return (weight * integral).add_(far).log_().add_(at(log_scale))


class _Growth(NamedTuple):
    """Z in cells, but for tokens that enter there: at a cell's start, and how it rises from there.

    Attributes:
        start: float64 (n, cells).
        rise: Over the cell, float64 (n, cells).
        curve: Twice as much is the second derivative, float64 (n, cells).
    """

    start: torch.Tensor
    rise: torch.Tensor
    curve: torch.Tensor

    def at(self, at: At, place: torch.Tensor) -> torch.Tensor:
        """Z at a place in a cell."""
        slope = at(self.curve) * (place - 1.0) + at(self.rise)
        return slope.mul_(place).add_(at(self.start))


class _Tail(NamedTuple):
    """What radii beyond a cell add to g in it: at a cell's start, and how that falls from there."""

    beyond: torch.Tensor
    fall: torch.Tensor
    constant: torch.Tensor

    def at(self, at: At, place: torch.Tensor) -> torch.Tensor:
        """In the units of the cell."""
        return (at(self.fall) * place).exp_().mul_(at(self.beyond)).add_(at(self.constant))


class _Tokens(NamedTuple):
    """Integrals of 1/Z over the rest of the cell, from single tokens.

    Attributes:
        at: Takes tables over cells to the tokens.
        inside: Whether a token is in a cell all of whose tokens are known.
        integral: float64 (n, k), in units of 1 / _UNIT.
        known: Cells all of whose tokens are known, and that have some, (n, cells).
        mean: Their integrals over the whole cell, int64 (n, cells), in the same units.
    """

    at: At
    inside: torch.Tensor
    integral: torch.Tensor
    known: torch.Tensor
    mean: torch.Tensor


def _each(table: torch.Tensor) -> torch.Tensor:
    return table.unsqueeze(-2)


def _whole(table: torch.Tensor) -> torch.Tensor:
    return table


def _summed(values: torch.Tensor) -> torch.Tensor:
    """Sums of the first 0, 1, ... of rows, as integers in units of 1 / _UNIT."""
    import torch

    return torch.nn.functional.pad((values * _UNIT).long(), (1, 0)).cumsum(dim=1)


class _Radii(NamedTuple):
    """How radii lie in m cells: ln of the probability of each third, and the mean radius there.

    Beyond the place u of a cell there is the share v (1 + u (bend + twist v)) of its radii,
    v = 1 - u, which is right at the thirds; of a part, the mean is at about the middle plus tilt
    times its width squared.
    """

    log_mass: Floats
    radius: Floats
    bend: Floats
    twist: Floats
    tilt: Floats


def _radii(law: RadiusLaw, edges: Floats, noise_scale: float) -> _Radii:
    thirds = edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(3) / 3)
    log_mass, radius = law.log_masses(np.append(thirds, edges[-1]) * noise_scale)
    log_mass, radius = log_mass.reshape(-1, 3), radius.reshape(-1, 3) / noise_scale
    share = np.exp(log_mass - np.logaddexp.reduce(log_mass, axis=1)[:, None])
    one, two = 4.5 * (share[:, 2] - 1 / 3), 4.5 * (1 / 3 - share[:, 0])
    twist = 3.0 * (two - one)
    bend = one - twist / 3.0
    steep = np.maximum(1.0, (np.abs(bend) + 1.25 * np.abs(twist)) / 0.9)  # shares stay positive
    bend, twist = (_exact.rounded(each / steep, 16) for each in (bend, twist))
    return _Radii(log_mass, radius, bend, twist, (2.0 * bend + twist) / 12.0)


def _entering(cells: Cells, first: int, half: float, floor: float, size: int) -> Floats:
    """k at the edges of cells of radii, less its floor, for tokens at the two points of a cell.

    Returns:
        float64 (2 * cells.reached, edges from ``first`` on), multiples of what products of V
        tokens' counts may have to be exact.
    """
    inner = (
        cells.edges[: cells.reached, None] + np.diff(cells.edges)[: cells.reached, None] * _GAUSS
    )
    radii = np.maximum(cells.edges[first:], 1e-300)
    kernel = _exact.exp(-half * np.minimum(inner[:, :, None] / radii, 1.0)) - floor
    entered = np.arange(cells.reached)[:, None, None] < np.arange(first, len(cells.edges))
    kernel = np.where(entered, np.maximum(kernel, 0.0), 0.0)
    bits = 52 - _SPREAD - size.bit_length()
    return _exact.rounded(kernel, bits).reshape(2 * cells.reached, -1)


def _farther(
    cells: Cells, first: int, radii: _Radii, half: float, floor: float
) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """What the radii of a cell add to g at the edges of cells, where their mean 1/Z is 1.

    Returns:
        Slices of a matrix (cells of radii, edges up to the reach, and one more): k less its floor
        for cells beyond the edge, in units of a scale for each edge, and last the probability of
        the cell; the same of the cell that begins at an edge, for edges from ``first`` on; and the
        logarithms of the scales.
    """
    edges = cells.edges[: cells.reached + 1]
    cell, edge = np.arange(first, first + len(radii.tilt))[:, None], np.arange(len(edges))
    log_mass = np.logaddexp.reduce(radii.log_mass, axis=1)
    middle = np.sum(np.exp(radii.log_mass - log_mass[:, None]) * radii.radius, axis=1)
    counted = (cell >= edge) | (floor > 0)
    log_all = log_mass[:, None] - half * np.minimum(edges / middle[:, None], 1.0)
    log_scale = np.max(log_all, axis=0, where=counted, initial=-np.inf)
    log_third = radii.log_mass[:, None, :] - log_scale[:, None]
    log_third[~counted] = -np.inf
    third = np.exp(log_third - half * np.minimum(edges[:, None] / radii.radius[:, None, :], 1.0))
    if floor:
        third[:, first:] -= floor * np.exp(log_third[:, first:])
    begins = np.arange(first, len(edges))
    own = third[begins - first, begins].sum(axis=1)
    third[(cell <= edge) & (edge >= first)] = 0.0
    slope = np.sum(third * (radii.radius - middle[:, None])[:, None, :], axis=2)
    farther = third.sum(axis=2)
    slope[1:-1] /= (middle[2:] - middle[:-2])[:, None]
    farther[2:] += slope[1:-1]
    farther[:-2] -= slope[1:-1]
    return _exact.slices(np.column_stack([farther, np.exp(log_mass)])), own, log_scale
