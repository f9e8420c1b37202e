"""``dp-middleware restore-file``: the originals back into a file with pseudonyms."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated

import typer

import dp_middleware as dp
from dp_middleware.cli import options
from dp_middleware.cli.progress import working
from dp_middleware.cli.pseudonymize import UNREADABLE, mapping_beside, opened
from dp_middleware.cli.sanitize_file import named
from dp_middleware.errors import ParameterError, withheld


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

    kept = mapping_beside(source, mapping)
    if not kept.exists():
        raise ParameterError("expected a file with --mapping that sanitize-file wrote, got none")
    with working("restoring"), withheld(UNREADABLE, sqlite3.Error):
        pseudonyms = dp.Pseudonyms(lambda _: [], subject=payer or options.DEFAULT_SUBJECT)
        session = opened(pseudonyms, kept, key)
        names = list(named(column, columns, source))
        changed = corpora.restore_file(source, target, names, session)
    typer.echo(f"{changed} texts restored", err=True)
