"""``dp-middleware evaluate``: measures over texts, to a table; ``attack``: one on a text."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from typer import Argument, Option

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import read_text, require, working
from dp_middleware.cli.options import Text, Texts
from dp_middleware.errors import ParameterError

_ATTACKS = ("bayes", "bayes-uniform", "bayes-on-text", "embedding-inversion")
_SOME = "Repeatable; default: those without a language model."


def evaluate(
    data: Annotated[
        Texts, Argument(metavar="DATA", help="Files or folders of public texts.")
    ] = None,
    mechanism: Annotated[
        Texts, Option("--mechanism", "-m", help="Repeatable; default: all.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, Option("--epsilon", "-e", help="Certified; default: 1, 3, 6, 10.")
    ] = None,
    nominal: options.Nominal = False,
    space: options.Space = "wordpieces",
    list_size: options.ListSize = None,
    keep: options.Keeps = None,
    attack: Annotated[Texts, Option(help=_SOME)] = None,
    metric: Annotated[Texts, Option(help=_SOME)] = None,
    limit: Annotated[int, Option(help="Texts of each data set.")] = 200,
    tokens: Annotated[int, Option(help="Tokens of each text.")] = 64,
    generated: Annotated[int, Option(help="Tokens of an answer, and of its reference.")] = 0,
    context: options.Context = None,
    masked_model: Annotated[Text, Option(help="For masked-token: a name or folder.")] = None,
    chat_model: Annotated[Text, Option(help=f"Sees releases: {options.MODEL_FORMS}.")] = None,
    extractor: Annotated[Text, Option(help="Sees texts and answers: same forms.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the table.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Mechanisms x epsilons x data x attacks and metrics: a table."""
    if out is None:
        raise ParameterError("expected --out, a folder for the table")
    with working("loading the library"):
        from dp_middleware.frameworks import open_model
        from dp_middleware.lab.evaluation.measures import named

        require("a mechanism", mechanism or (), dp.MECHANISMS)
        require("an attack", attack or (), named("attack"))
        require("a metric", metric or (), named("metric"))
        terms: dict[str, Any] = {"context": options.context_of(context), "masked": masked_model}
        if chat_model is not None:
            terms["chat"] = open_model(chat_model, private=False)
        if extractor is not None:
            terms["extractor"] = open_model(extractor, private=True)
    terms |= {"space": options.space_of(space), "policy": options.policy_of(keep), "out": out}
    terms |= {"limit": limit, "tokens": tokens, "generated": generated, "list_size": list_size}
    terms |= {"attacks": attack, "metrics": metric, "exact": not nominal}
    terms |= {"epsilons": epsilon} if epsilon else {}
    with working("evaluating", has_bar=True):
        table = dp.evaluate(mechanism, data=data or (), **terms)
    skipped = sum(row["reason"] is not None for row in table)
    if skipped == len(table):
        raise ParameterError(f"expected a result, got none: {table.rows[0]['reason']}")
    if as_json:
        files = [str(out / f"table.{kind}") for kind in ("csv", "json", "parquet")]
        show.data({"rows": len(table), "skipped": skipped, "data": table.data, "files": files})
        return
    by = ["data", "mechanism", "asked_epsilon", "exact_epsilon", "name"]
    values = table.to_pandas().set_index(by)["value"].unstack("name")
    show.line(values.to_string(na_rep="", float_format="{:.3f}".format))
    show.line(f"{len(table)} rows: {out / 'table.csv'}")


@options.with_settings
def attack(
    settings: options.PrivacyOptions,
    name: Annotated[str, Argument(metavar="ATTACK", help=", ".join(_ATTACKS))],
    text: options.Words = None,
    file: options.File = None,
    as_json: options.AsJson = False,
) -> None:
    """Release a text and attack the release: how much is recovered, and what that rests on.

    Each line is a text of its own. `bayes` without a text is exact, for any text.
    """
    require("an attack", [name], _ATTACKS)
    with working("loading the library"):
        from dp_middleware.lab import evaluation
        from dp_middleware.lab.evaluation.measures import TOP

    if name == "bayes":  # exact, for tokens uniform over the vocabulary
        sanitizer = settings.uncharged().sanitizer()
        with working("attacking every row"):
            result = dp.attacks.bayes(sanitizer.mechanism, sanitizer.space, top=TOP)
    else:
        lines = [line for line in read_text(text, file).splitlines() if line.strip()]
        if not lines:
            raise ParameterError("expected a text to attack, got an empty one")
        sanitizer = settings.sanitizer()
        with working(f"releasing and attacking with {name}"):
            result = evaluation.attack(name, lines, sanitizer)
    certificate = sanitizer.certificate
    if as_json:
        show.data({**asdict(result), "certificate": certificate.to_dict()})
        return
    law = show.certified(certificate, sanitizer.mechanism, settings.asked)
    show.pairs(Console(), *show.listed(asdict(result)), *law)
