"""What an operator says about a gateway: one TOML file, and secrets in the environment."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from dp_middleware.errors import ParameterError, needs

with needs("gateway"):
    from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
    from pydantic_settings import BaseSettings

DEFAULT = "default"  # the policy of what no rule names

GUARDRAIL = "/beta/litellm_basic_guardrail_api"
PATHS = (
    *("/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings"),
    *("/v1/messages", GUARDRAIL),
)
ANTHROPIC = "/messages"  # what paths of its protocol begin with, behind the base URL

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,100}$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

_ENVIRONMENT = {"env_prefix": "DP_GATEWAY_", "env_nested_delimiter": "__"}
_Owner = Literal[
    "user_api_key_hash", "user_api_key_user_id", "user_api_key_team_id", "user_api_key_org_id"
]


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


class UpstreamSection(Section):
    """Who answers: it sees released text only.

    Attributes:
        url: Base of a service with OpenAI's or Anthropic's protocol, up to and with ``/v1``.
        models: Names that clients may ask for; others are refused, as they might hold text.
        seconds: Until it must have begun to answer, and between two pieces of its answer.
        max_bytes: Of one answer; a longer one is cut off with an error.
    """

    url: Annotated[str, Field(pattern=r"^https?://\S+$")]
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    seconds: Positive = 60.0
    max_bytes: Count = 16_000_000


class Policy(Section):
    """How private text becomes released text.

    Attributes:
        mode: ``"sanitizer"``, ``"pseudonyms"`` or ``"both"``: pseudonyms with the rest perturbed.
        epsilon: Nats per token, or for a mechanism of whole texts per ``unit``; certified.
        mechanism: A name of ``dp.MECHANISMS``.
        unit: What epsilon of a mechanism of whole texts is for: a ``"text"``, or ``"sentence"``.
        kinds: Which kinds get pseudonyms; empty: all that the detector knows.
        on_empty: What happens to a text in which no entity is found, in mode ``"pseudonyms"``:
            ``"raise"`` refuses it, ``"pass"`` sends it as it is.
        on_language: What happens in mode ``"pseudonyms"`` to a text in a language whose names the
            detector does not know: ``"refuse"``, ``"warn"`` or ``"pass"``.
        law: ``"keyed"``, in mode ``"pseudonyms"``: they follow from ``$DP_GATEWAY_PSEUDONYM_KEY``,
            and all gateways with that key agree. Default: drawn, once for each conversation.
        rest: ``"common"``, in mode ``"pseudonyms"``: of what gets no pseudonym only words of a
            public list go out, every other one as a label. Default: all of it.
        system: Whether system prompts are private (``"release"``) or ``"public"``, sent as is.
        tools: ``"public"``: definitions of tools are sent as they are; else they are refused.
        response_format: As ``tools``, for JSON schemas of answers.
        stop: As ``tools``, for stop sequences.
        answers: What happens to an assistant's message that the gateway has not seen: ``"refuse"``,
            or ``"public"``: it goes out as it is; under pseudonyms with these, and only if it is
            words: calls of tools, refusals and reasoning stay refused. Not with an extractor in
            mode ``"sanitizer"``.
        tool_originals: Names of the tools that are called with the originals of pseudonyms, or
            ``["all"]``; others are called with pseudonyms.
        extractor: A local model that fits answers of ``/v1/chat/completions`` to the private text
            (InferDPT), as ``ollama:MODEL`` or ``openai:MODEL@URL``; on loopback or in
            ``trusted_hosts``. ``None``: none.
        trusted_hosts: Further hosts that may see raw text.
    """

    mode: Literal["sanitizer", "pseudonyms", "both"] = "sanitizer"
    epsilon: Positive = 10.0
    mechanism: str = "nearest-response"
    unit: Literal["text", "sentence"] = "text"
    kinds: tuple[str, ...] = ()
    on_empty: Literal["raise", "pass"] = "raise"
    on_language: Literal["refuse", "warn", "pass"] = "refuse"
    law: Literal["keyed"] | None = None
    rest: Literal["common"] | None = None
    system: Literal["release", "public"] = "release"
    tools: Literal["refuse", "public"] = "refuse"
    response_format: Literal["refuse", "public"] = "refuse"
    stop: Literal["refuse", "public"] = "refuse"
    answers: Literal["refuse", "public"] = "refuse"
    tool_originals: tuple[str, ...] = ()
    extractor: str | None = None
    trusted_hosts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        """A sanitizer's session sends public answers as they are, so a local one once forgotten."""
        if self.mode != "pseudonyms" and (self.rest or self.law):
            raise ValueError('expected mode = "pseudonyms" with rest or law')
        if self.mode == "sanitizer" and self.extractor is not None and self.answers == "public":
            raise ValueError(
                'expected answers = "refuse" with an extractor in mode "sanitizer": its answers '
                "are private, and one that is forgotten would be sent as it is"
            )
        return self


class Client(Section):
    """Who may ask.

    Attributes:
        id: Public; a subject may have several, and no release is shared between them.
        subject: Whose budget is charged.
        key_hash: Of the key, as ``dp-middleware serve --new-client`` prints it.
        budget: Nats, if it is not the ledger's; given once.
    """

    id: Name
    subject: Name
    key_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    budget: Positive | None = None


