"""What STENCIL's study measures of a mechanism: what is re-identified, and which labels survive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protocol import Labelled, inverted, release, shown

import dp_middleware as dp
from dp_middleware.mechanisms.text_mechanisms import NoiseMechanism

ATTACKS = ("k = 1", "k = 10")
ALONE = "noise alone"
WINDOWS = (3, 5, 7, 9)  # of STENCIL
SIGMA, OWN_SIGMA = 1.25, 0.75
PAIR = (4, 5)  # windows of d_chi-STENCIL
NOISELESS = 1e6  # an eta whose noise moves nothing
CEILINGS = (2, 3, 4, 5, 6, 7, 8, 9)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a data set.

    Attributes:
        recovered: Share of tokens among the k nearest to what was sent, by k.
        accuracy: Of the probe.
    """

    recovered: Mapping[str, float]
    accuracy: float

    def __str__(self) -> str:
        rates = " / ".join(f"{self.recovered[attack]:.2f}" for attack in ATTACKS)
        return f"{rates}; {self.accuracy:.2f}"


@dataclass(frozen=True, kw_only=True)
class Noisy:
    """A mechanism with noise, by data set with its eta and with the one that its claim allows."""

    label: str
    nominal: Mapping[str, Outcome]
    exact: Mapping[str, Outcome]
    difference: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is measured on."""

    space: dp.EmbeddingSpace
    sets: Sequence[Labelled]
    etas: Sequence[float]

    def outcome(self, mechanism: NoiseMechanism, data: Labelled) -> Outcome:
        """Of one release of the texts, and of the questions."""
        everything = dp.KeepPolicy.nothing()
        sent = release(mechanism, self.space, data.texts, 0, policy=everything)
        asked = release(mechanism, self.space, data.questions, 1, policy=everything)
        accuracy = data.accuracy(sent.texts, asked.texts)
        return Outcome(recovered=inverted(sent, self.space), accuracy=accuracy)

    def unknown(self) -> float:
        """Share of the first set's tokens that the vocabulary lacks."""
        mechanism, nothing = dp.Stencil(window=1, sigma=SIGMA), dp.KeepPolicy.nothing()
        return release(mechanism, self.space, self.sets[0].texts, 0, policy=nothing).unknown

    def windows(self) -> dict[str, list[Outcome]]:
        """Of STENCIL, by data set, for each of :data:`WINDOWS`."""
        mechanisms = [dp.Stencil(window=window, sigma=SIGMA) for window in WINDOWS]
        return {each.name: [self.outcome(m, each) for m in mechanisms] for each in self.sets}

    def noisy(self) -> list[Noisy]:
        """d_chi-STENCIL by eta and window, and noise alone, at their claim's loss as well."""
        found = []
        for eta in self.etas:
            for mechanism in of_eta(eta):
                same = at_claim(mechanism)
                nominal = {each.name: self.outcome(mechanism, each) for each in self.sets}
                exact = nominal
                if same != mechanism:
                    exact = {each.name: self.outcome(same, each) for each in self.sets}
                found.append(
                    Noisy(
                        label=f"{label(mechanism)}, eta {eta:g}",
                        nominal=nominal,
                        exact=exact,
                        difference=self.difference(mechanism, same),
                    )
                )
        return found

    def difference(self, mechanism: NoiseMechanism, same: NoiseMechanism) -> str:
        """What the claim and the exact loss allow."""
        loss = dp.certify(mechanism, self.space).epsilon
        return (
            f"{mechanism.lipschitz(None):.4g} a unit of distance, claimed "
            f"{mechanism.claimed_epsilon:.4g}, which allows eta {same.nominal:.4g}; "
            f"between the tokens farthest apart {shown(loss)} nats"
        )

    def ceilings(self) -> dict[int, Mapping[str, float]]:
        """What is re-identified, by window and k, where the noise moves nothing."""
        data = self.sets[0]
        return {
            window: self.outcome(
                dp.DChiStencil(eta=NOISELESS, window=window, sigma=OWN_SIGMA), data
            ).recovered
            for window in CEILINGS
        }


def of_eta(eta: float) -> list[NoiseMechanism]:
    """d_chi-STENCIL by its two windows, and the noise without a window."""
    windows = [dp.DChiStencil(eta=eta, window=window, sigma=OWN_SIGMA) for window in PAIR]
    return [*windows, dp.MetricNoise(eta=eta)]


def label(mechanism: NoiseMechanism) -> str:
    """What a table calls it."""
    if isinstance(mechanism, dp.DChiStencil):
        return f"d_chi-STENCIL, L = {mechanism.window}"
    return ALONE


def at_claim(mechanism: NoiseMechanism) -> NoiseMechanism:
    """The same with the loss a unit of distance that is claimed for it; itself where it has it."""
    if isinstance(mechanism, dp.MetricNoise):
        return mechanism
    return mechanism.at(mechanism.nominal * mechanism.claimed_epsilon / mechanism.lipschitz(None))
