"""The sanitizer as a plain step of a chain, for chains that nothing traces."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig

from langchain_dp_middleware._boundary import check_fields, cross, refuse_outer_run
from langchain_dp_middleware._calls import Entered, ReleasedCalls
from langchain_dp_middleware._messages import one_of, read_input

REMEDY = (
    "put a PrivateHead first instead, or, if all that records this chain may see raw text, set "
    'traced="allow"'
)


@dataclass(frozen=True, eq=False, repr=False)
class DPSanitizer(ReleasedCalls, Runnable[Any, Any]):
    """Releases what passes through: text, prompt values, messages, or chosen keys of a dict.

    In the middle of a chain callbacks and tracers of the sequence have recorded the raw text. So it
    refuses to run inside another run unless ``traced="allow"`` declares that these may see it.
    Without such a reason use :class:`PrivateHead`, whose fields these are but for ``traced``.

    Attributes:
        traced: ``"refuse"`` or ``"allow"`` to run inside another run.

    Raises:
        ParameterError: From a call, before anything is charged: inside another run, or an input
            that cannot be released.
    """

    session: Any
    keys: Collection[str] | None = None
    max_epsilon: float | None = None
    traced: Literal["refuse", "allow"] = "refuse"
    system: Literal["pass", "release"] = "pass"
    ai: Literal["noted", "pass"] = "noted"

    def __post_init__(self) -> None:
        check_fields(self)
        one_of(("refuse", "allow"), "traced", self.traced)

    def __repr__(self) -> str:
        return f"DPSanitizer({self.session!r}, keys={self.keys!r}, traced={self.traced!r})"

    @property
    def _allowed(self) -> Collection[str]:
        return ("record",) if self.traced == "allow" else ()

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        config = config or RunnableConfig()
        if self.traced == "refuse":
            refuse_outer_run(config, "DPSanitizer", REMEDY)
        [(released, _)] = cross(self, [value], partial(read_input, self.keys), config)
        return Entered(input=released, config=config)
