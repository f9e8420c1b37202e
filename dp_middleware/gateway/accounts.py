"""What was released and charged, for those who pay: headers, budgets, and releases by id."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.service import Call, Gateway
from dp_middleware.gateway.settings import Client
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.privacy.wording import json_number

_PUBLIC = ("remote-answer", "declared-public")  # mechanisms of what is public
_MAC = 16  # bytes
_LONGEST = 2000  # characters of an id


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one request released. Public numbers.

    Attributes:
        policy: Name of the policy.
        messages: Private texts that went out, in whatever form.
        tokens: Of these.
        verbatim: Tokens of these that policy or scope left as they are.
        draws: Texts that were drawn for, and charged; the others were released before.
        nats: Sum of what was charged; may be ``inf``.
    """

    policy: str
    messages: int
    tokens: int
    verbatim: int
    draws: int
    nats: float

    @classmethod
    def of(
        cls, policy: str, releases: Sequence[Release], charged: Sequence[Certificate]
    ) -> Account:
        """Of the releases of a request, and the certificates of its draws."""
        private = [each for each in releases if each.certificate.mechanism not in _PUBLIC]
        return cls(
            policy=policy,
            messages=len(private),
            tokens=sum(each.tokens_total for each in private),
            verbatim=sum(each.tokens_verbatim for each in private),
            draws=len(charged),
            nats=math.fsum(each.epsilon for each in charged),
        )

    def headers(self, call: Call, remaining: float | None) -> dict[str, str]:
        """For the response.

        Args:
            call: The request.
            remaining: What its charge left of the budget; ``None``, after none: the ledger says.
        """
        certificate = call.session.sanitizer.certificate
        headers = {
            "x-dp-release-id": release_id(call.gateway.secret, call.client, self),
            "x-dp-epsilon": f"{certificate.epsilon:.6g}",
            "x-dp-unit": certificate.unit,
            "x-dp-messages": str(self.messages),
            "x-dp-tokens": str(self.tokens),
            "x-dp-tokens-verbatim": str(self.verbatim),
            "x-dp-draws": str(self.draws),
            "x-dp-charged-nats": f"{self.nats:.6g}",
        }
        if call.gateway.ledger is not None:
            if remaining is None:
                remaining = call.gateway.ledger.remaining(call.client.subject)
            headers["x-dp-budget-remaining"] = f"{remaining:.6g}"
        return headers


def release_id(secret: str, client: Client, account: Account) -> str:
    """A name that holds the account itself, signed: every worker can read it, nobody can make one.

    Args:
        secret: Of the gateway.
        client: Who may ask for it.
        account: Of a request.
    """
    data = {**vars(account), "nats": json_number(account.nats), "created": int(time.time())}
    text = json.dumps(data, separators=(",", ":")).encode()
    return "rel-" + base64.urlsafe_b64encode(_mac(secret, client, text) + text).decode().rstrip("=")


def read_release(secret: str, client: Client, name: str) -> Mapping[str, Any] | None:
    """Inverse of :func:`release_id`; ``None`` for a name that this client was not given."""
    if not name.startswith("rel-") or len(name) > _LONGEST:
        return None
    try:
        data = base64.b64decode(name[4:] + "=" * (-len(name[4:]) % 4), b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    if not hmac.compare_digest(data[:_MAC], _mac(secret, client, data[_MAC:])):
        return None
    read: Mapping[str, Any] = json.loads(data[_MAC:])
    return read


def _mac(secret: str, client: Client, text: bytes) -> bytes:
    key = hmac.digest(secret.encode(), b"release " + client.id.encode(), "sha256")
    return hmac.digest(key, text, "sha256")[:_MAC]


async def release(call: Call) -> Response:
    """``/v1/dp/releases/{id}``: what a request released, with the certificate, without text."""
    data = read_release(call.gateway.secret, call.client, call.request.path_params["id"])
    if data is None or data["policy"] not in call.gateway.settings.policies:
        raise Failure(404, "no such release of this client", "not_found")
    session = call.gateway.sessions.of(data["policy"], call.client)
    certificate = session.sanitizer.certificate.to_dict()
    return JSONResponse({"object": "dp.release", **data, "certificate": certificate})


async def budget(call: Call) -> Response:
    """``/v1/dp/budget``: what the client's subject has spent, and may spend."""
    return JSONResponse(await asyncio.to_thread(budget_of, call.gateway, call.client))


def budget_of(gateway: Gateway, client: Client) -> dict[str, Any]:
    """JSON-ready; without a ledger nothing is charged and nothing limited."""
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
