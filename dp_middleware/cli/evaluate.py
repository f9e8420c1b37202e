"""The evaluation of ``dp-middleware evaluate``, and how its outcome is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Lines
from rich.text import Text

from dp_middleware.cli import settings, show
from dp_middleware.cli.options import SpaceName
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.embedding import EmbeddingSpace
    from dp_middleware.evaluation import Results

_SHOWN = ("sbert-cosine", "rouge-l", "bayes")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is evaluated; public. See ``dp_middleware.evaluate``.

    Attributes:
        data: Files, folders or names of data sets.
        mechanisms: Names; ``None`` for all.
        epsilons: Nats per token; ``None`` for those of the library.
        exact: Whether they are certified ones.
        space: Vocabulary and vectors; cl100k is that of the library's default.
        attacks: Names; ``None`` for those that need no language model, and so for metrics.
        metrics: Names.
        limit: Texts of each data set.
        tokens: Of each text.
        sample: Texts that slow measures take.
        context: ``masked:NAME`` or ``causal:NAME``.
        masked: Name or folder of a masked language model.
        chat: Spec of a chat model, which is sent the releases.
        out: Folder.
    """

    data: list[str]
    mechanisms: list[str] | None
    epsilons: list[float] | None
    exact: bool
    space: SpaceName
    attacks: list[str] | None
    metrics: list[str] | None
    limit: int
    tokens: int
    sample: int
    context: str | None
    masked: str | None
    chat: str | None
    out: Path


@dataclass(frozen=True)
class _Chat:
    """A chat model with the name by which finished parts are found again."""

    name: str
    ask: Callable[[list[dict[str, str]]], str]

    def __call__(self, messages: list[dict[str, str]]) -> str:
        return self.ask(messages)


def run(plan: Plan, *, as_json: bool) -> None:
    """Evaluate, write the files, show a summary. All names are checked before anything long."""
    from dp_middleware.evaluation import evaluate
    from dp_middleware.evaluation.running import EPSILONS
    from dp_middleware.frameworks import open_model

    chat = None if plan.chat is None else _Chat(plan.chat, open_model(plan.chat, private=False))
    table = evaluate(
        plan.mechanisms,
        plan.epsilons or EPSILONS,
        plan.data,
        space=_space(plan.space),
        attacks=plan.attacks,
        metrics=plan.metrics,
        exact=plan.exact,
        limit=plan.limit,
        tokens=plan.tokens,
        sample=plan.sample,
        context=settings.context_of(plan.context),
        masked=plan.masked,
        chat=chat,
        out=plan.out,
    )
    _refuse_nothing(table)
    if as_json:
        show.data(_summary(table, plan.out))
        return
    _show(table)
    show.line(f"{len(table)} rows; report: {plan.out / 'report.html'}")


def _refuse_nothing(table: Results) -> None:
    """An evaluation without a single result has failed.

    Raises:
        ParameterError: Every row was skipped; with the first reason.
    """
    if all(row["reason"] is not None for row in table):
        raise ParameterError(f"expected a result, got none: {table.rows[0]['reason']}")


def _space(name: SpaceName) -> EmbeddingSpace:
    return settings.load_space(name)


def _summary(table: Results, out: Path) -> dict[str, Any]:
    names = ("table.csv", "table.json", "table.parquet", "report.html")
    return {
        "rows": len(table),
        "skipped": sum(row["reason"] is not None for row in table),
        "data": table.data,
        "files": [str(out / name) for name in names],
    }


def _show(table: Results) -> None:
    """Utility and the strongest attack, one row for each mechanism and epsilon."""
    for data in table.data:
        lines = Lines("mechanism", "asked", "exact epsilon", *_SHOWN, title=data)
        found = {
            name: {(r["mechanism"], r["asked_epsilon"]): r for r in table.values(name, data)}
            for name in _SHOWN
        }
        laws = {(r["mechanism"], r["asked_epsilon"]): r for r in table if r["data"] == data}
        for (mechanism, epsilon), law in laws.items():
            exact = law["exact_epsilon"]
            values = [found[name].get((mechanism, epsilon)) for name in _SHOWN]
            cells = ["" if row is None else f"{row['value']:.3f}" for row in values]
            known = "none" if exact is None else show.nats(exact)
            lines.add_row(Text(mechanism), f"{epsilon:g}", known, *cells)
        Console().print(lines)


def checked_out(out: Path | None) -> Path:
    """The folder of the results.

    Raises:
        ParameterError: There is none.
    """
    if out is None:
        raise ParameterError("expected --out, a folder for table and report")
    return out
