"""Stands for what users have: a local model that is a function, and a ledger that fails."""

from support.contract.openai_server import OpenAIServer

from dp_middleware.models.trust import Location
from dp_middleware.privacy import Certificate


class Echo:
    """A local model as a function: echoes the last message, or fails as the server does."""

    def __init__(self, server: OpenAIServer) -> None:
        self._server = server
        self.location = Location()

    def __call__(self, messages: list[dict[str, str]]) -> str:
        text = messages[-1]["content"]
        self._server.requests.append({"messages": messages})
        if self._server.mode in ("error", "redirect"):
            raise RuntimeError(f"cannot extract from {text}")
        return text


class QuotingLedger:
    """Fails as foreign code does: while it handles an error, and both quote the text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def charge(self, subject: str, certificate: Certificate, n: int) -> object:
        try:
            raise KeyError(self._text)
        except KeyError as error:
            raise RuntimeError(f"cannot charge for {self._text}") from error
