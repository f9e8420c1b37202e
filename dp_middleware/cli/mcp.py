"""``dp-middleware mcp``: stands between an agent and a server of tools, on standard input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from threading import Lock, Thread
from typing import Annotated

import typer

import dp_middleware as dp
from dp_middleware.cli import options
from dp_middleware.cli.pseudonymize import opened
from dp_middleware.errors import withheld


def mcp(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="Starts the server of tools.")
    ],
    tool: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Call it with originals; repeatable.")
    ] = None,
    all_tools: Annotated[
        bool, typer.Option("--all-tools", help="Call all of them with originals.")
    ] = False,
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
