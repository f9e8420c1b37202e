"""``dp-middleware sanitize-file``: columns of a file released, everything else as it was."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

from dp_middleware.cli import options, show
from dp_middleware.cli.progress import announced
from dp_middleware.cli.settings import PrivacyOptions, with_settings

if TYPE_CHECKING:
    from dp_middleware.corpora import Report


@with_settings
def sanitize_file(
    settings: PrivacyOptions,
    source: Annotated[Path, typer.Argument(metavar="IN", help="CSV, TSV, JSONL, Parquet or text.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Of the same kind; not there yet.")],
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", metavar="NAME", help="Release this column; repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes.")] = 1,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Names each row; default: its number."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option("--subject", metavar="COLUMN", help="Says whose budget a row is charged to."),
    ] = None,
    payer: Annotated[
        str | None,
        typer.Option(
            "--payer",
            metavar="NAME",
            help="Without --subject, whose budget all rows are charged to; default: "
            f"'{options.DEFAULT_SUBJECT}'.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file and tell what would be charged.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Release columns of a file; the same command again goes on where a run was stopped."""
    from dp_middleware import corpora

    charged_to = options.DEFAULT_SUBJECT if payer is None and subject is not None else payer
    sanitizer = replace(settings, subject=charged_to).sanitizer()
    columns = column or (["text"] if source.suffix.lower() == ".txt" else [])
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
            columns,
            sanitizer,
            workers=workers,
            id=id,
            subject=subject,
            dry_run=dry_run,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        show.data({**report.to_dict(), "asked": settings.asked_data, "dry_run": dry_run})
        return
    unit = show.UNITS[sanitizer.certificate.unit]
    show.pairs(
        Console(stderr=True),
        ("epsilon", f"{show.nats(sanitizer.certificate.epsilon)} per {unit}; {settings.asked}"),
        *_rows(report, "at most" if dry_run else "in all"),
        *(show.standing(sanitizer) if subject is None and not dry_run else []),
    )


def _rows(report: Report, words: str) -> list[tuple[str, str]]:
    nats = f"{show.nats(report.epsilon)} nats {words}"
    if report.subjects > 1:
        most = show.nats(report.epsilon_per_subject)
        nats += f", {most} of the subject that pays most of {report.subjects}"
    again = f", at most {report.charged_again} charged again" if report.charged_again else ""
    tokens = f", {report.tokens} tokens" if report.tokens else ""
    return [
        ("rows", str(report.rows)),
        ("texts", f"{report.texts}{tokens}"),
        ("cost", nats if report.subjects else f"{nats}; no ledger is charged"),
        ("chunks", f"{report.chunks}, {report.resumed} from an earlier run{again}"),
    ]
