"""PrivRewrite as the head of a chain: a private rewrite is what the chain is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.runnables.config import RunnableConfig, set_config_context

import dp_middleware as dp
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.privacy.releases import receipts
from langchain_dp_middleware._boundary import OWN, asked_of, refuse_outer_run
from langchain_dp_middleware._calls import Entered
from langchain_dp_middleware._messages import read_input
from langchain_dp_middleware.head import Head


@dataclass(frozen=True, eq=False, repr=False)
class PrivRewriteRunnable(Head):
    """Makes of a private text its rewrite, which may be published; of the same kind.

    A text gives a text; a prompt value, list of messages or dict that holds one private text gives
    one with the rewrite in its place. It goes first, as :class:`PrivateHead` does, and refuses to
    run inside another run. Every call is charged for both phases of :class:`dp.PrivRewrite`.
    Callbacks around the call see what the generator is asked: the sanitized text.

    Attributes:
        rewriter: A ``dp.PrivRewrite``.
    """

    rewriter: dp.PrivRewrite

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rewriter, dp.PrivRewrite):
            raise ParameterError(f"expected a dp.PrivRewrite, got {type(self.rewriter).__name__}")

    def __repr__(self) -> str:
        rest = "" if self.then is None else f"\n| {self.then!r}"
        return f"PrivRewriteRunnable({self.rewriter!r}){rest}"

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        merged = self._merged(config)
        refuse_outer_run(merged, "PrivRewriteRunnable")
        if asked := [name for name in OWN if asked_of(merged).get(name) is not None]:
            raise ParameterError(
                f"PrivRewriteRunnable takes no {asked[0]} in the config; make another rewriter"
            )
        text, build = guarded(lambda: _one_text(value))
        with receipts() as receipt, set_config_context(merged) as context:
            release = context.run(guarded, lambda: self.rewriter.rewrite(text), what="the rewrite")
        return Entered(rest=self._rest, input=build(release.text), config=merged, receipt=receipt)


def _one_text(value: Any) -> tuple[str, Callable[[str], Any]]:
    """The private text of an input, and how the rewrite is put in its place."""
    private = read_input(None, value, "pass")
    events = [message for message in private.transcript if not message.public]
    if len(events) != 1 or len(events[0].texts) != 1 or events[0].role == "assistant":
        raise ParameterError(
            f"expected one private text, or one human message, got {len(events)} messages; "
            "rewrite them one by one"
        )

    def build(text: str) -> Any:
        sent = (m if m.public else replace(m, texts=(text,)) for m in private.transcript)
        return private.copy(list(sent))

    return events[0].text, build
