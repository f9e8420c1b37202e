"""What a person sees on standard error while something long runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import typer
from rich.console import Console

from dp_middleware._waits import in_time


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on a terminal, elsewhere :func:`announced`."""
    terminal = sys.stderr.isatty()
    with Console(stderr=True).status(f"{what} ...") if terminal else nullcontext(), announced(what):
        yield


@contextmanager
def announced(what: str) -> Iterator[None]:
    """One plain line if this takes long; none on a terminal, for what shows a bar there."""
    if sys.stderr.isatty():
        yield
        return
    with in_time(lambda: typer.echo(f"{what} ...", err=True)):
        yield
