"""ASGI applications behind a real server on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


class _Server(uvicorn.Server):
    """Tells when it is ready, and its port."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()


@contextmanager
def serving(app, **options) -> Iterator[str]:
    """The address of an application that runs in a thread."""
    settings = {"host": "127.0.0.1", "port": 0, "log_config": None, "lifespan": "off", **options}
    server = _Server(uvicorn.Config(app, **settings))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert server.ready.wait(20)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