class LedgerSection(Section):
    """Where charges are kept.

    Attributes:
        url: ``sqlite:///FILE`` or ``postgresql+psycopg://HOST/NAME``; ``None``: nothing is
            charged, and nothing is limited.
        budget: Nats per subject; ``None``: that of an existing ledger.
        window: Seconds for which a charge counts; ``None``: for ever.
    """

    url: Annotated[str | None, Field(repr=False)] = None
    budget: Positive | None = None
    window: Positive | None = None


class Limits(Section):
    """What one client, or one request, may take.

    Attributes:
        body_bytes: Of a request.
        body_seconds: Until its body is here.
        seconds: For a whole answer, also a streamed one.
        requests_per_minute: Of a client, in one worker.
        concurrent: Requests at once, in one worker.
    """

    body_bytes: Count = 1_000_000
    body_seconds: Positive = 10.0
    seconds: Positive = 600.0
    requests_per_minute: Count = 600
    concurrent: Count = 512


class Settings(BaseSettings):
    """Configures a gateway. Frozen; its ``repr`` holds no secret.

    What is in the environment comes first: ``$DP_GATEWAY_LEDGER__URL`` for ``url`` in ``[ledger]``.

    Attributes:
        secret: Keys the hashes of client keys and of what is remembered; from
            ``$DP_GATEWAY_SECRET``, never from the file. 32 characters or more.
        upstream_key: The upstream's, from ``$DP_GATEWAY_UPSTREAM_KEY``.
        upstream: Who answers.
        policies: By name; ``"default"`` is that of every request without a rule.
        rules: The first one that fits a request tells its policy.
        clients: Who may ask.
        ledger: Where charges are kept.
        memo: Name of SQLite files, one per client (``memo-ann.db`` for ``memo.db``), that keep
            releases over restarts, for the workers of one machine; ``None``: memory, of one worker.
        memo_entries: Most that is kept of a client, two per message; the oldest are dropped.
        limits: What a client or request may take.
        guardrail_subject: Which field of LiteLLM's tells whose budget a client that is a proxy
            charges: ``ann/jo`` for its user ``jo``; ``None``: the subject of the client itself.
        playground: Whether the page at ``/`` is served, to this machine only.
    """

    model_config: ClassVar[Any] = {**Section.model_config, **_ENVIRONMENT}

    secret: Annotated[SecretStr, Field(min_length=32)]
    upstream_key: SecretStr = SecretStr("")
    upstream: UpstreamSection
    policies: dict[str, Policy] = {"default": Policy()}
    rules: tuple[Rule, ...] = ()
    clients: tuple[Client, ...] = ()
    ledger: LedgerSection = LedgerSection()
    memo: Path | None = None
    memo_entries: Annotated[int, Field(ge=2)] = 100_000
    limits: Limits = Limits()
    guardrail_subject: _Owner | None = None
    playground: bool = False

    @model_validator(mode="after")
    def _names_are_there(self) -> Self:
        ids = [client.id for client in self.clients]
        named = {"model": self.upstream.models, "client": ids, "path": PATHS}
        for field, known in {**named, "policy": self.policies}.items():
            if not {getattr(rule, field) for rule in self.rules} <= {*known, None}:
                raise ValueError(f"expected in rules each {field} as one that there is")
        if DEFAULT not in self.policies or len({*ids}) < len(ids):
            raise ValueError("expected a policy 'default', and distinct ids of clients")
        return self

    def policy_of(self, path: str, model: object = None, client: str | None = None) -> str:
        """Returns the name of the policy of a request: that of the first rule that fits."""
        asked = {"path": path.removesuffix("/count_tokens"), "model": model, "client": client}
        for rule in self.rules:
            if all(getattr(rule, name) in (None, given) for name, given in asked.items()):
                return rule.policy
        return DEFAULT

    @classmethod
    def settings_customise_sources(cls, _: Any, **sources: Any) -> Any:  # type: ignore[override]
        """Has the environment before the file."""
        return sources["env_settings"], sources["init_settings"]

    @property
    def fixed(self) -> dict[str, Any]:
        """What a running gateway keeps: all but policies, rules, clients, limits and models."""
        changing = dict.fromkeys(("policies", "rules", "clients", "limits"), True)
        return self.model_dump(exclude={**changing, "upstream": {"models"}})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Settings:
        """Returns the settings in a TOML file; what the environment says comes before it.

        Raises:
            ParameterError: No such file, not TOML, or not what it should be; quotes no value.
        """
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            what = type(error).__name__
            raise ParameterError(f"expected a TOML file for the gateway, got {what}") from None
        for name in ("secret", "upstream_key"):
            if name in data:
                where = f"$DP_GATEWAY_{name.upper()}"
                raise ParameterError(f"expected {name} in {where}, got it in the file")
        return cls.of(**data)

    @classmethod
    def of(cls, **data: Any) -> Settings:
        """Returns the settings in a dict, as in the file; ParameterError quotes no value."""
        try:
            return cls(**data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "the settings"
            raise ParameterError(f"{where}: {first['msg']}") from None
