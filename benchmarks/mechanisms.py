"""What is left of the meaning: all mechanisms at equal exact epsilon, on one space.

    python benchmarks/mechanisms.py [--space default|cl100k-11000] [--epsilon 3 ...]
        [--mechanism NAME ...] [--english] [--write]

Noise and contextual mechanisms are calibrated to an epsilon that their proofs bound. Tokens, and
the prior of a codebook, are uniform, with ``--english`` as in English text. Of each law, exactly
(of noise mechanisms from two draws per token, uniform):

* centred and raw cosine: expected cosine of token and release, of mean-centred and of raw vectors;
* information: mutual information of token and release, nats;
* kept: probability that a token is released unchanged;
* top 20: probability that one of its 20 nearest tokens is released, itself among them.

CAPE has no context here: all its logits are equal, and what is left of its utility is the distance;
its texts have one token, as those of DChiStencil. ``--write`` stores the rows and puts the table of
docs/mechanisms.md together from all that are stored.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pages
import torch
from exact_epsilon import SPACES, space_named

import dp_middleware as dp
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.space import BLOCK
from dp_middleware.mechanisms import ChannelMechanism, ContextualMechanism, Mechanism
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.mechanisms.kernels import lists
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary import frequencies

ROWS = Path(__file__).with_suffix(".json")
SECTION = "equal epsilon"
HEADS = ("mechanism", "nominal", "centred cosine", "raw cosine", "information", "kept", "top 20")
NEAR, DRAWS = 20, 2


@dataclass(frozen=True)
class Measured:
    """One row of the table; ``None`` where it is not known."""

    mechanism: str
    epsilon: float
    nominal: float | None = None
    centred: float | None = None
    raw: float | None = None
    information: float | None = None
    kept: float | None = None
    near: float | None = None

    def cells(self) -> list[str]:
        if self.centred is None:
            return [f"`{self.mechanism}`", "cannot be calibrated", *[""] * 5]
        cells = (self.nominal, self.centred, self.raw, self.information)
        numbers = ["" if cell is None else f"{cell:.4g}" for cell in cells]
        shares = [f"{100 * share:.3g} %" for share in (self.kept, self.near)]
        return [f"`{self.mechanism}`", *numbers, *shares]

    def short(self) -> str:
        if self.centred is None:
            return "out of reach"
        known = "" if self.information is None else f" / {self.information:.2f}"
        return f"{self.centred:.3f}{known}"


class Space:
    def __init__(self, name: str, *, english: bool) -> None:
        self.space, self.english = space_named(name), english
        size = len(self.space)
        shares = frequencies.english(self.space.vocabulary) if english else np.ones(size)
        self.shares = torch.from_numpy(shares / shares.sum())
        self.centred = torch.from_numpy(self.space.centred_unit)
        self.raw = torch.from_numpy(unit_rows(self.space.vectors))
        self.blocks = np.split(np.arange(size), np.arange(BLOCK, size, BLOCK))
        self.near = np.concatenate(
            [lists.nearest(ids, self.space, NEAR)[0].cpu().numpy() for ids in self.blocks]
        )

    def constant(self) -> Measured:
        """The best constant answer, and how good it is."""
        mean = self.centred @ (self.shares @ self.centred)
        best = int(mean.argmax())
        near = float(self.shares.numpy() @ (self.near == best).any(axis=1))
        raw, kept = float((self.raw @ (self.shares @ self.raw)).max()), float(self.shares[best])
        return Measured("(constant answer)", 0.0, None, float(mean[best]), raw, 0.0, kept, near)

    def of_law(self, mechanism: Any) -> dict[str, float]:
        """Exact expectations, one pass over the rows."""
        marginal, sums = torch.zeros(len(self.space), dtype=torch.float64), np.zeros(5)
        for ids in self.blocks:
            said = []
            if isinstance(mechanism, ContextualMechanism):  # the same of every token
                bound = getattr(mechanism, "logit_bound", 0.0)
                said = [np.full((len(ids), len(self.space)), bound)]
            logs = torch.from_numpy(mechanism.log_probs(ids, self.space, *said))
            law, shares = logs.exp(), self.shares[ids]
            marginal += shares @ law
            found = [
                (law * (self.centred[ids] @ self.centred.T)).sum(dim=1),
                (law * (self.raw[ids] @ self.raw.T)).sum(dim=1),
                torch.where(law > 0, law * logs, 0.0).sum(dim=1),
                law[torch.arange(len(ids)), torch.from_numpy(ids)],
                law.gather(1, torch.from_numpy(self.near[ids])).sum(dim=1),
            ]
            sums += [float(shares @ values) for values in found]
        sums[2] -= float(torch.where(marginal > 0, marginal * marginal.log(), 0.0).sum())
        return dict(zip(("centred", "raw", "information", "kept", "near"), sums, strict=True))

    def of_draws(self, mechanism: Mechanism) -> dict[str, float]:
        ids = np.tile(np.arange(len(self.space)), DRAWS)
        if isinstance(mechanism, dp.DChiStencil):  # the mean over a text of one token is itself
            mechanism = dp.MetricNoise(eta=mechanism.eta)
        drawn = drawer(mechanism, self.space).draw([ids], sampler.os_entropy)[0]
        return {
            "centred": float((self.centred[ids] * self.centred[drawn]).sum(dim=1).mean()),
            "raw": float((self.raw[ids] * self.raw[drawn]).sum(dim=1).mean()),
            "kept": float((ids == drawn).mean()),
            "near": float((self.near[ids] == drawn[:, None]).any(axis=1).mean()),
        }


def measure(name: str, epsilon: float, where: Space) -> Measured:
    """A mechanism calibrated to an exact epsilon, and what it is worth."""
    try:
        mechanism = dp.MECHANISMS[name].with_defaults(epsilon, where.space)
        if name == dp.NearestResponse.name:
            prior = "english" if where.english else "uniform"
            mechanism = dp.NearestResponse.tuned(where.space, epsilon=epsilon, prior=prior)
        mechanism = dp.calibrate(mechanism, where.space, epsilon=epsilon, length=1)
    except dp.CannotCalibrate:
        return Measured(name, epsilon)
    finite = isinstance(mechanism, ChannelMechanism | ContextualMechanism)
    found = where.of_law(mechanism) if finite else where.of_draws(mechanism)
    return Measured(name, epsilon, mechanism.nominal, **found)


def stored() -> list[Measured]:
    return [Measured(**row) for row in json.loads(ROWS.read_text())]


def table(rows: list[Measured]) -> str:
    """Markdown: a line per mechanism, centred cosine and information per epsilon."""
    epsilons = sorted({row.epsilon for row in rows if row.epsilon})
    found = {(row.mechanism, row.epsilon): row for row in rows}
    measured = {name: [found.get((name, e)) for e in epsilons] for name in dp.MECHANISMS}
    measured = {name: own for name, own in measured.items() if None not in own}
    names = [n for n, own in measured.items() if any(row.centred is not None for row in own)]
    names.sort(key=lambda name: -(measured[name][-1].centred or 0.0))
    lines = [(name, *(row.short() for row in measured[name])) for name in names]
    constant = found["(constant answer)", 0.0].short()
    lines.append(("the best constant answer (epsilon 0)", *[constant] * len(epsilons)))
    heads = ("at exact epsilon", *(f"{epsilon:g}" for epsilon in epsilons))
    left = ", ".join(name for name in measured if name not in names)
    note = f"Infinite or out of reach whatever the parameter: {left}."
    return f"{pages.markdown(heads, lines)}\n\n{note}"


if __name__ == "__main__":
    own = {"mechanism": [str], "english": False, "write": False}
    options = pages.options(__doc__, space=(*SPACES, "toy"), epsilon=[3.0, 6.0, 8.0], **own)
    if options.write and (options.english or options.space != "default"):
        raise SystemExit("the table is of uniform tokens of the default space")
    where, measured = Space(options.space, english=options.english), []
    for epsilon in options.epsilon:
        print(f"\nexact epsilon {epsilon:g}, {where.space!r}\n")
        print(pages.markdown(HEADS, [where.constant().cells()]))
        for name in options.mechanism or dp.MECHANISMS:
            measured.append(measure(name, epsilon, where))
            print(pages.row(measured[-1].cells()), flush=True)
    if options.write:
        known = [*stored(), where.constant(), *measured]
        rows = {(row.mechanism, row.epsilon): row for row in known}
        pages.store(ROWS, map(asdict, rows.values()))
        pages.write(SECTION, table([*rows.values()]))
