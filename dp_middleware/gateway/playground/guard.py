"""Who may see the page: a browser on this computer, and no other site through it."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from dp_middleware.gateway.failures import Failure
from dp_middleware.models.trust import is_loopback

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Of every answer: nothing but our own files runs or is asked for, and nothing is kept."""

_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def require_local(request: Request) -> None:
    """Let in a browser on this computer that shows our own page; no key is asked of it.

    A site that gives this computer a name of its own (DNS rebinding) sends that name as Host; one
    that makes a browser post to us is told by its Origin. A proxy on this computer that tells
    for whom it asks is refused: put none in front of the page.

    Raises:
        Failure: Another caller.
    """
    peer = request.client.host if request.client is not None else ""
    if not is_loopback(peer) or any(name in request.headers for name in _FORWARDED):
        raise Failure(403, "expected a caller on this computer, got another", "not_local")
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not is_loopback(_name(hosts[0])):
        message = "expected localhost, 127.0.0.1 or [::1] in the header Host, got another name"
        raise Failure(403, message, "not_local")
    own = (f"http://{hosts[0]}", f"https://{hosts[0]}")
    if request.method == "POST" and request.headers.get("origin") not in own:
        message = "expected a request of the page itself, got another Origin or none"
        raise Failure(403, message, "not_local")


def _name(host: str) -> str:
    """Of a Host header; empty for what is none."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "") if parts.netloc == host and "@" not in host else ""
    except ValueError:
        return ""
