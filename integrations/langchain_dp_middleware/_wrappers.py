"""LangChain's own wrappers of a Runnable, which record its raw input in a run of their own."""

from __future__ import annotations

from typing import Any

from dp_middleware.errors import ParameterError

_REMEDIES = {
    "map": "call batch()",
    "as_tool": "call it inside no tool",
    "with_retry": "retry around the call, or put the part that fails behind a PrivateHead",
    "with_fallbacks": "fall back around the call, or put the part that fails behind a PrivateHead",
}


class RefusedWrappers:
    """Refuses what LangChain would trace the raw input of, before the adapter could.

    Raises:
        ParameterError: From each method, unless what is recorded was declared public.
    """

    @property
    def _may_be_recorded(self) -> bool:
        """Whether a run around the call may record its input."""
        return False

    def map(self) -> Any:
        """Refused: LangChain would trace the list of raw inputs."""
        return self._wrapped("map")()

    def as_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: LangChain would trace the raw arguments of the tool."""
        return self._wrapped("as_tool")(*args, **kwargs)

    def with_retry(self, **kwargs: Any) -> Any:
        """Refused: LangChain would trace the raw input of the tries."""
        return self._wrapped("with_retry")(**kwargs)

    def with_fallbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: LangChain would trace the raw input that the fallbacks are given."""
        return self._wrapped("with_fallbacks")(*args, **kwargs)

    def _wrapped(self, name: str) -> Any:
        if not self._may_be_recorded:
            raise ParameterError(
                f"{name}() of {type(self).__name__} would trace raw inputs; {_REMEDIES[name]}"
            )
        return getattr(super(), name)
