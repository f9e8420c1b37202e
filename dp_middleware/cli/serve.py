"""``dp-middleware serve`` and ``playground``: the gateway, keys for its clients, and its page."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dp_middleware.cli.console import working
from dp_middleware.errors import ParameterError, needs, withheld

if TYPE_CHECKING:
    from dp_middleware.gateway import Settings

_SECRET = "DP_GATEWAY_SECRET"
_SHORTEST = 32  # characters of a secret


def serve(
    config: Annotated[Path | None, typer.Option(help="The gateway's TOML file.")] = None,
    host: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8300,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    new_client: Annotated[
        str | None, typer.Option(metavar="ID", help="Make a key, print it, and serve nothing.")
    ] = None,
) -> None:
    """An OpenAI-compatible gateway: what clients send is released before it goes upstream.

    Secrets are read from the environment: DP_GATEWAY_SECRET, which you make once and keep, and
    DP_GATEWAY_UPSTREAM_KEY.
    """
    if new_client is not None:
        _print_client(new_client)
        return
    if config is None:
        raise ParameterError("expected --config FILE, or --new-client ID")
    with working("loading the library"):
        from dp_middleware.gateway import Settings
    settings = Settings.read(config)
    if workers > 1 and settings.memo is None:
        raise ParameterError(
            "expected memo = FILE in the configuration for several workers: each has a memory of "
            "its own, and a message that another one has seen would be charged for again"
        )
    _run(settings, config, host, port, workers)


def _run(settings: Settings, config: Path, host: str, port: int, workers: int) -> None:
    from dp_middleware.gateway.app import CONFIG, server_options
    from dp_middleware.gateway.releasing import prepare
    from dp_middleware.gateway.serving import Config, Server, Workers

    os.environ[CONFIG] = str(config.resolve())
    with working("calibrating (minutes, the first time)"):
        prepare(settings)  # once, here, and not in every worker
    with tempfile.TemporaryDirectory() as folder, _bound(host, port) as at:
        options = Config(
            "dp_middleware.gateway.app:from_environment",
            factory=True,
            workers=workers,
            **server_options(),
            timeout_graceful_shutdown=int(settings.limits.seconds) + 1,
        )
        typer.echo(f"listening on http://{host}:{port}/v1", err=True)
        if workers == 1:
            Server(options).run(sockets=[at])
        else:
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
            Workers(options, at).run()


def _bound(host: str, port: int) -> socket.socket:
    """Bound here and not by uvicorn, whose has no protocol: asyncio then lets packets wait."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise ParameterError(f"expected a free --port on this --host, got {port}") from None
    bound.set_inheritable(True)
    return bound


def _print_client(name: str) -> None:
    secret = os.environ.get(_SECRET, "")
    if len(secret) < _SHORTEST:
        raise ParameterError(
            f"expected ${_SECRET}, {_SHORTEST} characters or more; make one with: openssl rand "
            "-hex 32"
        )
    from dp_middleware.gateway.service import hash_of, new_key
    from dp_middleware.gateway.settings import Client

    key = new_key()
    with withheld("expected letters, digits, _ . @ or - in the ID of --new-client", ValueError):
        client = Client(id=name, subject=name, key_hash=hash_of(secret, key))
    typer.echo(f"key, shown once: {key}", err=True)
    typer.echo(
        f'[[clients]]\nid = "{client.id}"\nsubject = "{client.subject}"\n'
        f'key_hash = "{client.key_hash}"'
    )


def playground(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 0,
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
    with _bound("127.0.0.1", port) as at:
        at.listen()
        typer.echo(f"http://127.0.0.1:{at.getsockname()[1]}/ (end with Ctrl-C)", err=True)
        Server(Config(app, **server_options())).run(sockets=[at])
