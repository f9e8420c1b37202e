"""Serves the gateway by uvicorn: one process or several, and a sure stop."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import time
from multiprocessing.context import SpawnProcess
from types import FrameType

from dp_middleware.errors import DPMiddlewareError, needs

with needs("gateway"):
    import uvicorn
    from uvicorn.config import STARTUP_FAILURE, Config as Config

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TICK = 0.5  # seconds between two looks at the workers
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
    """Processes that serve one socket, each of an app that is named; a dead one is replaced.

    If the one in its place cannot start, as its settings are broken by now, it is tried again after
    ``pause`` seconds. A worker has ``margin`` seconds to end behind ``timeout_graceful_shutdown``.
    (uvicorn's own supervisor notices no signal while it waits for a worker's answer.)
    """

    def __init__(
        self, config: Config, listening: socket.socket, *, margin: float = 10.0, pause: float = 5.0
    ) -> None:
        self._config, self._listening, self._pause = config, listening, pause
        self._seconds = (config.timeout_graceful_shutdown or 0) + margin
        self._signals = 0  # a lock would not do in their handler

    def run(self) -> None:
        """Serves until a signal; a second one ends all at once. Raises if none could start."""
        for sig in _SIGNALS:
            signal.signal(sig, self._hear)
        workers = [self._start() for _ in range(self._config.workers)]
        signal.signal(signal.SIGHUP, lambda *_: _reload(workers))
        try:
            while not self._signals:
                time.sleep(_TICK)
                for place, worker in enumerate(workers):
                    if worker.exitcode == STARTUP_FAILURE:
                        raise DPMiddlewareError("a worker could not start; its log says why")
                    if not (worker.is_alive() or self._signals):
                        workers[place] = self._start(self._pause)
        finally:
            self._stop(workers)

    def _hear(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _start(self, pause: float | None = None) -> SpawnProcess:
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(self._config, self._listening, pause)
        )
        process.start()
        return process

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


def _reload(workers: list[SpawnProcess]) -> None:
    """Has each read its settings again; one that still loads ends, and is replaced."""
    for worker in workers:
        if worker.is_alive() and worker.pid is not None:
            os.kill(worker.pid, signal.SIGHUP)


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
