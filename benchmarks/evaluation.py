"""What text keeps at equal exact epsilon: every mechanism on real texts, for docs/benchmarks.md.

    python benchmarks/evaluation.py DATA... --out FOLDER [--write]

runs ``dp.evaluate`` with ``exact=True`` on the data sets, 200 texts of 64 tokens each, all
mechanisms, epsilons 1, 3, 6 and 10, attacks and metrics that need no language model. ``--write``
puts the values of the table into benchmarks/evaluation.json, the table into docs/benchmarks.md and
the plot into docs/images/privacy_utility.svg.
"""

import io
import json
from itertools import product
from pathlib import Path
from typing import Any

import pages

import dp_middleware as dp
from dp_middleware.lab.evaluation import Results

VALUES = Path(__file__).with_suffix(".json")
IMAGE = Path("docs/images/privacy_utility.svg")
SECTION = "evaluation"
MEASURE, ATTACK = "sbert-cosine", "bayes"

Entry = dict[str, Any]


def values(table: Results) -> list[Entry]:
    """One entry for each data set, mechanism and epsilon; ``None`` where that is out of reach."""

    def number(row: Entry | None, column: str) -> float | None:
        return None if row is None else round(row[column], 4)

    found = []
    for data in table.data:
        kept, recovered = (table.equal(name, data) for name in (MEASURE, ATTACK))
        for mechanism, cells in kept.items():
            for epsilon, row in cells.items():
                attack = recovered[mechanism][epsilon]
                entry = {"data": data, "mechanism": mechanism, "epsilon": epsilon}
                entry |= {"kept": number(row, "value")}
                entry |= {end: number(row, end) for end in ("low", "high")}
                entry |= {"recovered": number(attack, "value"), "by_id": number(attack, "by_id")}
                found.append(entry | {"unknown": round(table.unknown_share(data), 4)})
    return found


def section(entries: list[Entry]) -> str:
    """Markdown: a line per mechanism, sorted by what it keeps at the largest."""
    unknown = {entry["data"]: entry["unknown"] for entry in entries}
    columns = [*product(unknown, sorted({entry["epsilon"] for entry in entries}))]
    found = {(e["mechanism"], e["data"], e["epsilon"]): e for e in entries}
    names = dict.fromkeys(entry["mechanism"] for entry in entries)
    rows = {name: [found[name, *column] for column in columns] for name in names}
    reached = [n for n, own in rows.items() if any(entry["kept"] is not None for entry in own)]
    largest = columns[-1][1]
    at_most = {n: [e["kept"] or 0 for e in rows[n] if e["epsilon"] == largest] for n in names}
    reached.sort(key=lambda name: -sum(at_most[name]))
    table = pages.markdown(
        ("at exact epsilon", *(f"{data}, {epsilon:g}" for data, epsilon in columns)),
        [(f"`{name}`", *map(_cell, rows[name])) for name in reached],
    )
    left = ", ".join(name for name in names if name not in reached)
    shares = " and ".join(f"{100 * share:.3g} % of {name}" for name, share in unknown.items())
    image = f"![What text keeps against what an attacker recovers]({IMAGE.relative_to('docs')})"
    return (
        f"{table}\n\nInfinite, out of reach or without a context: {left}. "
        f"Outside the vocabulary: {shares}.\n\n{image}"
    )


def _cell(entry: Entry) -> str:
    if entry["kept"] is None:
        return "out of reach"
    attack = "" if entry["recovered"] is None else f" / {100 * entry['recovered']:.3g} %"
    by_id = "" if entry["by_id"] is None else f" ({100 * entry['by_id']:.3g} %)"
    return f"{entry['kept']:.2f}{attack}{by_id}"


def plot(table: Results) -> str:
    """The first data set's privacy against utility, as a file of its own."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    recovered, kept = (
        {(row["mechanism"], row["asked_epsilon"]): row["value"] for row in rows}
        for rows in (table.values(name, table.data[0]) for name in ("embedding-inversion", MEASURE))
    )
    with mpl.rc_context({"svg.hashsalt": "dp_middleware", "font.size": 8.0, "axes.grid": True}):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel="recovered by embedding inversion", ylabel=MEASURE)
        for number, name in enumerate(dict.fromkeys(name for name, _ in kept)):
            own = [key for key in kept if key[0] == name and key in recovered]
            points = sorted((recovered[key], kept[key]) for key in own)
            color = mpl.colormaps["tab20"](number % 20)
            axes.plot(*zip(*points, strict=True), marker="o", color=color, label=name)
        figure.legend(loc="outside right upper", fontsize=7)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def main() -> None:
    """Evaluate, and with ``--write`` update docs/."""
    parser = pages.parser(__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=200, help="texts of each data set")
    parser.add_argument("--mechanisms", nargs="+", help="default: all")
    parser.add_argument("--write", action="store_true", help="update docs/")
    options = parser.parse_args()
    table = dp.evaluate(
        options.mechanisms, data=options.data, exact=True, limit=options.limit, out=options.out
    )
    entries = values(table)
    print(section(entries))
    if options.write:
        VALUES.write_text(json.dumps(entries, indent=1) + "\n")
        (pages.ROOT / IMAGE).write_text(plot(table))
        pages.write(SECTION, section(entries))


if __name__ == "__main__":
    main()
