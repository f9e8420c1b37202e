"""The report of an evaluation: one HTML file that asks nothing of the network and runs nothing."""

from __future__ import annotations

import io
import math
from html import escape
from pathlib import Path

from dp_middleware.lab.evaluation import _plots
from dp_middleware.lab.evaluation.results import Results, Row, write

UTILITY = ("sbert-cosine", "rouge-l", "bert-score", "probe-accuracy")
"""Measures of what a text keeps, in the order of the report's tables."""

_BEST = "In bold: the best, and those whose interval reaches it."
_KEPT = ' class="kept"'
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; }
th, td { border: 1px solid #ccc; padding: .2rem .5rem; text-align: left; vertical-align: top; }
td.number { text-align: right; } td.best { font-weight: bold; background: #e6f4e6; }
td.kept { background: #fbe3e3; } figure { margin: 1rem 0; overflow-x: auto; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
"""
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>Privacy and utility of text mechanisms</title>
<style>{style}</style>
</head>
<body>
<h1>Privacy and utility of text mechanisms</h1>
"""


def save(table: Results, folder: Path) -> None:
    """Write table.csv, table.json, table.parquet and report.html.

    Raises:
        MissingExtra: pandas, pyarrow or matplotlib is not installed.
        ParameterError: The folder cannot be written.
    """
    parquet = io.BytesIO()
    table.to_pandas().to_parquet(parquet, index=False)
    write(folder / "table.csv", table.to_csv().encode())
    write(folder / "table.json", table.to_json().encode())
    write(folder / "table.parquet", parquet.getvalue())
    write(folder / "report.html", report(table).encode())


def report(table: Results) -> str:
    """The whole document; the same for the same table."""
    parts = [_HEAD.format(style=_STYLE), _about(table)]
    for data in table.data:
        parts.append(f"<h2>{escape(data)}</h2>")
        parts += [_equal(name, table, data) for name in UTILITY]
        parts += [_figure(plot, table, data) for plot in _plots.PLOTS]
    parts += [_examples(table), _law_table(table), _skips(table), "</body></html>\n"]
    return "\n".join(part for part in parts if part)


def _about(table: Results) -> str:
    items = []
    for data in table.data:
        row = next(row for row in table if row["data"] == data)
        items.append(
            f"<li>{escape(data)}: {row['texts']} texts, {row['tokens']} tokens, of which "
            f"{100 * row['unknown_share']:.3g} % outside the vocabulary, digest "
            f"{row['data_digest'][:16]}</li>"
        )
    first = table.rows[0]
    versions = f"dp_middleware {first['library']}, torch {first['torch']}, NumPy {first['numpy']}"
    return (
        f"<p>Space of {first['space_tokens']} tokens, {first['space'][:16]}; {escape(versions)}. "
        "Exact epsilon is the largest loss over all pairs of tokens, enumerated from the integers "
        "that are drawn from, or else bounded by proof; nominal epsilon is the mechanism's own "
        "parameter. Attacks, retention and mapping sets count words, whatever their spelling; "
        "tokens outside the vocabulary become any word and are not attacked. All numbers, with "
        f"intervals and by id, are in table.csv.</p><ul>{''.join(items)}</ul>"
    )


def _equal(name: str, table: Results, data: str) -> str:
    """A measure at equal exact epsilon; what cannot be told from the best stands out."""
    asked = table.equal(name, data)
    reached = {mechanism: cells for mechanism, cells in asked.items() if any(cells.values())}
    if not reached:
        return ""
    epsilons = sorted({epsilon for cells in reached.values() for epsilon in cells})
    best = {
        epsilon: max((r["value"] for c in reached.values() if (r := c.get(epsilon))), default=0.0)
        for epsilon in epsilons
    }
    ran = {(row["mechanism"], row["asked_epsilon"]) for row in table.values(name, data)}
    rows = [
        [escape(m), *(_value(cells.get(e), best[e], ran=(m, e) in ran) for e in epsilons)]
        for m, cells in reached.items()
    ]
    left = ", ".join(mechanism for mechanism in asked if mechanism not in reached)
    note = f" Infinite, out of reach or not run: {escape(left)}." if left else ""
    what = "budget of a text" if table.rows[0]["asked"] == "text" else "exact epsilon"
    heads = [what, *(f"{epsilon:g}" for epsilon in epsilons)]
    return f"<h3>{escape(name)} at equal {what}</h3>{_html(heads, rows)}<p>{_BEST}{note}</p>"


def _value(row: Row | None, best: float, *, ran: bool) -> str:
    if row is None:
        return f"<td>{'out of reach' if ran else 'not run'}</td>"
    kind = "number best" if row["high"] >= best else "number"
    return f'<td class="{kind}">{row["value"]:.3f} [{row["low"]:.3f}, {row["high"]:.3f}]</td>'


def _figure(plot: _plots.Plot, table: Results, data: str) -> str:
    svg = _plots.drawn(plot, table, data)
    if svg is None:
        return ""
    name = escape(f"{plot.key}-{data}")
    caption = f"<figcaption>{escape(plot.title)}, {escape(data)}</figcaption>"
    return f'<figure id="{name}">{svg}{caption}</figure>'


def _examples(table: Results) -> str:
    """What became of each token of a public sentence; those that stayed stand out."""
    if not table.examples:
        return ""
    rows = []
    for example in table.examples:
        tokens, released = example["tokens"], example["released"]
        if len(released) == len(tokens):
            pairs = zip(tokens, released, strict=True)
            cells = [f"<td{_KEPT if x == y else ''}>{escape(y)}</td>" for x, y in pairs]
        else:  # of a mechanism of whole texts
            cells = [f'<td colspan="{len(tokens)}">{escape(" ".join(released))}</td>']
        exact = _epsilon(float(example["exact_epsilon"]))
        rows.append([escape(example["mechanism"]), f"{example['asked_epsilon']:g}", exact, *cells])
    heads = ["mechanism", "asked", "exact", *map(escape, table.examples[0]["tokens"])]
    return f"<h2>A sentence, token by token</h2>{_html(heads, rows)}"


def _law_table(table: Results) -> str:
    """Each mechanism at each epsilon: what was asked for, and what it is."""
    seen = {(row["asked_epsilon"], row["mechanism"]): row for row in table}
    rows = [
        [
            escape(row["mechanism"]),
            f"{row['asked_epsilon']:g}",
            _epsilon(row["nominal_epsilon"]),
            _epsilon(row["exact_epsilon"]),
            _epsilon(row["text_epsilon"]),
            escape(row["method"] or "none"),
            escape(row["guarantee"] or "none"),
        ]
        for _, row in sorted(seen.items(), key=lambda item: item[0])
    ]
    names = ("nominal epsilon", "exact epsilon", "of a text", "known by", "guarantee")
    heads = ["mechanism", "asked", *names]
    return f"<h2>Nominal and exact epsilon</h2>{_html(heads, rows)}"


def _skips(table: Results) -> str:
    reasons = {
        (row["mechanism"], f"{row['asked_epsilon']:g}", row["name"], row["data"]): row["reason"]
        for row in table
        if row["reason"] is not None
    }
    if not reasons:
        return ""
    rows = [[*map(escape, key), escape(reason)] for key, reason in reasons.items()]
    heads = ["mechanism", "asked", "measure", "data", "why not"]
    return f"<h2>What could not be run</h2>{_html(heads, rows)}"


def _epsilon(value: float | None) -> str:
    if value is None:
        return "none"
    return "infinite" if math.isinf(value) else f"{value:.4g}"


def _html(heads: list[str], rows: list[list[str]]) -> str:
    """A table; a cell that is not yet one becomes one."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(c if c.startswith("<td") else f"<td>{c}</td>" for c in row) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
