"""What is left of the meaning: all mechanisms at equal exact epsilon, on one space.

    python benchmarks/mechanisms.py [--space default|cl100k-11000] [--epsilon 3 ...]
        [--mechanism NAME ...] [--english] [--write]

``--write`` puts the rows into benchmarks/mechanisms.json and puts the table of docs/mechanisms.md
together from them. On the default space that takes about half an hour on two cores.

Every channel is calibrated to the same exact epsilon under substitution of any token, noise and
contextual mechanisms to an epsilon that their proofs bound. One whose loss is infinite whatever its
parameter cannot be, and says so. Tokens are uniform over the vocabulary, and so is the prior of a
codebook; with ``--english`` both are as in English text. Of each law, exactly (of noise mechanisms
from two draws per token, uniform):

* centred and raw cosine: expected cosine of token and release, of mean-centred and of raw vectors;
* information: mutual information of token and release, nats;
* kept: probability that a token is released unchanged;
* top 20: probability that one of its 20 nearest tokens is released, itself among them.

The baseline is the best constant answer, which is epsilon 0. CAPE has no context here: all its
logits are equal, and what is left of its utility is the distance; its texts have one token, as
those of DChiStencil have, so that both are what they are for a token alone.
"""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

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

EPSILONS = (3.0, 6.0, 8.0)
ROWS = Path(__file__).with_suffix(".json")
SECTION = "equal epsilon"
HEADS = ("mechanism", "nominal", "centred cosine", "raw cosine", "information", "kept", "top 20")
NEAR, DRAWS = 20, 2


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One row of the table; ``None`` where it is not known."""

    mechanism: str
    epsilon: float
    space: str
    nominal: float | None = None
    centred: float | None = None
    raw: float | None = None
    information: float | None = None
    kept: float | None = None
    near: float | None = None
    seconds: float = 0.0

    def cells(self) -> list[str]:
        """The line of a table."""
        if self.centred is None:
            return [f"`{self.mechanism}`", "cannot be calibrated", *[""] * 6]
        cells = [self.nominal, self.centred, self.raw, self.information]
        numbers = ["" if cell is None else f"{cell:.4g}" for cell in cells]
        shares = [f"{100 * share:.3g} %" for share in (self.kept, self.near)]
        return [f"`{self.mechanism}`", *numbers, *shares, f"{self.seconds:.0f}"]

    def short(self) -> str:
        """Centred cosine and information."""
        if self.centred is None:
            return "out of reach"
        known = "" if self.information is None else f" / {self.information:.2f}"
        return f"{self.centred:.3f}{known}"


class Space:
    """A space with what the measures need of it."""

    def __init__(self, name: str, *, english: bool) -> None:
        self.name, self.space, self.english = name, space_named(name), english
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
        return Measured(
            mechanism="(constant answer)",
            epsilon=0.0,
            space=self.name,
            centred=float(mean[best]),
            raw=float((self.raw @ (self.shares @ self.raw)).max()),
            information=0.0,
            kept=float(self.shares[best]),
            near=float(self.shares.numpy() @ (self.near == best).any(axis=1)),
        )

    def rows(self, mechanism: Mechanism, ids: np.ndarray) -> np.ndarray:
        if isinstance(mechanism, ContextualMechanism):
            said = getattr(mechanism, "logit_bound", 0.0)  # the same of every token
            logits = np.full((len(ids), len(self.space)), said)
            return mechanism.log_probs(ids, self.space, logits)
        return mechanism.log_probs(ids, self.space)

    def of_law(self, mechanism: Mechanism) -> dict[str, float]:
        """Exact expectations, one pass over the rows."""
        marginal, sums = torch.zeros(len(self.space), dtype=torch.float64), np.zeros(5)
        for ids in self.blocks:
            logs = torch.from_numpy(self.rows(mechanism, ids))
            law, shares = logs.exp(), self.shares[ids]
            marginal += shares @ law
            sums += [
                float(shares @ (law * (self.centred[ids] @ self.centred.T)).sum(dim=1)),
                float(shares @ (law * (self.raw[ids] @ self.raw.T)).sum(dim=1)),
                float(shares @ torch.where(law > 0, law * logs, 0.0).sum(dim=1)),
                float(shares @ law[torch.arange(len(ids)), torch.from_numpy(ids)]),
                float(shares @ law.gather(1, torch.from_numpy(self.near[ids])).sum(dim=1)),
            ]
        sums[2] -= float(torch.where(marginal > 0, marginal * marginal.log(), 0.0).sum())
        return dict(zip(("centred", "raw", "information", "kept", "near"), sums, strict=True))

    def of_draws(self, mechanism: Mechanism) -> dict[str, float]:
        """Means over draws."""
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
    """A mechanism calibrated to an exact epsilon, and what it is worth; timed."""
    started, row = time.perf_counter(), {"mechanism": name, "epsilon": epsilon, "space": where.name}
    try:
        mechanism = dp.MECHANISMS[name].with_defaults(epsilon, where.space)
        if name == dp.NearestResponse.name:
            prior = "english" if where.english else "uniform"
            mechanism = dp.NearestResponse.tuned(where.space, epsilon=epsilon, prior=prior)
        mechanism = dp.calibrate(mechanism, where.space, epsilon=epsilon, length=1)
    except dp.CannotCalibrate:
        return Measured(**row)
    finite = isinstance(mechanism, ChannelMechanism | ContextualMechanism)
    row |= where.of_law(mechanism) if finite else where.of_draws(mechanism)
    return Measured(**row, nominal=mechanism.nominal, seconds=time.perf_counter() - started)


def stored() -> list[Measured]:
    """The rows that runs with ``--write`` have kept."""
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


def main() -> None:
    """Print a table per epsilon."""
    parser = pages.parser(__doc__)
    parser.add_argument("--space", choices=[*SPACES, "toy"], default="default")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--mechanism", choices=list(dp.MECHANISMS), nargs="+")
    parser.add_argument("--write", action="store_true", help="store the rows, update the page")
    parser.add_argument("--english", action="store_true", help="tokens as in English text")
    options = parser.parse_args()
    if options.write and (options.english or options.space != "default"):
        parser.error("the table is of uniform tokens of the default space")
    where, measured = Space(options.space, english=options.english), []
    for epsilon in options.epsilon:
        print(f"\nexact epsilon {epsilon:g}, {where.space!r}\n")
        print(pages.markdown((*HEADS, "seconds"), [where.constant().cells()]))
        for name in options.mechanism or dp.MECHANISMS:
            measured.append(measure(name, epsilon, where))
            print(pages.row(measured[-1].cells()), flush=True)
    if options.write:
        known = [*stored(), where.constant(), *measured]
        rows = {(row.mechanism, row.epsilon): row for row in known}
        ROWS.write_text(json.dumps([asdict(row) for row in rows.values()], indent=1) + "\n")
        pages.write(SECTION, table([*rows.values()]))


if __name__ == "__main__":
    main()
