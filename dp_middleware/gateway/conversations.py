"""Which conversation a request belongs to: named by its client, or known by its opening."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dp_middleware.conversation.session import Item
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.service import Call

HEADER = "x-dp-conversation"
_NAME = re.compile(r"[\x21-\x7e]{1,200}")


def named(call: Call) -> str | None:
    """The conversation of the header, if there is one; it is kept here and never forwarded.

    Raises:
        Failure: A name that is none.
    """
    name = call.request.headers.get(HEADER)
    if name is None:
        return None
    if not _NAME.fullmatch(name):
        message = f"expected {HEADER} as 1 to 200 printable characters without blanks"
        raise Failure(400, message, "invalid_header", param=HEADER)
    return f"{call.client.id}\x1fnamed\x1f{name}"


def conversation_of(call: Call, transcript: Sequence[Item]) -> str:
    """The name of a transcript's conversation.

    A client's own: another client with an equal opening, or another name, is in another one.
    Without a name it is all up to the first message of the user; two conversations of a client
    that begin alike begin with the same releases.

    Args:
        call: Whose client is part of the name.
        transcript: Private.
    """
    name = named(call)
    if name is not None:
        return name
    first = next((k for k, item in enumerate(transcript) if item[1] == "user"), len(transcript))
    opening = [part for _, role, text in transcript[: first + 1] for part in (role, text)]
    return f"{call.client.id}\x1fopening\x1f{call.session.digest(*opening)}"
