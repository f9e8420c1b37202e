"""Models that are given raw text: the one place where they are let in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dp_middleware.errors import ExtractorError
from dp_middleware.models.chat import ChatModel, chat_model
from dp_middleware.models.trust import require_trusted


def local_model(x: Any, trusted_hosts: Iterable[str] = ()) -> ChatModel:
    """A chat model that may be given raw text: nothing records a call, none is redirected.

    Args:
        x: What :func:`chat_model` takes; in process, on loopback or on a trusted host. A function
            and a class of your own must be declared: ``chat_model(function, local=True)``.
        trusted_hosts: Names of further hosts that may see raw text.

    Raises:
        UntrustedHost: Raw text would go elsewhere, or one cannot tell where.
        ParameterError: Not a chat model, or ``trusted_hosts`` no collection of host names. From a
            call: no messages.
        ExtractorError: From a call: the model failed, or was redirected.
    """
    model = chat_model(x)
    require_trusted(model, trusted_hosts)
    return replace(model.private(), error=ExtractorError)
