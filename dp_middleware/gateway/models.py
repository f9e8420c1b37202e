"""``/v1/models``: what clients may ask for, from the configuration."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.service import Call


async def models(call: Call) -> Response:
    """All of them."""
    names = call.gateway.settings.upstream.models
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


async def model(call: Call) -> Response:
    """One of them."""
    name = call.request.path_params["id"]
    if name not in call.gateway.settings.upstream.models:
        raise Failure(404, "no such model", "model_not_found")
    return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "upstream"}
