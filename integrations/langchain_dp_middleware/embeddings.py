"""Vectors of released text, for an embedding model or a vector store that may not see the raw."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

from dp_middleware.errors import ParameterError
from dp_middleware.sessions.boundary import guarded, session_of
from dp_middleware.sessions.session import ONCE
from langchain_dp_middleware._session import at_epsilon, require_epsilon


class DPEmbeddings(Embeddings):
    """Releases every text, then embeds what was released.

    Every text of every call is a new release and a new charge: an embedding model is given no
    ids, and looking texts up by their content would tell which are equal. To embed documents
    once, and have their texts agree with their vectors, release them with a
    :class:`DPDocumentTransformer` and embed those with the inner model.

    Args:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` that is wrapped in one.
        inner: Embeds; sees released text only, so it may be remote.
        epsilon: Nats per token occurrence, at most the sanitizer's own, which is the default.

    Raises:
        ParameterError: ``inner`` is no LangChain embedding model, or ``epsilon`` no number.
        DPMiddlewareError: From a call: the release failed, and nothing was embedded. Holds no
            text.

    Example:
        >>> import dp_middleware as dp
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
        >>> sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
        >>> len(DPEmbeddings(sanitizer, DeterministicFakeEmbedding(size=3)).embed_query("red"))
        3
    """

    def __init__(self, session: Any, inner: Any, *, epsilon: float | None = None) -> None:
        if not isinstance(inner, Embeddings):
            raise ParameterError(
                f"expected a LangChain embedding model, got {type(inner).__name__}"
            )
        require_epsilon(epsilon)
        self._session = at_epsilon(session_of(session), epsilon, None)
        self._inner = inner

    def __repr__(self) -> str:
        return f"DPEmbeddings({self._session!r}, {type(self._inner).__name__})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        return self._inner.embed_documents(self._released(texts))

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text."""
        return self._inner.embed_query(*self._released([text]))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """As :meth:`embed_documents`; the release runs in a thread."""
        return await self._inner.aembed_documents(await self._areleased(texts))

    async def aembed_query(self, text: str) -> list[float]:
        """As :meth:`embed_query`; the release runs in a thread."""
        return await self._inner.aembed_query(*await self._areleased([text]))

    def _released(self, texts: Sequence[str]) -> list[str]:
        def work() -> list[str]:
            events = [(ONCE, "user", text) for text in texts]
            return [release.text for release in self._session.release_many(events)]

        return guarded(work)

    async def _areleased(self, texts: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._released, texts)
