"""Serves the gateway by uvicorn: one process or several, heads of requests in time, a sure stop."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import time
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import ClassVar

from dp_middleware.errors import DPMiddlewareError, needs

with needs("gateway"):
    import uvicorn
    from uvicorn.config import STARTUP_FAILURE, Config as Config
    from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TICK = 0.5  # seconds between two looks at the workers
_MARGIN = 10.0  # seconds for a worker to end after its last request
_PAUSE = 5.0  # seconds until another try to replace a worker
_log = logging.getLogger("dp_middleware.gateway")


class Server(uvicorn.Server):
    """A server that a signal ends at once while it loads: no request has begun."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles a signal."""
        if not self.started:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        super().handle_exit(sig, frame)


class Workers:
    """Processes that serve one socket; a dead one is replaced.

    If the one in its place cannot start, as where the settings are broken by now, the others go on,
    and it is tried again after a pause, or when the settings are to be read again. (uvicorn's own
    supervisor notices no signal while it waits for a worker's answer, up to a minute.)

    Args:
        config: Of every worker; its app is named, and imported by each.
        listening: Their socket.
        margin: Seconds that a worker has to end behind ``timeout_graceful_shutdown``.
        pause: Seconds between two tries to replace a worker.
    """

    def __init__(
        self,
        config: Config,
        listening: socket.socket,
        *,
        margin: float = _MARGIN,
        pause: float = _PAUSE,
    ) -> None:
        self._config, self._listening, self._pause = config, listening, pause
        self._seconds = (config.timeout_graceful_shutdown or 0) + margin
        self._signals = 0  # a lock would not do in their handler

    def run(self) -> None:
        """Serves until a signal; a second one ends all at once. Raises if none could start."""
        for sig in _SIGNALS:
            signal.signal(sig, self._hear)
        workers = [self._start() for _ in range(self._config.workers)]
        signal.signal(signal.SIGHUP, lambda *_: self._reload(workers))
        try:
            while not self._signals:
                time.sleep(_TICK)
                workers[:] = [self._living(worker) for worker in workers]
        finally:
            self._stop(workers)

    def _reload(self, workers: list[SpawnProcess]) -> None:
        """Has each read its settings again; one that still loads ends, and is replaced."""
        for worker in workers:
            if worker.is_alive() and worker.pid is not None:
                os.kill(worker.pid, signal.SIGHUP)

    def _hear(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _start(self, pause: float | None = None) -> SpawnProcess:
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(self._config, self._listening, pause)
        )
        process.start()
        return process

    def _living(self, worker: SpawnProcess) -> SpawnProcess:
        if worker.is_alive() or self._signals:
            return worker
        if worker.exitcode == STARTUP_FAILURE:
            raise DPMiddlewareError("a worker could not start; its log says why")
        return self._start(self._pause)

    def _stop(self, workers: list[SpawnProcess]) -> None:
        for worker in workers:
            worker.terminate()
        latest = time.monotonic() + self._seconds
        while any(w.is_alive() for w in workers) and time.monotonic() < latest:
            if self._signals > 1:
                break
            time.sleep(_TICK / 10)
        for worker in workers:
            worker.kill()
            worker.join()


def _serve(config: Config, listening: socket.socket, pause: float | None) -> None:
    """A worker; ``pause``: before one in the place of another ends because it cannot start."""
    config.configure_logging()
    server = Server(config)
    try:
        server.run(sockets=[listening])
    except (Exception, SystemExit) as error:
        if server.started:
            raise
        is_ours = isinstance(error, DPMiddlewareError)
        _log.error("a worker could not start: %s", error if is_ours else type(error).__name__)
        if pause is None:
            raise SystemExit(STARTUP_FAILURE) from None
        time.sleep(pause)
        raise SystemExit(1) from None


class TimedHeads(H11Protocol):
    """HTTP as uvicorn speaks it; the head of a request, the first or a later one, has its time."""

    seconds: ClassVar[float] = 10.0  # from the connection, or a later head's first byte, to its end
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first head."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Hears a head begin, go on or end; what comes of it later does not move its time."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
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
