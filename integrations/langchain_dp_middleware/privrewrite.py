"""PrivRewrite as the head of a chain: a private rewrite is what the chain is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.runnables.config import RunnableConfig, set_config_context

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from langchain_dp_middleware._boundary import guarded, refuse_outer_run
from langchain_dp_middleware._composition import Head


@dataclass(frozen=True, eq=False, repr=False)
class PrivRewriteRunnable(Head):
    """From a private text to its rewrite, which may be published; a text in, a text out.

    It goes first, as :class:`PrivateHead` does: ``PrivRewriteRunnable(rewriter) | model`` runs
    the model behind the boundary, and inside another run, which has its input, it refuses to
    run. Every call is charged for both phases of :class:`dp.PrivRewrite`. Callbacks around the
    call see what the generator is asked: the sanitized text.

    Attributes:
        rewriter: A ``dp.PrivRewrite``.

    Raises:
        ParameterError: From a call, before anything is charged: not a text, or inside another run.
        DPMiddlewareError: From a call: the rewrite failed. Holds no text.

    Example:
        >>> import dp_middleware as dp
        >>> space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
        >>> rewriter = dp.PrivRewrite(
        ...     dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space),
        ...     generator=lambda messages: "red",
        ...     k=1,
        ... )
        >>> PrivRewriteRunnable(rewriter).invoke("red blue")
        'red'
    """

    rewriter: dp.PrivRewrite

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rewriter, dp.PrivRewrite):
            raise ParameterError(f"expected a dp.PrivRewrite, got {type(self.rewriter).__name__}")

    def __repr__(self) -> str:
        rest = "" if self.then is None else f"\n| {self.then!r}"
        return f"PrivRewriteRunnable({self.rewriter!r}){rest}"

    def _enter(self, value: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        merged = self._checked(value, config)
        with set_config_context(merged) as context:
            release = context.run(guarded, lambda: self.rewriter.rewrite(value), "the rewrite")
        return release.text, merged

    def _checked(self, value: Any, config: RunnableConfig | None) -> RunnableConfig:
        merged = self._merged(config)
        refuse_outer_run(merged, "PrivRewriteRunnable")
        if not isinstance(value, str):
            raise ParameterError(f"expected text of type str, got {type(value).__name__}")
        return merged
