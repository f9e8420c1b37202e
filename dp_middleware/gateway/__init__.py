"""A gateway that any client of OpenAI's protocol can use by changing its base URL."""

from dp_middleware.gateway.app import create_app
from dp_middleware.gateway.settings import Settings

__all__ = ["Settings", "create_app"]
