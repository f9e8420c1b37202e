"""What is made of an adapter: refused where it would see raw input, or a binding that refuses."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableBinding
from pydantic import Field

from dp_middleware.errors import ParameterError

Kind = TypeVar("Kind", bound=type)

_REMEDIES = {
    "map": "call batch()",
    "as_tool": "call it inside no tool",
    "with_retry": "retry around the call, or put the part that fails behind a PrivateHead",
    "with_fallbacks": "fall back around the call, or put the part that fails behind a PrivateHead",
    "configurable_alternatives": "choose before you wrap",
}
_HANDS_ON = ("with_fallbacks", "configurable_alternatives")  # raw input to other Runnables
_WRAPPERS = ("map", "with_retry", "pipe", "__or__", *_HANDS_ON)
LISTENERS = ("with_types", "with_listeners", "with_alisteners")


def by_way(way: str, *names: str) -> Callable[[Kind], Kind]:
    """Gives a class methods of a Runnable that go by another of its methods, told their names."""

    def method_of(name: str) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(self, way)(name, *args, **kwargs)

        return method

    def decorated(kind: Kind) -> Kind:
        for name in names:
            setattr(kind, name, method_of(name))
        return kind

    return decorated


@by_way("_wrapped", *_WRAPPERS)
@by_way("_derived", "bind", "with_config", "configurable_fields", *LISTENERS)
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
