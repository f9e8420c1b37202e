"""The playground of a gateway: its ledger, and its upstream as the model."""

from __future__ import annotations

from starlette.routing import Route

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.playground.choices import default_choices
from dp_middleware.gateway.playground.pages import routes
from dp_middleware.gateway.playground.releasing import Playground
from dp_middleware.gateway.service import Gateway


def gateway_routes(gateway: Gateway) -> list[Route]:
    """What a gateway serves beside its own routes, if it is told to.

    Releases are charged to the subject ``playground``. The upstream gets one only where the person
    at the page asks for it, and it gets nothing else.
    """
    model = gateway.settings.upstream.models[0]

    async def ask(text: str) -> str:
        messages = [{"role": "user", "content": text}]
        body = {"model": model, "messages": messages}
        answer = await gateway.upstream.ask("/chat/completions", body)
        try:
            content = answer["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            content = None
        if not isinstance(content, str):
            raise Failure(502, "the upstream answered without a text", "upstream_garbage")
        return content

    def make() -> Playground:
        return Playground(default_choices(ledger=gateway.ledger), ask, model)

    return routes(make, gateway.gate)
