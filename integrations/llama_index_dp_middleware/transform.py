"""Ingestion: nodes enter the index released."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, TransformComponent

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded, public_keys
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError
from llama_index_dp_middleware._nodes import release_node, require_text
from llama_index_dp_middleware._silence import unspanned


class DPTransform(TransformComponent):
    """Releases the text of nodes; a step of an ``IngestionPipeline``, best the first one.

    Gives new nodes with the same ids. Of a node's metadata only the chosen keys are kept, of its
    relationships only the ids of its source and of the previous and the next node. Ids, order and
    the numbers of nodes and tokens are public. A node that is seen again with its id and text is
    answered from the session's memo and costs nothing; ids must be unique.

    With ``num_workers`` the component goes to other processes as its sanitizer, whose ledger is a
    database, and makes a new session there: all charges arrive, draws are independent, and the
    memo is not shared. A block of :func:`epsilon` does not reach them.

    What runs before it is local and holds raw text: steps before it and what the pipeline's cache
    and docstore keep of them, and ``IngestionPipeline.run``, whose own span holds its documents.
    Where spans are exported, run it in ``with unrecorded()``.

    Attributes:
        metadata: Keys of metadata that are public and kept.
        epsilon: Nats per token occurrence, the certified ones.
        settings: Fingerprint of the mechanism and its space.

    Raises:
        ParameterError: From a call: a node that is not text; nothing was charged. From pickling:
            a scope that cannot go to another process.
        DPMiddlewareError: From a call: the release failed. Holds no text.

    Example:
        >>> pipeline = IngestionPipeline(
        ...     transformations=[DPTransform(session, metadata=["page"]), SentenceSplitter()]
        ... )  # doctest: +SKIP
    """

    metadata: tuple[str, ...]
    epsilon: float
    settings: str
    _session: dp.Session = PrivateAttr()

    def __init__(
        self, session: dp.Session | dp.Sanitizer, *, metadata: Collection[str] = ()
    ) -> None:
        session = session_of(session)
        own = session.sanitizer.certificate
        settings = f"{own.mechanism}/{own.space}/{own.adjacency.fingerprint}"
        keys = public_keys(metadata)
        fields: Any = {"metadata": keys, "epsilon": own.epsilon, "settings": settings}
        super().__init__(**fields)
        self._session = session

    def __reduce__(self) -> tuple[Callable[..., DPTransform], tuple[Any, ...]]:
        """To another process goes the sanitizer: a session holds a key.

        Raises:
            ParameterError: A detector of the scope cannot go there, nor can pseudonyms.
        """
        if self._session.restores:
            raise ParameterError("expected no num_workers with pseudonyms: they stay in a process")
        scopes = dict(self._session.scopes)
        with suppress(Exception):  # whatever the detectors raise
            pickle.dumps(scopes)
            return _elsewhere, (self._session.sanitizer, scopes, self.metadata)
        raise ParameterError(
            "expected a scope= that can go to another process, got one that cannot be pickled; "
            "use a function of a module, functools.partial of one, or no num_workers"
        )

    @classmethod
    def class_name(cls) -> str:
        return "DPTransform"

    @unspanned
    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Released copies of nodes."""
        return guarded(self._release, nodes)

    @unspanned
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As a call, without blocking the event loop."""
        return await asyncio.to_thread(guarded, self._release, nodes)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Fields, and a random one that nobody keeps.

        The ingestion cache knows an entry by an unsalted hash of raw text and this. So it cannot
        be guessed from, and never gives one document's release for another with the same text;
        a node that is seen again is answered by the session.
        """
        return {**super().to_dict(**kwargs), "salt": uuid4().hex}

    def _release(self, nodes: Sequence[BaseNode]) -> list[BaseNode]:
        require_text(nodes)
        return [release_node(self._session, node, self.metadata) for node in nodes]


def _elsewhere(
    sanitizer: dp.Sanitizer, scopes: dict[str, Any], metadata: tuple[str, ...]
) -> DPTransform:
    return DPTransform(dp.Session(sanitizer, scope=scopes), metadata=metadata)
