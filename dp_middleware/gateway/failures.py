"""What a client is told when something fails: OpenAI's form, and never a text of anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse

from dp_middleware import errors


@dataclass(eq=False)
class Failure(errors.DPMiddlewareError):
    """A refusal, in words of our own: quotes nothing that a client or an upstream sent."""

    status: int  # of HTTP
    message: str
    code: str  # for programs
    param: str | None = None  # the field, by its public name
    kind: str = "invalid_request_error"  # OpenAI's type of error
    headers: Mapping[str, str] = field(default_factory=dict)  # of the response

    def body(self) -> dict[str, Any]:
        """Spells it as OpenAI does."""
        told = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": told}

    def anthropic(self) -> dict[str, Any]:
        """Spells it as Anthropic does."""
        other = "invalid_request_error" if self.status < 500 else "api_error"
        kind = _ANTHROPICS.get(self.status, other)
        return {"type": "error", "error": {"type": kind, "message": self.message}}

    def response(self, body: Mapping[str, Any] | None = None) -> JSONResponse:
        """Returns what is sent, in another protocol's form if that is given."""
        headers = {"cache-control": "no-store", **self.headers}
        return JSONResponse(body or self.body(), self.status, headers)


_ANTHROPICS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
NO_RETRY = {"x-should-retry": "false"}  # OpenAI's clients try again after a 429 unless told so


def failure_of(error: Exception) -> Failure:
    """What stands for an exception."""
    if isinstance(error, Failure):
        return error
    if not isinstance(error, errors.DPMiddlewareError):
        what = type(error).__name__  # another's message may quote
        return Failure(500, f"the gateway failed with {what}", "internal", kind="server_error")
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
    'public with answers = "public": under pseudonyms words alone, no calls, refusals and reasoning'
)


def garbage() -> Failure:
    """Returns the failure of an upstream that speaks another protocol."""
    message = "the upstream answered with something else than this protocol"
    return Failure(502, message, "upstream_garbage", kind="server_error")
