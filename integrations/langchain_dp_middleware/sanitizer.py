"""The sanitizer as a plain step of a chain, for chains that nothing traces."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import Field

from langchain_dp_middleware._boundary import (
    MODEL_CONFIG,
    cross,
    fields_of,
    names_of,
    refuse_outer_run,
)
from langchain_dp_middleware._calls import Entered, ReleasedCalls
from langchain_dp_middleware._messages import read_input

REMEDY = (
    "put a PrivateHead first instead, or, if all that records this chain may see raw text, set "
    'traced="allow"'
)


class DPSanitizer(ReleasedCalls, RunnableSerializable[Any, Any]):
    """Releases what passes through: text, prompt values, messages, or chosen keys of a dict.

    In the middle of a chain callbacks and tracers of the sequence have recorded the raw text. So it
    refuses to run inside another run unless ``traced="allow"`` declares that these may see it.
    Without such a reason use :class:`PrivateHead`, which has the same fields but for two. Dumped,
    it shows its public parameters, never the session, and cannot be loaded without one.

    Attributes:
        epsilon: Nats per token occurrence, asked for at every call; None: the sanitizer's own.
        traced: ``"refuse"`` or ``"allow"`` to run inside another run.
    """

    model_config = MODEL_CONFIG

    session: Any = Field(exclude=True, repr=False)
    keys: tuple[str, ...] | None = None
    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_epsilon: float | None = None
    traced: Literal["refuse", "allow"] = "refuse"
    system: Literal["pass", "release"] = "pass"
    ai: Literal["noted", "pass"] = "noted"
    on_other: Literal["raise", "drop", "pass"] = "raise"

    def __init__(self, session: Any = None, **options: Any) -> None:
        keys = names_of(options.get("keys"))
        super().__init__(**fields_of(type(self), session, options, keys=keys))

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Yes: the public parameters."""
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Where the class is imported from."""
        return ["langchain_dp_middleware", "sanitizer"]

    @property
    def _allowed(self) -> Collection[str]:
        return ("record",) if self.traced == "allow" else ()

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        config = config or RunnableConfig()
        if self.traced == "refuse":
            refuse_outer_run(config, "DPSanitizer", REMEDY)
        read = partial(read_input, self.keys)
        [(released, _)] = cross(self, [value], read, config, epsilon=self.epsilon)
        return Entered(input=released, config=config)
