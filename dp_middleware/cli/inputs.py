"""Where a text comes from: arguments, a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

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
        return _decode(data, "--file")
    if words and words != ["-"]:
        return _decode(" ".join(words).encode("utf-8", "surrogateescape"), "the argument")
    if not words and file is None and sys.stdin.isatty():
        raise ParameterError("expected a text as argument, with --file or on standard input")
    return _decode(typer.get_binary_stream("stdin").read(), "standard input")


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = error.start
    raise ParameterError(f"expected UTF-8 from {source}, got an invalid byte at position {place}")
