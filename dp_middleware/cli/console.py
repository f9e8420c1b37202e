"""Texts that come in, what a person sees meanwhile, and errors as one line, with exit codes."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from dp_middleware import errors
from dp_middleware._waits import in_time
from dp_middleware.errors import ParameterError, withheld


def read_text(words: list[str] | None, file: Path | None) -> str:
    """Reads the text of a command: its words, a file (``-``: standard input) or standard input."""
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
def working(what: str, *, has_bar: bool = False) -> Iterator[None]:
    """Shows a spinner on a terminal that has no bar, elsewhere one plain line if it takes long."""
    meanwhile: AbstractContextManager[object]
    if not sys.stderr.isatty():
        meanwhile = in_time(lambda: typer.echo(f"{what} ...", err=True))
    else:
        meanwhile = nullcontext() if has_bar else Console(stderr=True).status(f"{what} ...")
    with meanwhile:
        yield


UNEXPECTED, USAGE, REFUSED, CHAT, MISSING = 1, 2, 3, 4, 5

_CODES: dict[type[BaseException], tuple[int, str]] = {
    Exception: (UNEXPECTED, ""),
    errors.ParameterError: (USAGE, ""),
    errors.UnknownTokenError: (USAGE, ""),
    errors.NothingFound: (REFUSED, "--pass-empty"),
    errors.UnknownLanguage: (REFUSED, "--on-language pass"),
    errors.InfiniteEpsilon: (REFUSED, "--within-classes, or --nominal --accept-infinite"),
    errors.CannotCalibrate: (REFUSED, "another --mechanism, or --within-classes"),
    errors.IncompatibleGuarantees: (REFUSED, ""),
    errors.BudgetExhausted: (REFUSED, "a smaller --epsilon or --perturb"),
    errors.LedgerError: (REFUSED, ""),
    errors.UntrustedHost: (REFUSED, "--trusted-host"),
    errors.EventRefused: (REFUSED, ""),
    errors.ChatError: (CHAT, ""),
    errors.EmbeddingError: (CHAT, ""),
    errors.MissingExtra: (MISSING, ""),
}
"""The exit code of an error and its heirs, and the options that help."""


class Commands(TyperGroup):
    """Runs a command; whatever it raises becomes one line and an exit code, and quotes no text."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Runs; in standalone mode ends the process with an exit code."""
        if not extra.get("standalone_mode", True):
            return super().main(*args, **extra)
        code: object = UNEXPECTED
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except Exception as error:
            code = _fail(error, as_json=_wants_json(*args, **extra))
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command named first; a text in its place is not repeated."""
        require("a command", args[:1], self.commands)
        return super().resolve_command(ctx, args)


def require(what: str, typed: Iterable[str], names: Iterable[str]) -> None:
    """Refuses a word that is none of our names; it may be a text, so it is not repeated."""
    for word in typed:
        if word not in names:
            nearest = get_close_matches(word, names, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ParameterError(f"expected {what}, one of {', '.join(names)}{hint}")


def _fail(error: Exception, *, as_json: bool) -> int:
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        sys.stdout = None  # the reader has left: nothing is flushed at exit
        return UNEXPECTED
    if isinstance(error, ModuleNotFoundError) and not isinstance(error, errors.MissingExtra):
        error = errors.MissingExtra(str(error.name).partition(".")[0], "models")
    # Typer carries its own copy of click in some releases: known by its method, not its type
    if hasattr(error, "format_message"):
        code, message = USAGE, _parser_message(error)
    else:
        code, options = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
        message = f"{error}; on the command line: {options}" if options else str(error)
        if isinstance(error, typer.Abort):
            message = "interrupted"
        elif not isinstance(error, errors.DPMiddlewareError):
            name = type(error).__name__
            message = f"unexpected {name}; its message is withheld, it may quote the text"
    message = " ".join(message.split())
    if as_json:
        failure = {"type": type(error).__name__, "message": message, "exit_code": code}
        typer.echo(json.dumps({"error": failure}))
    typer.echo(f"error: {message}", err=True)
    return code


def _parser_message(error: Any) -> str:
    """What was typed may be a text, so it is not repeated."""
    kind = type(error).__name__
    if kind == "NoSuchOption":
        near = error.possibilities
        hint = f"did you mean {' or '.join(near)}?" if near else "see --help."
        return f"no such option; {hint} A text that begins with a dash goes after --"
    if kind == "BadParameter":
        names = getattr(error.param, "opts", None) or ["an option"]
        return f"invalid value for {names[-1]}; see --help"
    if kind == "UsageError" and "extra argument" in str(error):
        return "too many arguments; see --help"
    return str(error.format_message())


def _wants_json(*args: Any, **extra: Any) -> bool:
    typed = args[0] if args else extra.get("args")
    words = list(typed) if typed is not None else sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)
