"""Connections whose request never begins: closed after a while, which uvicorn does not do."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from dp_middleware.errors import MissingExtra

try:
    from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
except ModuleNotFoundError:
    raise MissingExtra("uvicorn", "gateway") from None


class TimedHeads(H11Protocol):
    """HTTP as uvicorn speaks it; the head of a request, the first or a later one, has its time.

    Attributes:
        seconds: From the connection, or from the first byte of a later head, to the end of a head.
    """

    seconds: ClassVar[float] = 10.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A head begins, goes on or ends; what comes of it later does not move its time."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self._answering():
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(self.seconds, self._close)

    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first
        return cycle is not None and not cycle.response_complete

    def _close(self) -> None:
        if not self._answering():
            self.timeout_keep_alive_handler()

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
