"""What clients may look up: what was released and charged, for those who pay; and models."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.service import Call, Gateway
from dp_middleware.gateway.settings import Client
from dp_middleware.privacy.certificate import json_number


async def release(call: Call) -> Response:
    """``/v1/dp/releases/{id}``: what a request released, with the certificate, without text."""
    data = call.signed("release", call.request.path_params["id"])
    account = json.loads(data) if data is not None else {}
    if account.get("policy") not in call.gateway.settings.policies:
        raise Failure(404, "no such release of this client", "not_found")
    session = call.gateway.sessions.sessions[account["policy"], call.client.id]
    certificate = session.sanitizer.certificate.to_dict()
    return JSONResponse({"object": "dp.release", **account, "certificate": certificate})


async def budget(call: Call) -> Response:
    """``/v1/dp/budget``: what the client's subject was charged, and may be."""
    return JSONResponse(await asyncio.to_thread(budget_of, call.gateway, call.client))


def budget_of(gateway: Gateway, client: Client) -> dict[str, Any]:
    """Without a ledger nothing is charged and nothing limited."""
    if gateway.ledger is None:
        return {"object": "dp.budget", "unit": "nats", "limited": False}
    account = gateway.ledger.account(client.subject)
    return {
        "object": "dp.budget",
        "unit": "nats",
        "limited": True,
        "charged": json_number(account.spent),
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
