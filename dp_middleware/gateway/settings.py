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
    """Says which policy holds for some requests; what is not said, any request has."""

    policy: str  # its name
    path: str | None = None  # "/v1/messages": also what counts its tokens
    model: str | None = None  # which the request asks for: its client chooses
    client: str | None = None  # its id


class UpstreamSection(Section):
    """Who answers: it sees released text only."""

    url: Annotated[str, Field(pattern=r"^https?://\S+$")]  # up to and with /v1
    models: Annotated[
        tuple[str, ...], Field(min_length=1)
    ]  # others, as texts might be, are refused
    seconds: Positive = 60.0  # until an answer begins, and between two pieces of it
    max_bytes: Count = 16_000_000  # of one answer; a longer one is cut off with an error


class Policy(Section):
    """How private text becomes released text; ``docs/gateway.toml`` tells what each value means."""

    mode: Literal["sanitizer", "pseudonyms", "both"] = "sanitizer"
    epsilon: Positive = (
        10.0  # nats per token, or for a mechanism of whole texts per unit; certified
    )
    mechanism: str = "nearest-response"  # a name of dp.MECHANISMS
    unit: Literal["text", "sentence"] = "text"
    kinds: tuple[str, ...] = ()  # empty: all that the detector knows
    on_empty: Literal["raise", "pass"] = "raise"
    on_language: Literal["refuse", "warn", "pass"] = "refuse"
    law: Literal["keyed"] | None = None
    rest: Literal["common"] | None = None
    system: Literal["release", "public"] = "release"
    tools: Literal["refuse", "public"] = "refuse"
    response_format: Literal["refuse", "public"] = "refuse"
    stop: Literal["refuse", "public"] = "refuse"
    answers: Literal["refuse", "public"] = "refuse"  # of an assistant's that were not seen
    tool_originals: tuple[str, ...] = ()
    extractor: str | None = None  # "ollama:MODEL" or "openai:MODEL@URL"
    trusted_hosts: tuple[str, ...] = ()  # that may see raw text

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
    """Who may ask; a subject may have several, and no release is shared between them."""

    id: Name  # public
    subject: Name  # whose budget is charged
    key_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]  # as serve prints it
    budget: Positive | None = None  # nats, if it is not the ledger's; given once


class LedgerSection(Section):
    """Where charges are kept."""

    url: Annotated[str | None, Field(repr=False)] = None  # none: nothing is charged or limited
    budget: Positive | None = None  # nats per subject; none: that of an existing ledger
    window: Positive | None = None  # seconds for which a charge counts; none: for ever


class Limits(Section):
    """What one client, or one request, may take."""

    body_bytes: Count = 1_000_000  # of a request
    body_seconds: Positive = 10.0  # until its body is here
    seconds: Positive = 600.0  # for a whole answer, also a streamed one
    requests_per_minute: Count = 600  # of a client, in one worker
    concurrent: Count = 512  # at once, in one worker


class Settings(BaseSettings):
    """Configures a gateway. Frozen; its ``repr`` holds no secret.

    What is in the environment comes first: ``$DP_GATEWAY_LEDGER__URL`` for ``url`` in ``[ledger]``.
    ``secret``, 32 characters or more, keys the hashes of client keys and what is remembered; it and
    ``upstream_key`` are never in the file.
    """

    model_config: ClassVar[Any] = {**Section.model_config, **_ENVIRONMENT}

    secret: Annotated[SecretStr, Field(min_length=32)]
    upstream_key: SecretStr = SecretStr("")
    upstream: UpstreamSection
    policies: dict[str, Policy] = {"default": Policy()}  # "default": where no rule fits
    rules: tuple[Rule, ...] = ()  # the first one that fits tells the policy
    clients: tuple[Client, ...] = ()
    ledger: LedgerSection = LedgerSection()
    memo: Path | None = None  # for memo.db a file memo-ann.db for ann; none: memory, of one worker
    memo_entries: Annotated[int, Field(ge=2)] = 100_000  # of a client, two per message
    limits: Limits = Limits()
    guardrail_subject: _Owner | None = None  # whose budget a proxy charges; none: its own
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
        """Returns the settings in a TOML file and the environment; ParameterError as :meth:`of`."""
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
