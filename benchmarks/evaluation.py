"""What text keeps at equal exact epsilon: every mechanism on real texts, for docs/benchmarks.md.

    python benchmarks/evaluation.py DATA... --out FOLDER [--write]

runs ``dp.evaluate`` with ``exact=True`` on the data sets, 200 texts of 64 tokens each, all
mechanisms, epsilons 1, 3, 6 and 10, attacks and metrics that need no language model. ``--write``
puts the values of the table into benchmarks/evaluation.json, the table into docs/benchmarks.md and
the plot into docs/images/privacy_utility.svg.
"""

import argparse
import io
import json
import resource
import time
from pathlib import Path

import pages

import dp_middleware as dp
from dp_middleware.lab.evaluation import Results

ROOT = Path(__file__).parent.parent
VALUES = Path(__file__).with_suffix(".json")
IMAGE = Path("docs/images/privacy_utility.svg")
SECTION = "evaluation"
MEASURE, ATTACK = "sbert-cosine", "bayes"


def values(table: Results) -> list[dict[str, object]]:
    """One entry for each data set, mechanism and epsilon; ``None`` where that is out of reach."""
    found = []
    for data in table.data:
        kept, recovered = (table.equal(name, data) for name in (MEASURE, ATTACK))
        for mechanism, cells in kept.items():
            for epsilon, row in cells.items():
                attack = recovered[mechanism][epsilon]
                found.append(
                    {
                        "data": data,
                        "mechanism": mechanism,
                        "epsilon": epsilon,
                        "kept": None if row is None else round(row["value"], 4),
                        "low": None if row is None else round(row["low"], 4),
                        "high": None if row is None else round(row["high"], 4),
                        "recovered": None if attack is None else round(attack["value"], 4),
                        "by_id": None if attack is None else round(attack["by_id"], 4),
                        "unknown": round(table.unknown_share(data), 4),
                    }
                )
    return found


def section(entries: list[dict[str, object]]) -> str:
    """Markdown: a line per mechanism, sorted by what it keeps at the largest."""
    data = list(dict.fromkeys(entry["data"] for entry in entries))
    epsilons = sorted({entry["epsilon"] for entry in entries})
    found = {(e["data"], e["mechanism"], e["epsilon"]): e for e in entries}
    names = list(dict.fromkeys(entry["mechanism"] for entry in entries))
    reached = [
        n for n in names if any(found[d, n, e]["kept"] is not None for d in data for e in epsilons)
    ]
    reached.sort(key=lambda n: -sum(found[d, n, epsilons[-1]]["kept"] or 0 for d in data))
    heads = [f"{d}, {e:g}" for d in data for e in epsilons]
    lines = [f"| at exact epsilon | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in reached:
        cells = [_cell(found[d, name, e]) for d in data for e in epsilons]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    left = ", ".join(name for name in names if name not in reached)
    notes = [f"Infinite, out of reach or without a context: {left}."]
    shares = {e["data"]: e["unknown"] for e in entries if "unknown" in e}
    listed = " and ".join(f"{100 * share:.3g} % of {name}" for name, share in shares.items())
    if shares:
        notes.append(f"Outside the vocabulary: {listed}.")
    text = "\n".join([*lines, "", " ".join(notes), ""])
    return (
        f"{text}\n![What text keeps against what an attacker recovers]({IMAGE.relative_to('docs')})"
    )


def _cell(entry: dict[str, object]) -> str:
    if entry["kept"] is None:
        return "out of reach"
    attack = "" if entry["recovered"] is None else f" / {100 * entry['recovered']:.3g} %"
    if entry.get("by_id") is not None:
        attack += f" ({100 * entry['by_id']:.3g} %)"
    return f"{entry['kept']:.2f}{attack}"


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
    """Evaluate, report the time, and with ``--write`` update docs/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=32)
    parser.add_argument(
        "--write", action="store_true", help="update docs/benchmarks.md and docs/images"
    )
    options = parser.parse_args()
    started = time.perf_counter()
    table = dp.evaluate(data=options.data, exact=True, sample=options.sample, out=options.out)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{len(table)} rows, {time.perf_counter() - started:.0f} s wall,", end=" ")
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processors, {used.ru_maxrss / 1e6:.2f} GB")
    entries = values(table)
    text = section(entries)
    print(text)
    if options.write:
        VALUES.write_text(json.dumps(entries, indent=1) + "\n")
        (ROOT / IMAGE).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / IMAGE).write_text(plot(table))
        pages.write(SECTION, text)


if __name__ == "__main__":
    main()
