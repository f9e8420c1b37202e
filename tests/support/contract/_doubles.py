"""Stands for what users have: a local model that is a function, and a ledger that fails."""

from dp_middleware.models.trust import Location


class Echo:
    """A local model as a function: echoes the last message, or fails as the server does."""

    def __init__(self, server):
        self._server, self.location = server, Location()

    def __call__(self, messages):
        text = messages[-1]["content"]
        self._server.requests.append({"messages": messages})
        if self._server.mode in ("error", "redirect"):
            raise RuntimeError(f"cannot extract from {text}")
        return text


class QuotingLedger:
    """Fails as foreign code does: while it handles an error, and both quote the text."""

    def __init__(self, text):
        self._text = text

    def charge(self, subject, certificate, n):
        try:
            raise KeyError(self._text)
        except KeyError as error:
            raise RuntimeError(f"cannot charge for {self._text}") from error
