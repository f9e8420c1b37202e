"""Keeps the clients of a model from sending private text on to another address."""

from __future__ import annotations

from typing import Any

import httpx

from dp_middleware._quiet import is_unrecorded
from dp_middleware.models._wires import httpx_clients
from dp_middleware.models.parts import fields_of

_MADE_LATER = {"_http_client": httpx.Client, "_async_http_client": httpx.AsyncClient}


def stay(model: Any) -> None:
    """Adds a response hook, httpx's own, to the model's clients: private calls stay.

    A redirect is then the answer itself. Other calls follow as before. Reached are clients of httpx
    that the model has by now, and LlamaIndex's, which are made here; a model that makes one later,
    or uses another library, follows redirects as that does.
    """
    names = [name for name, value in fields_of(model) if value is None]
    for name, make in _MADE_LATER.items():
        if name in names:
            setattr(model, name, make(follow_redirects=False))
    for client in httpx_clients(model):
        hook: Any = _astay if isinstance(client, httpx.AsyncClient) else _stay
        hooks = client.event_hooks["response"]
        if hook not in hooks:
            hooks.append(hook)


def _stay(response: httpx.Response) -> None:
    if is_unrecorded():
        response.headers.pop("location", None)


async def _astay(response: httpx.Response) -> None:
    _stay(response)
