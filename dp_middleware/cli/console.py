"""Texts that come in, what a person sees meanwhile, and errors as one line, with exit codes."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
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


UNEXPECTED, USAGE, REFUSED, CHAT, MISSING = 1, 2, 3, 4, 5

_CODES: list[tuple[int, tuple[type[Exception], ...]]] = [
    (REFUSED, (errors.NothingFound, errors.UnknownLanguage)),  # before what they are cases of
    (USAGE, (errors.ParameterError, errors.UnknownTokenError)),
    (REFUSED, (errors.InfiniteEpsilon, errors.CannotCalibrate, errors.IncompatibleGuarantees)),
    (REFUSED, (errors.BudgetExhausted, errors.LedgerError)),
    (REFUSED, (errors.UntrustedHost, errors.EventRefused)),
    (CHAT, (errors.ChatError, errors.EmbeddingError)),
    (MISSING, (errors.MissingExtra,)),
]
_OPTIONS: dict[type[Exception], str] = {
    errors.InfiniteEpsilon: "--within-classes, or --nominal --accept-infinite",
    errors.CannotCalibrate: "another --mechanism, or --within-classes",
    errors.UntrustedHost: "--trusted-host",
    errors.BudgetExhausted: "a smaller --epsilon or --perturb",
    errors.NothingFound: "--pass-empty",
    errors.UnknownLanguage: "--on-language pass",
}


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
        if args[0] not in self.commands:
            ctx.fail(expected("a command", args[0], self.commands))
        return super().resolve_command(ctx, args)


def expected(what: str, typed: str, names: Iterable[str]) -> str:
    """Says that a word is none of our names; it may be a text, so it is not repeated."""
    nearest = get_close_matches(typed, names, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"expected {what}, one of {', '.join(names)}{hint}"


def _fail(error: Exception, *, as_json: bool) -> int:
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        sys.stdout = None  # the reader has left: nothing is flushed at exit
        return UNEXPECTED
    if isinstance(error, ModuleNotFoundError) and not isinstance(error, errors.MissingExtra):
        error = errors.MissingExtra(str(error.name).partition(".")[0], "models")
    code = next((code for code, kinds in _CODES if isinstance(error, kinds)), UNEXPECTED)
    code, message = USAGE if _from_parser(error) else code, " ".join(_message(error).split())
    if as_json:
        failure = {"type": type(error).__name__, "message": message, "exit_code": code}
        typer.echo(json.dumps({"error": failure}))
    typer.echo(f"error: {message}", err=True)
    return code


def _message(error: Any) -> str:
    if isinstance(error, errors.DPMiddlewareError):
        options = [text for kind, text in _OPTIONS.items() if isinstance(error, kind)]
        return "; on the command line: ".join([str(error), *options])
    kind = type(error).__name__
    if kind == "NoSuchOption":  # what was typed may be a text
        hint = (
            f"did you mean {' or '.join(near)}?" if (near := error.possibilities) else "see --help."
        )
        return f"no such option; {hint} A text that begins with a dash goes after --"
    if kind == "BadParameter":  # its own message repeats the value
        names = getattr(error.param, "opts", None) or ["an option"]
        return f"invalid value for {names[-1]}; see --help"
    if kind == "UsageError" and "extra argument" in str(error):
        return "too many arguments; see --help"
    if _from_parser(error):
        return str(error.format_message())
    if isinstance(error, typer.Abort):
        return "interrupted"
    return f"unexpected {kind}; its message is withheld, it may quote the text"


def _from_parser(error: Exception) -> bool:
    """Typer carries its own copy of click in some releases: known by its method, not its type."""
    return hasattr(error, "format_message")


def _wants_json(*args: Any, **extra: Any) -> bool:
    typed = args[0] if args else extra.get("args")
    words = list(typed) if typed is not None else sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)
