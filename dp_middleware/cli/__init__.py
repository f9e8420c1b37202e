"""The command line ``dp-middleware``; light until a command runs."""

from dp_middleware.cli.commands import app

__all__ = ["app"]
