"""A page to see a release happen: what stayed, what changed, what it cost and what it is worth."""

from dp_middleware.gateway.playground.pages import gateway_routes, routes
from dp_middleware.gateway.playground.releasing import Choice, Playground, default_choices

__all__ = ["Choice", "Playground", "default_choices", "gateway_routes", "routes"]
