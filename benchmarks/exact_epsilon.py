"""Claimed against exact epsilon of every mechanism, for the README's table.

    python benchmarks/exact_epsilon.py --write

computes all cells on the default space and on cl100k-11,000 (about 15 minutes on two cores the
first time; certificates are kept on disk), writes them to benchmarks/exact_epsilon.json and the
table into README.md. Without ``--write`` the table of the stored cells is printed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import dp_middleware as dp

ROOT = Path(__file__).parent.parent
CELLS = Path(__file__).with_suffix(".json")
BEGIN, END = "<!-- exact epsilon: begin -->", "<!-- exact epsilon: end -->"
NOMINAL = (1.0, 3.0, 6.0, 10.0)
SPACES = {"default": "default space", "cl100k-11000": "cl100k-11,000"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One certificate: the exact epsilon of a mechanism at a nominal one, on a space."""

    mechanism: str
    nominal: float
    space: str
    mechanism_fingerprint: str
    space_fingerprint: str
    epsilon: float | str
    loss: float | str


def space_named(name: str) -> dp.EmbeddingSpace:
    """The two spaces of the table, both with the bundled encoder's input vectors."""
    if name == "default":
        return dp.default_space()
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000)
    return dp.EmbeddingService().space(vocabulary, "input")


def compute(mechanism: str, nominal: float, space: str) -> Cell:
    """One cell, from :func:`dp_middleware.certify`."""
    where = space_named(space)
    certificate = dp.certify(dp.MECHANISMS[mechanism](epsilon=nominal), where)
    data = certificate.to_dict()
    return Cell(
        mechanism=mechanism,
        nominal=nominal,
        space=space,
        mechanism_fingerprint=certificate.mechanism,
        space_fingerprint=certificate.space,
        epsilon=data["epsilon"],
        loss=data["loss"],
    )


def stored() -> list[Cell]:
    """The cells of the last run with ``--write``."""
    return [Cell(**cell) for cell in json.loads(CELLS.read_text())]


def table(cells: list[Cell]) -> str:
    """Markdown: a row per mechanism, a column per nominal epsilon, both spaces in a cell."""
    heads = "".join(f" nominal {nominal:g} |" for nominal in NOMINAL)
    lines = [f"| mechanism | claim |{heads}", "|---|---|" + "---|" * len(NOMINAL)]
    found = {(cell.mechanism, cell.nominal, cell.space): cell for cell in cells}
    for name, mechanism in dp.MECHANISMS.items():
        entries = [
            " / ".join(_shown(found[name, nominal, space]) for space in SPACES)
            for nominal in NOMINAL
        ]
        lines.append(f"| `{name}` | {mechanism.claim} | " + " | ".join(entries) + " |")
    fingerprints = {cell.space: cell.space_fingerprint[:8] for cell in cells}
    spaces = " / ".join(f"{SPACES[space]} (`{fingerprints[space]}`)" for space in SPACES)
    return "\n".join([*lines, "", f"Each cell: {spaces}."])


def _shown(cell: Cell) -> str:
    return "∞" if cell.loss == "inf" else f"{cell.loss:.2f}"


def into_readme(text: str, rendered: str) -> str:
    """The README with the table between its two markers replaced."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{rendered}\n{END}{after}"


def main() -> None:
    """Compute and write, or print what is stored."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="compute, store and update README.md")
    if parser.parse_args().write:
        cells = []
        for space in SPACES:
            for name in dp.MECHANISMS:
                for nominal in NOMINAL:
                    cells.append(compute(name, nominal, space))
                    print(space, name, nominal, cells[-1].epsilon, flush=True)
        CELLS.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
        readme = ROOT / "README.md"
        readme.write_text(into_readme(readme.read_text(), table(cells)))
    print(table(stored()))


if __name__ == "__main__":
    main()
