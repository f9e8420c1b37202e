"""Queries: a released bundle in place of the raw one."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any
from uuid import uuid4

from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import NodeWithScore, QueryBundle

import dp_middleware as dp
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError
from llama_index_dp_middleware._blocks import in_block, unspanned
from llama_index_dp_middleware.nodes import CONVERSATION


class DPQueryTransform(BaseQueryTransform):
    """Gives a new query bundle that holds the released query and nothing else.

    One bundle has one release, though ``TransformQueryEngine`` transforms it twice. Bundles are
    told apart as objects: an equal query in another one is a new release, as is every plain string.
    ``TransformQueryEngine.query`` itself records the raw query; :class:`DPQueryEngine` does not.

    Attributes:
        session: Releases the queries.

    Raises:
        ParameterError: From a call: a query with an image; nothing was charged.
        DPMiddlewareError: From a call: the release failed. Holds no text.
    """

    def __init__(self, session: dp.Session | dp.Sanitizer) -> None:
        self.session = session_of(session)
        self._events: dict[int, str] = {}
        self._lock = Lock()

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """There are none."""

    @unspanned
    def _run(self, query_bundle: QueryBundle, metadata: dict[str, Any]) -> QueryBundle:
        return self._release(query_bundle)

    async def arun(self, query_bundle: QueryBundle) -> QueryBundle:
        return await asyncio.to_thread(self._release, query_bundle)

    def _release(self, bundle: QueryBundle) -> QueryBundle:
        [sent] = self.exchange(bundle).sent
        return QueryBundle(sent.text)

    def exchange(
        self, bundle: QueryBundle, nodes: Sequence[NodeWithScore] = (), quoted: Iterable[str] = ()
    ) -> Exchange:
        """Releases a query behind nodes for it; ``quoted``: released ones, found by an engine."""
        require_words(bundle)
        with self._lock:  # a bundle keeps the id of its event for as long as it lives
            if id(bundle) not in self._events:
                self._events[id(bundle)] = str(uuid4())
                weakref.finalize(bundle, self._events.pop, id(bundle), None)
            event_id = self._events[id(bundle)]
        passages = {scored.node.id_: scored.node.get_content() for scored in nodes}
        transcript = [
            *(Message(role="tool", texts=(text,), id=name) for name, text in passages.items()),
            Message(role="user", texts=(bundle.query_str,), id=event_id),
        ]
        session = in_block(self.session)
        return session.exchange(transcript, conversation=CONVERSATION, quoted=quoted)


def require_words(bundle: QueryBundle) -> None:
    """Refuses a query with an image, before anything is charged or sees it."""
    if bundle.image_path is not None:
        raise ParameterError("expected a query of text only; an image cannot be released")
