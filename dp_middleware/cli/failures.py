"""Exit codes, and errors as one line without a traceback or private text."""

from __future__ import annotations

import errno
import json
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from dp_middleware import errors

UNEXPECTED, USAGE, REFUSED, CHAT, MISSING = 1, 2, 3, 4, 5

_CODES: dict[type[Exception], int] = {
    errors.ParameterError: USAGE,
    errors.UnknownTokenError: USAGE,
    errors.InfiniteEpsilon: REFUSED,
    errors.CannotCalibrate: REFUSED,
    errors.UntrustedHost: REFUSED,
    errors.BudgetExhausted: REFUSED,
    errors.EventRefused: REFUSED,
    errors.IncompatibleGuarantees: REFUSED,
    errors.LedgerError: REFUSED,
    errors.ChatError: CHAT,
    errors.EmbeddingError: CHAT,
    errors.MissingExtra: MISSING,
}
_OPTIONS: dict[type[Exception], str] = {
    errors.InfiniteEpsilon: "on the command line: --within-classes, or --nominal --accept-infinite",
    errors.CannotCalibrate: "on the command line: another --mechanism, or --within-classes",
    errors.UntrustedHost: "on the command line: --trusted-host",
    errors.BudgetExhausted: "on the command line: a smaller --epsilon",
}


class Commands(TyperGroup):
    """Runs a command; whatever it raises becomes one line and an exit code.

    A message is printed only if it is ours, or the parser's about an option's value: anything
    else may quote the text.
    """

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run; in standalone mode end the process with an exit code."""
        if not extra.get("standalone_mode", True):
            return super().main(*args, **extra)
        code: object = UNEXPECTED
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except Exception as error:
            code = _fail(error, as_json=_wants_json(*args, **extra))
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command named first; a text in its place is not repeated."""
        if args[0] not in self.commands:
            ctx.fail(f"expected a command: one of {', '.join(self.commands)}")
        return super().resolve_command(ctx, args)


def _fail(error: Exception, *, as_json: bool) -> int:
    """Report an error; the exit code that it stands for."""
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        sys.stdout = None  # the reader has left: nothing is flushed at exit
        return UNEXPECTED
    code, message = _code(error), _message(error)
    if as_json:
        failure = {"type": type(error).__name__, "message": message, "exit_code": code}
        typer.echo(json.dumps({"error": failure}))
    typer.echo(f"error: {message}", err=True)
    return code


def _code(error: Exception) -> int:
    if _from_parser(error):
        return USAGE
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), UNEXPECTED)


def _message(error: Exception) -> str:
    """What may be shown of an error, on one line."""
    if isinstance(error, errors.DPMiddlewareError):
        options = next((text for kind, text in _OPTIONS.items() if isinstance(error, kind)), "")
        return " ".join(f"{error}{'; ' if options else ''}{options}".split())
    if type(error).__name__ == "NoSuchOption":
        near = " or ".join(sorted(getattr(error, "possibilities", None) or ()))
        hint = f"did you mean {near}? " if near else "see --help. "
        return f"no such option; {hint}A text that begins with a dash goes after --"
    if type(error).__name__ == "BadParameter":  # its own message repeats the value
        name = getattr(getattr(error, "param", None), "opts", None) or ["an option"]
        return f"invalid value for {name[-1]}; see --help"
    if type(error).__name__ == "UsageError" and "extra argument" in str(error):
        return "too many arguments; see --help"
    if _from_parser(error):
        return " ".join(error.format_message().split())  # type: ignore[attr-defined]
    if isinstance(error, typer.Abort):
        return "interrupted"
    return f"unexpected {type(error).__name__}; its message is withheld, it may quote the text"


def _from_parser(error: Exception) -> bool:
    """Typer carries its own copy of click in some releases: known by its method, not its type."""
    return hasattr(error, "format_message")


def _wants_json(*args: Any, **extra: Any) -> bool:
    given = args[0] if args else extra.get("args")
    words = list(given) if given is not None else sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)
