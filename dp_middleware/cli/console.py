"""What comes in as a text, and what a person sees while something long runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import typer
from rich.console import Console

from dp_middleware._waits import in_time
from dp_middleware.errors import ParameterError, withheld


def read_text(words: list[str] | None, file: Path | None) -> str:
    """Reads the text of a command: its words, a file (``-``: standard input) or standard input.

    ParameterError, which never quotes the text: two sources, none, unreadable, or not UTF-8.
    """
    if words and file is not None:
        raise ParameterError("expected one source of text, got arguments and --file")
    if file is not None and str(file) != "-":
        with withheld("expected a readable file with --file, got {}", OSError):
            data = file.read_bytes()
    elif words and words != ["-"]:
        data = " ".join(words).encode("utf-8", "surrogateescape")
    elif not words and file is None and sys.stdin.isatty():
        raise ParameterError("expected a text as argument, with --file or on standard input")
    else:
        data = typer.get_binary_stream("stdin").read()
    with withheld("expected a text in UTF-8, got {}", UnicodeDecodeError):
        return data.decode("utf-8-sig")


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on a terminal, elsewhere :func:`announced`."""
    terminal = sys.stderr.isatty()
    with Console(stderr=True).status(f"{what} ...") if terminal else nullcontext(), announced(what):
        yield


@contextmanager
def announced(what: str) -> Iterator[None]:
    """One plain line if this takes long; none on a terminal, for what shows a bar there."""
    say = lambda: typer.echo(f"{what} ...", err=True)  # noqa: E731
    with nullcontext() if sys.stderr.isatty() else in_time(say):
        yield
