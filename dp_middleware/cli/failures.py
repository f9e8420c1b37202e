"""Exit codes, and errors as one line without a traceback or private text."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

from dp_middleware import errors
from dp_middleware.cli.options import CHOICES

UNEXPECTED, USAGE, REFUSED, CHAT, MISSING = 1, 2, 3, 4, 5

_CODES: dict[type[Exception], int] = {
    errors.NothingFound: REFUSED,  # before what it is a case of
    errors.UnknownLanguage: REFUSED,
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
_SLIP = 1  # signs more or fewer than an option has; a text would have more

_OPTIONS: dict[type[Exception], str] = {
    errors.InfiniteEpsilon: "on the command line: --within-classes, or --nominal --accept-infinite",
    errors.CannotCalibrate: "on the command line: another --mechanism, or --within-classes",
    errors.UntrustedHost: "on the command line: --trusted-host",
    errors.BudgetExhausted: "on the command line: a smaller --epsilon or --perturb",
    errors.NothingFound: "on the command line: --pass-empty",
    errors.UnknownLanguage: "on the command line: --on-language pass",
}


class Commands(TyperGroup):
    """Runs a command; whatever it raises becomes one line and an exit code.

    A message is printed only if it is ours, or the parser's about an option's value: anything
    else may quote the text.
    """

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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Fails without a command, as a command fails without what it needs."""
        if not args and not self.invoke_without_command:
            ctx.fail(expected("a command", "", self.commands))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command named first; a text in its place is not repeated."""
        if args[0] not in self.commands:
            ctx.fail(expected("a command", args[0], self.commands))
        return super().resolve_command(ctx, args)


def expected(what: str, typed: str, names: Iterable[str]) -> str:
    """The error about a word that is none of our names; it may be a text, so it is not repeated."""
    nearest = get_close_matches(typed, names, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"expected {what}, one of {', '.join(names)}{hint}"


def _fail(error: Exception, *, as_json: bool) -> int:
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        sys.stdout = None  # the reader has left: nothing is flushed at exit
        return UNEXPECTED
    if isinstance(error, ModuleNotFoundError) and not isinstance(error, errors.MissingExtra):
        error = errors.MissingExtra(str(error.name).partition(".")[0], "models")
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), UNEXPECTED)
    code, message = USAGE if _from_parser(error) else code, _message(error)
    if as_json:
        failure = {"type": type(error).__name__, "message": message, "exit_code": code}
        typer.echo(json.dumps({"error": failure}))
    typer.echo(f"error: {message}", err=True)
    return code


def _message(error: Exception) -> str:
    """What may be shown of an error, on one line."""
    if isinstance(error, errors.DPMiddlewareError):
        options = next((text for kind, text in _OPTIONS.items() if isinstance(error, kind)), "")
        return " ".join(f"{error}{'; ' if options else ''}{options}".split())
    if type(error).__name__ == "NoSuchOption":
        return _no_such_option(error)
    if type(error).__name__ == "BadParameter":  # its own message repeats the value
        parameter = getattr(error, "param", None)
        name = (getattr(parameter, "opts", None) or ["an option"])[-1]
        choices = CHOICES.get(name)
        hint = f"expected one of {', '.join(choices)}" if choices else "see --help"
        return f"invalid value for {name}; {hint}"
    if type(error).__name__ == "UsageError" and "extra argument" in str(error):
        return "too many arguments; see --help"
    if _from_parser(error):
        return " ".join(error.format_message().split())  # type: ignore[attr-defined]
    if isinstance(error, typer.Abort):
        return "interrupted"
    return f"unexpected {type(error).__name__}; its message is withheld, it may quote the text"


def _no_such_option(error: Any) -> str:
    """Names what was typed if it is one of our options, or a slip of one; else it may be a text."""
    ctx, typed, near = error.ctx, error.option_name, sorted(error.possibilities or ())
    command = f" of {ctx.command.name}" if ctx.parent else ""
    if elsewhere := [*_commands_with(typed, ctx.find_root().command)]:
        name, hint = f" {typed}", f"it is one of {', '.join(elsewhere)}."
    elif near:
        is_slip = min(abs(len(typed) - len(option)) for option in near) <= _SLIP
        name, hint = f" {typed}" * is_slip, f"did you mean {' or '.join(near)}?"
    else:
        own = [option.opts[0] for option in ctx.command.params if option.opts[0][:1] == "-"]
        name, hint = "", f"expected one of {', '.join([*own, '--help'])}."
    return f"no such option{name}{command}; {hint} A text that begins with a dash goes after --"


def _commands_with(option: str, group: Any) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        if any(option in parameter.opts for parameter in command.params):
            yield name
        yield from (f"{name} {inner}" for inner in _commands_with(option, command))


def _from_parser(error: Exception) -> bool:
    """Typer carries its own copy of click in some releases: known by its method, not its type."""
    return hasattr(error, "format_message")


def _wants_json(*args: Any, **extra: Any) -> bool:
    typed = args[0] if args else extra.get("args")
    words = list(typed) if typed is not None else sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)
