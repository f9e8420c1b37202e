"""``dp-middleware sanitize-file``: columns of a file released, everything else as it was."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.progress import announced, working
from dp_middleware.cli.pseudonymize import law_of, mapping_beside, opened
from dp_middleware.cli.settings import PrivacyOptions, with_settings
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.corpora import Report


@with_settings
def sanitize_file(
    settings: PrivacyOptions,
    source: Annotated[Path, typer.Argument(metavar="IN", help="CSV, TSV, JSONL, Parquet or text.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Of the same kind; not there yet.")],
    column: options.Column = None,
    columns: options.Columns = None,
    pseudonyms: Annotated[
        bool,
        typer.Option(
            "--pseudonyms",
            help="Replace names, contacts and the like instead, the same in all rows; "
            "`restore-file` puts the originals back.",
        ),
    ] = False,
    mapping: options.Mapping = None,
    key: options.Key = None,
    keyed: options.Keyed = False,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern",
            metavar="REGEX=KIND",
            help=r"Of pseudonyms: always replace this, as 'ORD-\d+=id'; repeatable.",
        ),
    ] = None,
    rows_apart: Annotated[
        bool,
        typer.Option(
            "--keep-rows-apart",
            help="Of pseudonyms: each row has its own, and nobody can put originals back.",
        ),
    ] = False,
    on_language: options.OnLanguage = options.OnLanguageName.refuse,
    workers: Annotated[int, typer.Option("--workers", help="Processes.")] = 1,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Names each row; default: its number."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option("--subject", metavar="COLUMN", help="Says whose budget a row is charged to."),
    ] = None,
    payer: options.Payer = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file and tell what would be charged.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Release columns of a file; the same command again goes on where a run was stopped.

    With --pseudonyms a value has one pseudonym in all rows.
    """
    from dp_middleware import corpora

    charged_to = options.DEFAULT_SUBJECT if payer is None and subject is not None else payer
    settings, names = replace(settings, subject=charged_to), named(column, columns, source)
    releaser: Any = None
    if pseudonyms:
        sanitizer: Any = _pseudonyms(
            settings, pattern, on_language=on_language.value, **law_of(key, keyed)
        )
        if not (rows_apart or dry_run):
            releaser = opened(sanitizer, mapping_beside(target, mapping), key)
    elif pattern or mapping or key or keyed or rows_apart:
        raise ParameterError(
            "expected --pseudonyms with --pattern, --mapping, --key, --keyed or rows apart"
        )
    else:
        sanitizer = settings.sanitizer()
    bar = Progress(
        TextColumn("releasing"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    with bar, announced("checking and releasing"):
        task = bar.add_task("", total=None)
        report = corpora.sanitize_file(
            source,
            target,
            names if pseudonyms else list(names),
            releaser or sanitizer,
            workers=workers,
            id=id,
            subject=subject,
            dry_run=dry_run,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        asked_for = {} if pseudonyms else {"asked": settings.asked_data}
        show.data({**report.to_dict(), **asked_for, "dry_run": dry_run})
        return
    asked = "" if pseudonyms else f"; {settings.asked}"
    unit = show.UNITS[sanitizer.certificate.unit]
    show.pairs(
        Console(stderr=True),
        ("epsilon", f"{show.nats(sanitizer.certificate.epsilon)} per {unit}" + asked),
        *_rows(report, "at most" if dry_run else "in all"),
        *(show.standing(sanitizer) if subject is None and not dry_run else []),
    )


def named(column: list[str] | None, columns: str | None, source: Path) -> dict[str, str | None]:
    """The columns that are asked for, with their kinds."""
    asked = [*(column or ()), *filter(None, (columns or "").split(","))]
    if not asked and source.suffix.lower() == ".txt":
        asked = ["text"]
    pairs = [name.rpartition("=") if "=" in name else (name, "", None) for name in asked]
    if len(pairs) > len({name for name, _, _ in pairs}):
        raise ParameterError("expected each column once")
    return {name: kind for name, _, kind in pairs}


def _pseudonyms(
    settings: PrivacyOptions, patterns: list[str] | None, **terms: Any
) -> dp.Pseudonyms:
    charged = (settings.ledger, settings.budget, settings.subject)
    if replace(settings.uncharged(), metric_budget=None) != PrivacyOptions():
        raise ParameterError("expected no --epsilon, and nothing about draws, with --pseudonyms")
    also: dict[Any, str] = {}
    for regex, _, kind in (each.rpartition("=") for each in patterns or ()):
        with suppress(re.error):
            also[re.compile(regex)] = kind
    if len(also) < len(patterns or ()) or not all(each.pattern and also[each] for each in also):
        raise ParameterError(r"expected --pattern as a regular expression and a kind: 'ORD-\d+=id'")
    terms["subject"] = settings.subject or options.DEFAULT_SUBJECT
    if charged != (None, None, None):
        terms["ledger"] = show.open_ledger(settings.ledger, settings.budget)
    with working("loading lists and models"):
        return dp.Pseudonyms(on_empty="pass", also=also, **terms)


def _rows(report: Report, words: str) -> list[tuple[str, str]]:
    charged = "charged" if report.subjects else "a ledger would be charged"
    nats = f"{charged} {show.nats(report.epsilon)} nats {words}"
    if report.subjects > 1:
        most = show.nats(report.epsilon_per_subject)
        nats += f", {most} to the subject that pays most of {report.subjects}"
    tokens = f", {report.tokens} tokens" if report.tokens else ""
    return [
        ("rows", str(report.rows)),
        ("texts", f"{report.texts}{tokens}"),
        *(
            (what, ", ".join(f"{n} {name}" for name, n in counts.items()) or "nothing")
            for what, counts in (("replaced", report.replaced), ("as they were", report.unchanged))
            if counts
        ),
        ("cost", nats),
        ("chunks", f"{report.chunks}, {report.resumed} from an earlier run"),
    ]
