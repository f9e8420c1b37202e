"""What clients may look up: what was released and charged, for those who pay; and models."""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.service import Call, Gateway
from dp_middleware.gateway.settings import Client
from dp_middleware.privacy.certificate import json_number

_TIGHT = (",", ":")
_PUBLIC = ("remote-answer", "declared-public")  # mechanisms of what is public


def headers_of(call: Call, exchange: Exchange, seconds: float) -> dict[str, str]:
    """Counts what a request released, and returns the headers that tell it; public numbers.

    The id of the release holds the account itself, signed.
    """
    own = call.session.sanitizer.certificate
    private = [r for r in exchange.releases if r.certificate.mechanism not in _PUBLIC]
    draws = len(exchange.receipt.charged)
    nats = math.fsum(certificate.epsilon for certificate in exchange.receipt.charged)
    count_releases(call.gateway, draws, nats, seconds)
    account = {
        "policy": call.policy_name,
        "messages": len(private),
        "tokens": sum(release.tokens_total for release in private),
        "verbatim": sum(release.tokens_verbatim for release in private),
        "draws": draws,
        "nats": nats if math.isfinite(nats) else "inf",
        "created": int(time.time()),
    }
    headers = {
        "x-dp-release-id": call.sign("release", json.dumps(account, separators=_TIGHT).encode()),
        "x-dp-epsilon": f"{own.epsilon:.6g}",
        "x-dp-unit": own.unit,
        "x-dp-messages": str(account["messages"]),
        "x-dp-tokens": str(account["tokens"]),
        "x-dp-tokens-verbatim": str(account["verbatim"]),
        "x-dp-draws": str(draws),
        "x-dp-charged-nats": f"{nats:.6g}",
    }
    if call.gateway.ledger is not None:
        remaining = exchange.receipt.remaining  # after the charge; if there was none, ask
        if remaining is None:
            remaining = call.gateway.ledger.remaining(call.client.subject)
        headers["x-dp-budget-remaining"] = f"{remaining:.6g}"
    return headers


def count_releases(gateway: Gateway, draws: int, nats: float, seconds: float) -> None:
    """Counts what a request drew, for the metrics."""
    gateway.measures.release_seconds.observe(seconds)
    gateway.measures.releases.inc(draws)
    if math.isfinite(nats):
        gateway.measures.nats.inc(nats)


async def release(call: Call) -> Response:
    """``/v1/dp/releases/{id}``: what a request released, with the certificate, without text."""
    data = call.signed("release", call.request.path_params["id"])
    account = json.loads(data) if data is not None else {}
    if account.get("policy") not in call.gateway.settings.policies:
        raise Failure(404, "no such release of this client", "not_found")
    session = call.gateway.sessions.of(account["policy"], call.client)
    certificate = session.sanitizer.certificate.to_dict()
    return JSONResponse({"object": "dp.release", **account, "certificate": certificate})


async def budget(call: Call) -> Response:
    """``/v1/dp/budget``: what the client's subject has spent, and may spend."""
    return JSONResponse(await asyncio.to_thread(budget_of, call.gateway, call.client))


def budget_of(gateway: Gateway, client: Client) -> dict[str, Any]:
    """Without a ledger nothing is charged and nothing limited."""
    if gateway.ledger is None:
        return {"object": "dp.budget", "unit": "nats", "charged": False}
    account = gateway.ledger.account(client.subject)
    return {
        "object": "dp.budget",
        "unit": "nats",
        "charged": True,
        "spent": json_number(account.spent),
        "remaining": json_number(account.remaining),
        "window_seconds": gateway.ledger.window,
    }


async def models(call: Call) -> Response:
    """``/v1/models``: what clients may ask for, from the configuration."""
    names = call.gateway.settings.upstream.models
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


async def model(call: Call) -> Response:
    """``/v1/models/{id}``: one of them."""
    name = call.request.path_params["id"]
    if name not in call.gateway.settings.upstream.models:
        raise Failure(404, "no such model", "model_not_found")
    return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "upstream"}
