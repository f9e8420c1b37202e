"""What text keeps at equal exact epsilon: every mechanism on real texts, for docs/benchmarks.md.

    python benchmarks/evaluation.py DATA... --out FOLDER [--write]

runs ``dp.evaluate`` with ``exact=True`` on the data sets, 200 texts of 64 tokens each, all
mechanisms, epsilons 1, 3, 6 and 10, attacks and metrics that need no language model. ``--write``
puts the values of the table into benchmarks/evaluation.json, the table into docs/benchmarks.md and
the plot into docs/images/privacy_utility.svg.
"""

import io
from collections import defaultdict
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
        for name, epsilon in [(name, epsilon) for name, own in kept.items() for epsilon in own]:
            row, attack = kept[name][epsilon], recovered[name][epsilon]
            entry = {"data": data, "mechanism": name, "epsilon": epsilon}
            entry |= {"kept": number(row, "value"), "recovered": number(attack, "value")}
            share = round(table.unknown_share(data), 4)
            found.append(entry | {"by_id": number(attack, "by_id"), "unknown": share})
    return found


def section(entries: list[Entry]) -> str:
    """Markdown: a line per mechanism, sorted by what it keeps at the largest."""
    unknown = {entry["data"]: entry["unknown"] for entry in entries}
    columns = [*product(unknown, sorted({entry["epsilon"] for entry in entries}))]
    rows: dict[str, dict[Any, Entry]] = defaultdict(dict)
    for entry in entries:
        rows[entry["mechanism"]][entry["data"], entry["epsilon"]] = entry
    reached = [n for n, own in rows.items() if any(e["kept"] is not None for e in own.values())]
    last = columns[-1][1]
    reached.sort(key=lambda name: -sum(rows[name][data, last]["kept"] or 0 for data in unknown))
    heads = ("at exact epsilon", *(f"{data}, {epsilon:g}" for data, epsilon in columns))
    lines = [(f"`{name}`", *(_cell(rows[name][column]) for column in columns)) for name in reached]
    table = pages.markdown(heads, lines)
    left = ", ".join(name for name in rows if name not in reached)
    shares = " and ".join(f"{100 * share:.3g} % of {name}" for name, share in unknown.items())
    image = f"![What text keeps against what an attacker recovers]({IMAGE.relative_to('docs')})"
    note = f"Infinite, out of reach or without a context: {left}. Outside the vocabulary: {shares}."
    return f"{table}\n\n{note}\n\n{image}"


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


if __name__ == "__main__":
    given = pages.options(__doc__, "data+", out=Path, limit=200, mechanisms=[str], write=False)
    data, some = [*map(str, given.data)], {"limit": given.limit, "out": given.out}
    table = dp.evaluate(given.mechanisms, data=data, exact=True, **some)
    entries = values(table)
    print(section(entries))
    if given.write:
        pages.store(VALUES, entries)
        (pages.ROOT / IMAGE).write_text(plot(table))
        pages.write(SECTION, section(entries))
