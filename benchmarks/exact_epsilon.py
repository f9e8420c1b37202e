"""Claimed against exact epsilon of every mechanism, for two tables.

    python benchmarks/exact_epsilon.py --write

computes the cells that are missing on the default space and on cl100k-11,000, or of another
fingerprint (all of them: about half an hour on two cores), writes them to
benchmarks/exact_epsilon.json, and the whole table and a short one to their pages. Without
``--write`` the table of the stored cells is printed.
"""

import itertools
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pages

import dp_middleware as dp
from dp_middleware.mechanisms import Mechanism

KINDS = dp.MECHANISMS
CELLS = Path(__file__).with_suffix(".json")
SECTION, SHORT = "exact epsilon", "guaranteed"
NOMINAL = (1.0, 3.0, 6.0, 10.0)
SPACES = {"default": "default space", "cl100k-11000": "cl100k-11,000"}
SIZES = {"default": 29_523, "cl100k-11000": 11_000}
NOTE = (
    "An asterisk: an upper bound by proof, over all positions that a token moves: of `cape`, "
    "whose context is the raw text, the n that see it, so none without n."
)


@dataclass(frozen=True)
class Cell:
    """One certificate: the exact epsilon of a mechanism at a nominal one, on a space."""

    mechanism: str
    nominal: float
    space: str
    mechanism_fingerprint: str
    space_fingerprint: str
    epsilon: float | str
    method: str

    def __str__(self) -> str:
        if self.mechanism == dp.Cape.name:
            cape = dp.Cape(epsilon=self.nominal, logit_bound=1.0)
            return f"{cape.position_loss(SIZES[self.space]):.2f}n*"
        if self.epsilon == "inf":
            return "∞"
        return f"{self.epsilon:.2f}" + ("*" if self.method == "proof" else "")


@lru_cache(maxsize=2)
def space_named(name: str) -> dp.EmbeddingSpace:
    """The bundled encoder's input vectors of a vocabulary; ``toy`` has 1,000 random ones."""
    if name == "default":
        return dp.default_space()
    if name == "toy":
        vectors = np.random.default_rng(0).normal(size=(1000, 64))
        return dp.EmbeddingSpace(dp.Vocabulary([f"w{i}" for i in range(1000)]), vectors)
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000)
    return dp.EmbeddingService().space(vocabulary, "input")


def mechanism_named(name: str, nominal: float, space: dp.EmbeddingSpace) -> Mechanism:
    """With public defaults. A nearest response over all tokens: no codebook changes its loss."""
    if name == dp.NearestResponse.name:
        return dp.NearestResponse(epsilon=nominal, candidates=1)
    return KINDS[name].with_defaults(nominal, space)


def compute(mechanism: str, nominal: float, space: str) -> Cell:
    where = space_named(space)
    made = dp.certify(mechanism_named(mechanism, nominal, where), where)
    prints = (made.mechanism, made.space)
    return Cell(mechanism, nominal, space, *prints, made.to_dict()["epsilon"], made.method)


def is_current(cell: Cell) -> bool:
    """Whether a stored cell is of the mechanism and the space that there are now."""
    space = space_named(cell.space)
    mechanism = mechanism_named(cell.mechanism, cell.nominal, space)
    prints = (cell.mechanism_fingerprint, cell.space_fingerprint)
    return prints == (mechanism.fingerprint, space.fingerprint)


def stored() -> list[Cell]:
    return [Cell(**cell) for cell in json.loads(CELLS.read_text())]


def table(cells: list[Cell]) -> str:
    """Markdown: a row per mechanism, a column per nominal epsilon, both spaces in a cell."""
    found = {(cell.mechanism, cell.nominal, cell.space): str(cell) for cell in cells}
    rows = {m: [" / ".join(found[m, n, space] for space in SPACES) for n in NOMINAL] for m in KINDS}
    lines = [(f"`{name}`", KINDS[name].claim, *own) for name, own in rows.items()]
    heads = ("mechanism", "claim", *(f"nominal {nominal:g}" for nominal in NOMINAL))
    prints = {cell.space: cell.space_fingerprint[:8] for cell in cells}
    spaces = " / ".join(f"{title} (`{prints[space]}`)" for space, title in SPACES.items())
    return f"{pages.markdown(heads, lines)}\n\nEach cell: {spaces}. {NOTE}"


def short_table(cells: list[Cell]) -> str:
    """Markdown: what is guaranteed, and the exact epsilon on the default space."""
    lines = []
    for name, mechanism in KINDS.items():
        shown = [str(c) for c in cells if (c.mechanism, c.space) == (name, "default")]
        shown = shown[:1] if len(set(shown)) == 1 else shown
        lines.append((f"`{name}`", mechanism.truth, " / ".join(shown)))
    heads = " / ".join(f"{nominal:g}" for nominal in NOMINAL)
    return pages.markdown(("mechanism", "guaranteed", f"exact epsilon at {heads}"), lines)


if __name__ == "__main__":
    if pages.options(__doc__, write=False).write:
        known = {(c.space, c.mechanism, c.nominal): c for c in stored()}
        cells = []
        for key in itertools.product(SPACES, KINDS, NOMINAL):
            cell = known.get(key)
            if cell is None or not is_current(cell):
                cell = compute(key[1], key[2], key[0])
                print(*key, cell.epsilon, flush=True)
            cells.append(cell)
        pages.store(CELLS, map(asdict, cells))
        pages.write(SECTION, table(cells))
        pages.write(SHORT, short_table(cells))
    print(table(stored()))
