"""``dp-middleware serve``, ``playground`` and ``mcp``: the gateway, its page, a proxy of tools."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Annotated

import typer
from typer import Argument, Option

import dp_middleware as dp
from dp_middleware.cli import options
from dp_middleware.cli.console import working
from dp_middleware.cli.options import Text, Texts
from dp_middleware.cli.pseudonymize import opened
from dp_middleware.errors import ParameterError, needs, withheld

_SHORTEST = 32  # characters of a secret


def serve(
    config: Annotated[Path | None, Option(help="The gateway's TOML file.")] = None,
    host: Annotated[str, Option(help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535)] = 8300,
    workers: Annotated[int, Option(min=1, help="Processes.")] = 1,
    new_client: Annotated[Text, Option(metavar="ID", help="Only make and print a key.")] = None,
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
        from dp_middleware.gateway.app import CONFIG, server_options
        from dp_middleware.gateway.releasing import prepare
        from dp_middleware.gateway.serving import Config, Server, Workers
    settings = Settings.read(config)
    if workers > 1 and settings.memo is None:
        raise ParameterError(
            "expected memo = FILE in the configuration for several workers: else a message that "
            "another one has seen is charged again"
        )
    os.environ[CONFIG] = str(config.resolve())
    with working("calibrating (minutes, the first time)"):
        prepare(settings)  # once, here, and not in every worker
    with tempfile.TemporaryDirectory() as folder, _bound(host, port) as at:
        settled = Config(
            "dp_middleware.gateway.app:from_environment",
            factory=True,
            workers=workers,
            **server_options(),
            timeout_graceful_shutdown=int(settings.limits.seconds) + 1,
        )
        typer.echo(f"listening on http://{host}:{port}/v1", err=True)
        if workers == 1:
            Server(settled).run(sockets=[at])
        else:
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
            Workers(settled, at).run()


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
    secret = os.environ.get("DP_GATEWAY_SECRET", "")
    if len(secret) < _SHORTEST:
        raise ParameterError(
            f"expected $DP_GATEWAY_SECRET, {_SHORTEST} signs: openssl rand -hex 32"
        )
    from dp_middleware.gateway.service import hash_of, new_key
    from dp_middleware.gateway.settings import Client

    key = new_key()
    with withheld("expected letters, digits, _ . @ or - in the ID of --new-client", ValueError):
        client = Client(id=name, subject=name, key_hash=hash_of(secret, key))
    typer.echo(f"key, shown once: {key}", err=True)
    lines = (f'{name} = "{getattr(client, name)}"' for name in ("id", "subject", "key_hash"))
    typer.echo("\n".join(["[[clients]]", *lines]))


def playground(
    port: Annotated[int, Option(min=0, max=65535, help="0 takes one that is free.")] = 0,
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


def mcp(
    command: Annotated[list[str], Argument(metavar="-- COMMAND...", help="Starts the tools.")],
    tool: Annotated[Texts, Option(metavar="NAME", help="Gets originals; repeatable.")] = None,
    all_tools: Annotated[bool, Option("--all-tools", help="All of them get originals.")] = False,
    mapping: options.Mapping = None,
    key: options.Key = None,
    conversation: options.Conversation = "mcp",
) -> None:
    """Give an agent's tools pseudonyms: results go out with them, arguments get originals back.

    Name this command, with the server's own behind --, where an agent's settings name the
    server's. Only tools pass; a tool gets originals only with --tool.
    """
    from dp_middleware.conversation.mcp import McpProxy, relay, writer

    session = opened(dp.Pseudonyms(on_empty="pass"), mapping, key)
    _ = session.sanitizer.certificate  # loads what detects, before anybody waits
    proxy = McpProxy(session, tools="all" if all_tools else tool or (), conversation=conversation)
    pipe = subprocess.PIPE
    with withheld("expected a command that starts, got {}", OSError):
        server = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8")
    assert server.stdin is not None
    assert server.stdout is not None
    to_server, to_client, one = writer(server.stdin), writer(sys.stdout), Lock()

    def alone(take: Callable[..., None], line: str) -> None:
        with one:
            take(line, to_server, to_client)

    back = Thread(
        target=relay, args=(server.stdout, partial(alone, proxy.from_server)), daemon=True
    )
    back.start()
    try:
        relay(sys.stdin, partial(alone, proxy.from_client))
        server.stdin.close()
    except BrokenPipeError:
        typer.echo("the server has ended", err=True)
    back.join()
    raise typer.Exit(server.wait())
