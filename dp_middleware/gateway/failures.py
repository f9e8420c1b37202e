"""What a client is told when something fails: OpenAI's form, and never a text of anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from dp_middleware import errors


class Failure(errors.DPMiddlewareError):
    """A refusal, in words of our own.

    Args:
        status: Of HTTP.
        message: What was expected and what to do; quotes nothing that a client or an upstream sent.
        code: For programs.
        param: The field, by its public name.
        kind: OpenAI's type of error.
        headers: Of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        *,
        param: str | None = None,
        kind: str = "invalid_request_error",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.param, self.kind, self.headers = param, kind, dict(headers or {})

    def body(self) -> dict[str, Any]:
        """As OpenAI spells it."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> JSONResponse:
        """What is sent."""
        return JSONResponse(self.body(), self.status, {"cache-control": "no-store", **self.headers})


NO_RETRY = {"x-should-retry": "false"}
"""Clients of OpenAI wait and try again after a 429, unless told not to."""


def unexpected(error: BaseException) -> Failure:
    """Of others' errors only the type is told: they may quote."""
    return Failure(
        500, f"the gateway failed with {type(error).__name__}", "internal", kind="server_error"
    )


def failure_of(error: Exception) -> Failure:
    """What stands for an exception."""
    if isinstance(error, Failure):
        return error
    if not isinstance(error, errors.DPMiddlewareError):
        return unexpected(error)
    message = str(error)  # the library's hold no private text
    if isinstance(error, errors.BudgetExhausted):
        kind = "insufficient_quota"
        return Failure(429, message, kind, kind=kind, headers=NO_RETRY)
    if isinstance(error, errors.UnknownAnswer):
        return Failure(400, _UNKNOWN_ANSWER, "unknown_answer", param="messages")
    if isinstance(error, errors.EventRefused | errors.ParameterError | errors.UnknownTokenError):
        return Failure(400, message, "not_released")
    if isinstance(error, errors.CannotCalibrate | errors.InfiniteEpsilon | errors.MissingExtra):
        return Failure(500, message, "misconfigured", kind="server_error", headers=NO_RETRY)
    if isinstance(error, errors.ExtractorError):
        return Failure(502, message, "extractor_failed", kind="server_error")
    return Failure(503, message, "not_released", kind="server_error", headers=NO_RETRY)


_UNKNOWN_ANSWER = (
    "expected assistant messages that came through this gateway, in the same conversation and "
    "unchanged; another may hold private text and is not sent; the operator can declare them "
    'public with answers = "public"'
)
