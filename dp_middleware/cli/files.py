"""``dp-middleware sanitize-file`` and ``restore-file``: columns of a file, there and back."""

from __future__ import annotations

import re
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import announced, working
from dp_middleware.cli.pseudonymize import UNREADABLE, law_of, opened, reopened
from dp_middleware.cli.settings import PrivacyOptions, require, with_settings
from dp_middleware.errors import ParameterError, withheld

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
            help="Replace names, contacts and the like instead; `restore-file` puts them back.",
        ),
    ] = False,
    mapping: options.Mapping = None,
    key: options.Key = None,
    keyed: options.Keyed = False,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGEX=KIND",
            help=r"Of pseudonyms: always replace this, as 'ORD-\d+=id'; repeatable.",
        ),
    ] = None,
    rows_apart: Annotated[
        bool,
        typer.Option(
            "--keep-rows-apart",
            help="Each row has pseudonyms of its own, which nobody can turn back.",
        ),
    ] = False,
    on_language: options.OnLanguage = "refuse",
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Names each row; default: its number.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Says whose budget a row is charged to.")
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
    settings, names = replace(settings, subject=charged_to), _named(column, columns, source)
    releaser: Any = None
    if pseudonyms:
        require("what --on-language does", [on_language], options.ON_LANGUAGE)
        terms = {"on_language": on_language, **law_of(key, keyed)}
        sanitizer: Any = _pseudonyms(settings, pattern or [], **terms)
        if not (rows_apart or dry_run):
            releaser = opened(sanitizer, mapping or _beside(target), key)
    elif pattern or mapping or key or keyed or rows_apart:
        raise ParameterError(
            "expected --pseudonyms with --pattern, --mapping, --key, --keyed or rows apart"
        )
    else:
        sanitizer = settings.sanitizer()
    console = Console(stderr=True)
    columns_of_bar = (*Progress.get_default_columns(), MofNCompleteColumn())
    bar = Progress(*columns_of_bar, console=console, disable=not sys.stderr.isatty())
    with bar, announced("checking and releasing"):
        task = bar.add_task("releasing", total=None)
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
    unit = show.UNITS[sanitizer.certificate.unit]
    asked = "" if pseudonyms else f"; {settings.asked}"
    show.pairs(
        console,
        ("epsilon", f"{show.nats(sanitizer.certificate.epsilon)} per {unit}{asked}"),
        *_rows(report, "at most" if dry_run else "in all"),
        *(show.standing(sanitizer) if subject is None and not dry_run else []),
    )


def restore_file(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="What `sanitize-file --pseudonyms` wrote.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="Private, of the same kind; not there yet.")
    ],
    column: options.Column = None,
    columns: options.Columns = None,
    mapping: options.Mapping = None,
    key: options.Key = None,
    payer: options.Payer = None,
) -> None:
    """Put the originals back into a file with pseudonyms."""
    from dp_middleware import corpora

    with working("restoring"), withheld(UNREADABLE, sqlite3.Error):
        session = reopened(mapping or _beside(source), key, payer or options.DEFAULT_SUBJECT)
        names = list(_named(column, columns, source))
        changed = corpora.restore_file(source, target, names, session)
    typer.echo(f"{changed} texts restored", err=True)


def _named(column: list[str] | None, columns: str | None, source: Path) -> dict[str, str | None]:
    asked = [*(column or ()), *filter(None, (columns or "").split(","))]
    if not asked and source.suffix.lower() == ".txt":
        asked = ["text"]
    pairs = [name.rpartition("=") if "=" in name else (name, "", None) for name in asked]
    if len(pairs) > len({name for name, _, _ in pairs}):
        raise ParameterError("expected each column once")
    return {name: kind for name, _, kind in pairs}


def _pseudonyms(settings: PrivacyOptions, patterns: list[str], **terms: Any) -> dp.Pseudonyms:
    charged = (settings.ledger, settings.budget, settings.subject)
    if settings.uncharged() != PrivacyOptions() or settings.metric_budget is not None:
        raise ParameterError("expected no --epsilon, and nothing about draws, with --pseudonyms")
    also: dict[Any, str] = {}
    for regex, _, kind in (each.rpartition("=") for each in patterns):
        failed = r"expected --pattern as a regular expression and a kind, 'ORD-\d+=id', got {}"
        with withheld(failed, re.error):
            also[re.compile(regex)] = kind
        if not (regex and kind):
            raise ParameterError(failed.format("one of them"))
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


def _beside(file: Path) -> Path:
    """Where the mapping of a file with pseudonyms is, unless it is named."""
    return file.with_name(f"{file.name}.mapping")
