"""``dp-middleware sanitize-file`` and ``restore-file``: columns of a file, there and back."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from typer import Argument, Option

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import working
from dp_middleware.cli.options import Text, Texts
from dp_middleware.cli.pseudonymize import law_of, opened, readable_mapping, reopened
from dp_middleware.errors import ParameterError, withheld


@options.with_settings
def sanitize_file(
    settings: options.PrivacyOptions,
    source: Annotated[Path, Argument(metavar="IN", help="CSV, TSV, JSONL, Parquet or text.")],
    target: Annotated[Path, Argument(metavar="OUT", help="Of the same kind; not there yet.")],
    column: options.Column = None,
    pseudonyms: Annotated[bool, Option("--pseudonyms", help="Replace names and the like.")] = False,
    mapping: options.Mapping = None,
    key: options.Key = None,
    keyed: options.Keyed = False,
    pattern: Annotated[
        Texts,
        Option(metavar="REGEX=KIND", help=r"Always replace this, as 'ORD-\d+=id'; repeatable."),
    ] = None,
    rows_apart: Annotated[
        bool, Option("--keep-rows-apart", help="Each row has its own, which nobody turns back.")
    ] = False,
    on_language: options.OnLanguage = "refuse",
    workers: Annotated[int, Option(help="Processes.")] = 1,
    id: Annotated[Text, Option(metavar="COLUMN", help="Names rows; default: numbers.")] = None,
    subject: Annotated[Text, Option(metavar="COLUMN", help="Says who pays for a row.")] = None,
    payer: options.Payer = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Check, and tell the charge.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Release columns of a file; the same command again goes on where a run was stopped.

    With --pseudonyms a value has one pseudonym in all rows.
    """
    from dp_middleware import corpora

    charged_to = options.DEFAULT_SUBJECT if payer is None and subject is not None else payer
    settings, names = replace(settings, subject=charged_to), _named(column, source)
    sanitizer: Any
    session = None
    if pseudonyms:
        sanitizer = _pseudonyms(settings, pattern or [], law_of(key, keyed, on_language))
        if not (rows_apart or dry_run):
            session = opened(sanitizer, mapping or _beside(target), key)
    elif pattern or mapping or key or keyed or rows_apart:
        raise ParameterError("expected --pseudonyms with --pattern, --mapping, --key or --keyed")
    else:
        sanitizer = settings.sanitizer()
    console = Console(stderr=True)
    columns_of_bar = (*Progress.get_default_columns(), MofNCompleteColumn())
    bar = Progress(*columns_of_bar, console=console, disable=not sys.stderr.isatty())
    with bar, working("checking and releasing", has_bar=True):
        task = bar.add_task("releasing", total=None)
        report = corpora.sanitize_file(
            source,
            target,
            names if pseudonyms else list(names),
            sanitizer if session is None else session,
            workers=workers,
            id=id,
            subject=subject,
            dry_run=dry_run,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        asked = {} if pseudonyms else {"asked": settings.asked_data}
        show.data({**report.to_dict(), **asked, "dry_run": dry_run})
        return
    certificate = sanitizer.certificate
    epsilon = f"{show.nats(certificate.epsilon)} per {show.UNITS[certificate.unit]}"
    charged = "charged" if report.subjects else "a ledger would be charged"
    cost = f"{charged} {show.nats(report.epsilon)} nats {'at most' if dry_run else 'in all'}"
    show.pairs(
        console,
        ("epsilon", epsilon if pseudonyms else f"{epsilon}; {settings.asked}"),
        *show.listed(report.to_dict() | {"epsilon": None, "cost": cost}),
        *(show.standing(sanitizer) if subject is None and not dry_run else []),
    )


def restore_file(
    source: Annotated[Path, Argument(metavar="IN", help="From `sanitize-file --pseudonyms`.")],
    target: Annotated[Path, Argument(metavar="OUT", help="Private; not there yet.")],
    column: options.Column = None,
    mapping: options.Mapping = None,
    key: options.Key = None,
    payer: options.Payer = None,
) -> None:
    """Put the originals back into a file with pseudonyms."""
    from dp_middleware import corpora

    with working("restoring"), readable_mapping():
        session = reopened(mapping or _beside(source), key, payer or options.DEFAULT_SUBJECT)
        names = list(_named(column, source))
        changed = corpora.restore_file(source, target, names, session)
    typer.echo(f"{changed} texts restored", err=True)


def _named(column: list[str] | None, source: Path) -> dict[str, str | None]:
    asked = column or ["text"] * (source.suffix.lower() == ".txt")
    pairs = [name.rpartition("=") if "=" in name else (name, "", None) for name in asked]
    if len(pairs) > len({name for name, _, _ in pairs}):
        raise ParameterError("expected each column once")
    return {name: kind for name, _, kind in pairs}


def _pseudonyms(
    settings: options.PrivacyOptions, patterns: list[str], terms: dict[str, Any]
) -> dp.Pseudonyms:
    if settings.uncharged() != options.PrivacyOptions() or settings.metric_budget is not None:
        raise ParameterError("expected no --epsilon, and nothing about draws, with --pseudonyms")
    also: dict[Any, str] = {}
    for regex, _, kind in (each.rpartition("=") for each in patterns):
        failed = r"expected --pattern as a regular expression and a kind, 'ORD-\d+=id', got {}"
        with withheld(failed, re.error):
            also[re.compile(regex)] = kind
        if not (regex and kind):
            raise ParameterError(failed.format("one of them"))
    if settings != settings.uncharged():
        terms["ledger"] = show.open_ledger(settings.ledger, settings.budget)
    subject = settings.subject or options.DEFAULT_SUBJECT
    with working("loading lists and models"):
        return dp.Pseudonyms(on_empty="pass", also=also, subject=subject, **terms)


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.mapping")
