"""``dp-middleware evaluate``: measures over texts, to a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import announced, working
from dp_middleware.cli.settings import context_of, policy_of, require, space_of
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.lab.evaluation import Results

_COLUMNS = ("sbert-cosine", "rouge-l", "bayes")
_FILES = ("table.csv", "table.json", "table.parquet")
_SOME = "Repeatable; default: those without a language model."


@dataclass(frozen=True)
class _Chat:
    """A chat model with the name by which a later run knows what it has answered."""

    name: str
    ask: Callable[[list[dict[str, str]]], str]

    def __call__(self, messages: list[dict[str, str]]) -> str:
        return self.ask(messages)


def evaluate(
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Files, folders or names of data sets; public texts."),
    ] = None,
    mechanism: Annotated[
        list[str] | None, typer.Option("--mechanism", "-m", help="Repeatable; default: all.")
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon", "-e", help="Certified nats per token; repeatable; default: 1, 3, 6, 10."
        ),
    ] = None,
    nominal: options.Nominal = False,
    space: options.Space = "wordpieces",
    list_size: options.ListSize = None,
    keep: options.Keeps = None,
    attack: Annotated[list[str] | None, typer.Option(help=_SOME)] = None,
    metric: Annotated[list[str] | None, typer.Option(help=_SOME)] = None,
    limit: Annotated[int, typer.Option(help="Texts of each data set.")] = 200,
    tokens: Annotated[int, typer.Option(help="Tokens of each text.")] = 64,
    generated: Annotated[
        int, typer.Option(help="Tokens of an answer; the text's next ones are its reference.")
    ] = 0,
    sample: Annotated[
        int, typer.Option(help="Texts that the slow measures take; rows say so.")
    ] = 32,
    context: options.Context = None,
    masked_model: Annotated[
        str | None, typer.Option(help="For masked-token: a name or folder.")
    ] = None,
    chat_model: Annotated[
        str | None, typer.Option(help=f"Is sent every release: {options.MODEL_FORMS}.")
    ] = None,
    extractor: Annotated[
        str | None, typer.Option(help="Sees the texts, and the answers: same forms.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the table.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Mechanisms x epsilons x data x attacks and metrics: a table."""
    if out is None:
        raise ParameterError("expected --out, a folder for the table")
    with working("loading the library"):
        from dp_middleware.frameworks import open_model
        from dp_middleware.lab.evaluation.measures import named
        from dp_middleware.lab.evaluation.running import EPSILONS

        require("a mechanism", mechanism or (), dp.MECHANISMS)
        require("an attack", attack or (), named("attack"))
        require("a metric", metric or (), named("metric"))
        model, local = (
            None if spec is None else _Chat(spec, open_model(spec, private=private))
            for spec, private in ((chat_model, False), (extractor, True))
        )
        reader = context_of(context)
    where = space_of(space)
    with announced("evaluating"):
        table = dp.evaluate(
            mechanism,
            epsilon or EPSILONS,
            data or [],
            space=where,
            attacks=attack,
            metrics=metric,
            exact=not nominal,
            list_size=list_size,
            limit=limit,
            tokens=tokens,
            policy=policy_of(keep),
            generated=generated,
            sample=sample,
            context=reader,
            masked=masked_model,
            chat=model,
            extractor=local,
            out=out,
        )
    skipped = sum(row["reason"] is not None for row in table)
    if skipped == len(table):
        raise ParameterError(f"expected a result, got none: {table.rows[0]['reason']}")
    if as_json:
        files = [str(out / name) for name in _FILES]
        show.data({"rows": len(table), "skipped": skipped, "data": table.data, "files": files})
        return
    for name in table.data:
        Console().print(_lines(table, name))
    show.line(f"{len(table)} rows: {out / 'table.csv'}")


def _lines(table: Results, data: str) -> Table:
    laws = {(row["mechanism"], row["asked_epsilon"]): row for row in table if row["data"] == data}
    share = show.percent(table.unknown_share(data))
    title = f"{data}, {share} of tokens outside the vocabulary"
    heads = ("mechanism", "asked", "exact epsilon", "text spends", *_COLUMNS, "bayes by id")
    lines = Table(*heads, title=title, box=box.SIMPLE_HEAD, padding=0)  # fits 80 columns
    columns = [
        {(row["mechanism"], row["asked_epsilon"]): row[value] for row in table.values(name, data)}
        for name, value in (*((name, "value") for name in _COLUMNS), ("bayes", "by_id"))
    ]
    for law, row in laws.items():
        nats = (row["exact_epsilon"], row["text_epsilon"])
        cells = ["none" if value is None else show.nats(value) for value in nats]
        cells += [f"{column[law]:.3f}" if law in column else "" for column in columns]
        lines.add_row(Text(law[0]), f"{law[1]:g}", *cells)
    return lines
