"""Which policy holds for which requests."""

from __future__ import annotations

from dp_middleware.errors import needs

with needs("gateway"):
    from pydantic import BaseModel, ConfigDict

GUARDRAIL = "/beta/litellm_basic_guardrail_api"
ROUTES = (
    *("/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings"),
    "/v1/messages",
    GUARDRAIL,
)


class Rule(BaseModel):
    """Says which policy holds for some requests; what is not said, any request has.

    Attributes:
        policy: Its name.
        path: Of the request; of ``/v1/messages`` also what counts its tokens.
        model: Which the request asks for: its client chooses.
        client: Whose request it is, by its id.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    policy: str
    path: str | None = None
    model: str | None = None
    client: str | None = None

    def fits(self, path: str, model: object, client: str | None) -> bool:
        """Tells whether it speaks of a request."""
        asked = (path.removesuffix("/count_tokens"), model, client)
        ours = zip((self.path, self.model, self.client), asked, strict=True)
        return all(said in (None, is_so) for said, is_so in ours)
