"""Plots of a table as SVG text: the same bytes for the same rows, no scripts, no addresses."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from typing import Any

from dp_middleware.lab.evaluation.measures import MEASURES
from dp_middleware.lab.evaluation.results import Results, Row

_SIZE = (7.2, 4.2)  # inches
_MARKERS = "osD^v<>Ph"
_STYLES: dict[Any, Any] = {
    "svg.hashsalt": "dp_middleware",
    "svg.fonttype": "path",
    "font.size": 8.0,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
_NAMES = {
    "sbert-cosine": "SBERT cosine of raw and released",
    "bayes": "recovered by the Bayes attacker",
    "embedding-inversion": "recovered by embedding inversion",
    "retention": "share of tokens kept",
    "mapping-set-size": "distinct outputs in 100 draws",
    "rouge-l": "ROUGE-L",
}
# HTML needs no declarations, which are addresses
_ADDRESSES = re.compile(r'\s(?:xmlns(?::\w+)?)="[^"]*"')
_METADATA = re.compile(r"<metadata>.*?</metadata>", flags=re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Describes a plot of one data set, a line for each mechanism.

    ``y`` is a measure; ``x`` one too, or ``"exact"``, ``"text"`` or ``"nominal"``, an epsilon.
    """

    key: str
    title: str
    x: str
    y: str


PLOTS = (
    Plot(key="utility-exact", title="Utility at exact epsilon", x="exact", y="sbert-cosine"),
    Plot(key="utility-text", title="Utility at the budget of a text", x="text", y="sbert-cosine"),
    Plot(key="utility-nominal", title="Utility at nominal epsilon", x="nominal", y="sbert-cosine"),
    Plot(key="privacy-exact", title="Attack at exact epsilon", x="exact", y="bayes"),
    Plot(key="privacy-nominal", title="Attack at nominal epsilon", x="nominal", y="bayes"),
    Plot(key="privacy-utility", title="Privacy against utility", x="embedding-inversion",
         y="sbert-cosine"),
    Plot(key="retention", title="Retention", x="exact", y="retention"),
    Plot(key="set-sizes", title="Mapping set size", x="exact", y="mapping-set-size"),
)  # fmt: skip


def drawn(plot: Plot, table: Results, data: str) -> str | None:
    """Draws an ``<svg>``, infinity behind a dashed line; ``None`` if no mechanism has a point."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    lines = _lines(plot, table, data)
    if not lines:
        return None
    with mpl.rc_context(_STYLES):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        _fill(axes, lines)
        axes.set(title=f"{plot.title}: {data}", xlabel=_label(plot.x), ylabel=_label(plot.y))
        if plot.y == "mapping-set-size":
            axes.set_yscale("log")
        figure.legend(loc="outside right upper", fontsize=7)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return _ADDRESSES.sub("", _METADATA.sub("", svg[svg.index("<svg") :]))


def _fill(axes: Any, lines: dict[str, list[tuple[float, float]]]) -> None:
    """A line for each mechanism; infinity behind a dashed line at the right edge."""
    import matplotlib as mpl

    places = [x for points in lines.values() for x, _ in points]
    edge = 1.15 * max([x for x in places if math.isfinite(x)], default=1.0)
    for number, (name, points) in enumerate(lines.items()):
        axes.plot(
            [min(x, edge) for x, _ in points],
            [y for _, y in points],
            marker=_MARKERS[number % len(_MARKERS)],
            color=mpl.colormaps["tab20"](number % 20),
            linewidth=1,
            markersize=4,
            label=name,
        )
    if any(map(math.isinf, places)):
        line, over = edge * 0.97, axes.get_xaxis_transform()
        axes.axvline(line, linestyle="--", color="grey", linewidth=0.8)
        axes.text(line, 0.99, "infinite ", transform=over, ha="right", va="top")


def _lines(plot: Plot, table: Results, data: str) -> dict[str, list[tuple[float, float]]]:
    """Points of each mechanism, by x."""
    others = {_cell(row): row["value"] for row in table.values(plot.x, data)}
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in table.values(plot.y, data):
        x = others.get(_cell(row)) if plot.x in MEASURES else row[f"{plot.x}_epsilon"]
        if x is not None and math.isfinite(row["value"]):
            lines.setdefault(row["mechanism"], []).append((x, row["value"]))
    return {name: sorted(points) for name, points in lines.items()}


def _cell(row: Row) -> tuple[str, float]:
    return row["mechanism"], row["asked_epsilon"]


def _label(name: str) -> str:
    if name == "text":
        return "nats of the longest text"
    if name in ("exact", "nominal"):
        return f"{name} epsilon, nats per token"
    return _NAMES.get(name, name)
