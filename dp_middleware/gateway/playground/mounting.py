"""The playground of a gateway: its ledger, and its upstream as the model."""

from __future__ import annotations

from starlette.routing import Route

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.playground.choices import Choice, default_choices
from dp_middleware.gateway.playground.pages import routes
from dp_middleware.gateway.playground.releasing import Playground
from dp_middleware.gateway.rules import ROUTES, policy_of
from dp_middleware.gateway.service import Gateway
from dp_middleware.privacy.wording import nats

_SUBJECT = "playground"  # as of default_choices


def gateway_routes(gateway: Gateway) -> list[Route]:
    """What a gateway serves beside its own routes, if it is told to.

    The policies come first, then the library's defaults. Releases are charged to the subject
    ``playground`` if there is a ledger. The upstream gets one only where the person
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
        others = default_choices(ledger=gateway.ledger)
        return Playground([*policy_choices(gateway), *others], ask, model)

    return routes(make, gateway.gate)


def policy_choices(gateway: Gateway) -> list[Choice]:
    """The gateway's policies, each with what its routes release with; their epsilon is fixed."""
    return [_choice(gateway, number, name) for number, name in enumerate(gateway.settings.policies)]


def _choice(gateway: Gateway, number: int, name: str) -> Choice:
    settings = gateway.settings
    releaser = gateway.sessions.releaser(name, _SUBJECT)
    certificate = releaser.certificate
    paths = [path for path in ROUTES if policy_of(settings.rules, path) == name]
    return Choice(
        name=f"policy-{number}",
        title=f"Policy {name}",
        about=f"Mode {settings.policies[name].mode}, {nats(certificate.epsilon)} nats per "
        f"{certificate.unit}; used by {', '.join(paths) or 'no whole route'}.",
        epsilon=None,
        unit=certificate.unit,
        make=lambda _: releaser,
    )
