"""The command line ``dp-middleware``; light until a command runs."""

from dp_middleware.cli.app import app

__all__ = ["app"]
