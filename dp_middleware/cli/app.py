"""The command ``dp-middleware``: its commands are in the files beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

import dp_middleware
from dp_middleware.cli import ledger
from dp_middleware.cli.console import Commands
from dp_middleware.cli.demo import demo
from dp_middleware.cli.evaluate import attack, evaluate
from dp_middleware.cli.files import restore_file, sanitize_file
from dp_middleware.cli.mechanisms import certify, mechanisms, prepare
from dp_middleware.cli.pseudonymize import pseudonymize
from dp_middleware.cli.sanitize import chat, sanitize
from dp_middleware.cli.serve import mcp, playground, serve

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS = {
    "Protect": (pseudonymize, sanitize, sanitize_file, restore_file, chat),
    "Serve": (serve, mcp, prepare),
    "Explore": (demo, playground, mechanisms, certify),
    "Research": (attack, evaluate),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(ledger.app, name="ledger", rich_help_panel="Serve")


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Differentially private text, with certificates of the law that is really drawn from.

    Exit codes: 0 done, 1 unexpected error, 2 bad option or text, 3 refused for privacy,
    4 a model failed, 5 a package is missing.
    """
    if version:
        typer.echo(dp_middleware.__version__)
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
