"""Which policy holds for which requests."""

from __future__ import annotations

from collections.abc import Iterable

from dp_middleware.errors import needs

with needs("gateway"):
    from pydantic import BaseModel, ConfigDict

DEFAULT = "default"
"""Names the policy of what no rule names."""

GUARDRAIL = "/beta/litellm_basic_guardrail_api"
ROUTES = (
    *("/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings"),
    "/v1/messages",
    GUARDRAIL,
)


class Section(BaseModel):
    """A table of the gateway's file: it has known keys alone, and errors quote no value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Rule(Section):
    """Says which policy holds for some requests; what is not said, any request has.

    Attributes:
        policy: Its name.
        path: Of the request; of ``/v1/messages`` also what counts its tokens.
        model: Which the request asks for: its client chooses.
        client: Whose request it is, by its id.
    """

    policy: str
    path: str | None = None
    model: str | None = None
    client: str | None = None


def policy_of(
    rules: Iterable[Rule], path: str, model: object = None, client: str | None = None
) -> str:
    """Returns the name of the policy of a request."""
    asked = (path.removesuffix("/count_tokens"), model, client)
    for rule in rules:
        said = (rule.path, rule.model, rule.client)
        if all(one in (None, is_so) for one, is_so in zip(said, asked, strict=True)):
            return rule.policy
    return DEFAULT
