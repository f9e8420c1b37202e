"""``dp-middleware playground``: the page that shows releases, for the browser on this computer."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from dp_middleware.cli.progress import working
from dp_middleware.errors import ParameterError, needs


def playground(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 takes one that is free.")
    ] = 0,
) -> None:
    """A page to try texts on this computer: nothing is sent anywhere and nothing is charged."""
    with working("loading the library"), needs("gateway"):
        from starlette.applications import Starlette

        from dp_middleware.gateway.app import server_options
        from dp_middleware.gateway.playground import Playground, default_choices, routes
        from dp_middleware.gateway.service import Gate
        from dp_middleware.gateway.serving import Config, Server
        from dp_middleware.gateway.settings import Limits
    page = Playground(default_choices())
    app = Starlette(routes=routes(lambda: page, Gate(Limits())))
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError:
        raise ParameterError(f"expected a free --port, got {port}") from None
    with listening:
        typer.echo(f"http://127.0.0.1:{listening.getsockname()[1]}/ (end with Ctrl-C)", err=True)
        Server(Config(app, **server_options())).run(sockets=[listening])
