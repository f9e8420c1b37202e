"""What is made of an adapter: refused where it would see raw input, or a binding that refuses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from langchain_core.runnables import RunnableBinding
from pydantic import Field

from dp_middleware.errors import ParameterError

_REMEDIES = {
    "map": "call batch()",
    "as_tool": "call it inside no tool",
    "with_retry": "retry around the call, or put the part that fails behind a PrivateHead",
    "with_fallbacks": "fall back around the call, or put the part that fails behind a PrivateHead",
    "configurable_alternatives": "choose before you wrap",
}
_HANDS_ON = ("with_fallbacks", "configurable_alternatives")  # raw input to other Runnables


_WAYS = {
    "_wrapped": "refused, unless its input is public",
    "_derived": "refuses the same wrappers",
    "_with_rest": "made of the rest",
    "_batched": "a release for each input",
}


def by_way(way: str, name: str) -> Any:
    """A method of a Runnable that goes by another method of the adapter, which gets its name."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, way)(name, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"As :meth:`Runnable.{name}`: {_WAYS[way]}."
    return method


class RefusedWrappers:
    """Refuses what would trace raw input or hand it on, also on all that derives from it."""

    @property
    def _allowed(self) -> Collection[str]:
        """For raw input: "record", runs around the call may; "send", fallbacks may be given it."""
        return ()

    @property
    def _component(self) -> Any:
        """The adapter that the answers to these come from."""
        return self

    @property
    def _behind(self) -> Any:
        """What stands for the adapter where the input was released already."""
        return self

    map = by_way("_wrapped", "map")
    with_retry = by_way("_wrapped", "with_retry")
    pipe = by_way("_wrapped", "pipe")
    __or__ = by_way("_wrapped", "__or__")
    with_fallbacks = by_way("_wrapped", "with_fallbacks")
    configurable_alternatives = by_way("_wrapped", "configurable_alternatives")

    bind = by_way("_derived", "bind")
    with_config = by_way("_derived", "with_config")
    with_types = by_way("_derived", "with_types")
    with_listeners = by_way("_derived", "with_listeners")
    with_alisteners = by_way("_derived", "with_alisteners")
    configurable_fields = by_way("_derived", "configurable_fields")

    def as_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses, unless its input is public: LangChain would trace the raw arguments."""
        self._require_public("as_tool")
        return self._plain("as_tool", *args, **kwargs)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(), name)(*args, **kwargs)

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> PrivateBinding:
        return PrivateBinding(bound=self._plain(name, *args, **kwargs), component=self._component)

    def _wrapped(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        self._require_public(name)
        return self._derived(name, *args, **kwargs)

    def _require_public(self, name: str) -> None:
        if ("send" if name in _HANDS_ON else "record") not in self._allowed:
            raise ParameterError(
                f"{name}() of {type(self._component).__name__} would trace raw inputs or hand "
                f"them on; {_REMEDIES.get(name, 'put a PrivateHead first')}"
            )


class PrivateBinding(RefusedWrappers, RunnableBinding[Any, Any]):
    """Something made of an adapter, its ``component``, with what that refuses."""

    component: Any = Field(exclude=True, repr=False)

    @property
    def _component(self) -> Any:
        return self.component

    @property
    def _allowed(self) -> Collection[str]:
        return cast("Collection[str]", self._component._allowed)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.bound, name)(*args, **kwargs)
