"""Every exception the library raises. No message ever holds private text, tokens or ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class DPMiddlewareError(Exception):
    """Stands above all errors of this library."""


class ParameterError(DPMiddlewareError, ValueError):
    """Says of a public parameter what was expected, what was seen and what to do."""


class NotPrepared(ParameterError):
    """Says that a call asked for an epsilon that takes a search, for which none should wait."""


class NothingFound(ParameterError):
    """Says that a detector found nothing private in a text that would then go out as it is."""


class UnknownLanguage(ParameterError):
    """Refuses a text in a language in which the detector finds few names, which would go out."""


class UnknownTokenError(DPMiddlewareError, ValueError):
    """Says where a text has a token outside the vocabulary, under ``unknown="raise"``."""


class CannotCalibrate(DPMiddlewareError, ValueError):
    """Says that no parameter of the mechanism reaches the epsilon asked for."""


class InfiniteEpsilon(DPMiddlewareError, ValueError):
    """Refuses a sanitizer on a mechanism whose certified epsilon is infinite."""


class IncompatibleGuarantees(DPMiddlewareError, TypeError):
    """Guarantees of different kinds were added; their epsilons have different units."""


class BudgetExhausted(DPMiddlewareError, RuntimeError):
    """Says that a charge would exceed the budget; nothing was drawn and nothing was sent."""


class LedgerError(DPMiddlewareError, RuntimeError):
    """Says that the ledger cannot be read or written, or is another; nothing was released."""


class EventRefused(DPMiddlewareError, RuntimeError):
    """Refuses an event of a session; nothing was charged, drawn or sent for it."""


class UnknownAnswer(EventRefused):
    """Refuses an assistant's message that the session does not know as a remote model's."""


class ChatError(DPMiddlewareError, RuntimeError):
    """Says how a chat model failed, by the kind of failure only: a vendor may quote the prompt."""


class RemoteError(ChatError):
    """Says that the remote chat model failed. The budget spent on the release stays spent."""


class ExtractorError(ChatError):
    """Says that the local extraction model failed; the remote answer is not affected."""


class EmbeddingError(DPMiddlewareError, RuntimeError):
    """Says how an embedding model failed, by the kind of failure only: it may quote texts."""


class UntrustedHost(DPMiddlewareError, ValueError):
    """Refuses a model for raw text that is not in process, on loopback or on a trusted host."""


class MissingExtra(DPMiddlewareError, ImportError):
    """Names the extra that installs an optional dependency which is missing.

    The distribution is in no index, so that a name alone would install nothing, or a stranger's.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; it is in the extra {extra} of dp-middleware: run "
            f"pip install '.[{extra}]' in a clone, or pip install 'WHEEL[{extra}]' with the path "
            "of its wheel"
        )


@contextmanager
def needs(extra: str, package: str = "") -> Iterator[None]:
    """Raises ``MissingExtra`` for a package that this block imports and which is not there.

    ``extra`` is of this distribution, several separated by commas; ``package`` what it is installed
    as, where that is not what it is imported as.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "a package").partition(".")[0].replace("_", "-")
        raise MissingExtra(package or missing, extra) from None


def library(module: str, extra: str, package: str = "") -> Any:
    """Imports a module of an optional library; see :func:`needs`."""
    with needs(extra, package):
        return import_module(module)


@contextmanager
def withheld(expected: str, *kinds: type[Exception]) -> Iterator[None]:
    """Replaces an error that may quote private text by a ``ParameterError`` without it or a cause.

    Its message is ``expected``, with what the system says, or the kind, in the place of ``{}``.
    Other ``kinds`` of errors pass, default none; ours, which hold no text, pass unless
    ``Exception`` is named.
    """
    failure: ParameterError | None = None
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, DPMiddlewareError) and Exception not in kinds
        if is_ours or not isinstance(error, kinds or Exception):
            raise
        errno = getattr(error, "errno", None)
        reason = os.strerror(errno) if isinstance(errno, int) else type(error).__name__
        failure = ParameterError(expected.replace("{}", reason))
    raise_alone(failure)


def raise_alone(failure: Exception | None) -> None:
    """Raises it without the error that a ``with`` is leaving by, which Python makes its context."""
    if failure is not None:
        try:
            raise failure
        finally:
            failure.__context__ = None


def guarded(work: Callable[..., T], *args: Any, what: str = "the release") -> T:
    """Returns the result of a function that handles private text; errors of others by type only."""
    try:
        return work(*args)
    except Exception as error:
        textless = without_text(error, what)
    raise textless.with_traceback(None)


def without_text(
    error: Exception, what: str = "the release", then: str = "nothing was sent"
) -> DPMiddlewareError:
    """Returns what stands for an exception: what others raise may quote the text."""
    if not isinstance(error, DPMiddlewareError):
        return DPMiddlewareError(f"{what} failed with {type(error).__name__}; {then}")
    error.__cause__ = error.__context__ = None
    return error
