"""Vectors of released text, or released vectors of text, for what may not see the raw."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.session import ONCE, session_of
from dp_middleware.errors import ParameterError
from dp_middleware.models.embedders import embedding_service
from dp_middleware.privacy.releases import Ledger
from dp_middleware.sanitizers.vectors import VectorSanitizer
from langchain_dp_middleware._boundary import at_most, for_subject, require_epsilon


class DPEmbeddings(Embeddings):
    """Releases every text and embeds what was released, or embeds it and releases the vector.

    With a session or sanitizer, the inner model sees released text only. With a
    ``dp.VectorResponse`` the inner model sees raw text and must be local; what leaves is one random
    vector per text, for a guarantee that holds between any two texts.

    Every text of every call is a new release and a new charge: an embedding model is given no
    ids, and looking texts up by their content would tell which are equal; so do not put a cache
    around it that does, as ``CacheBackedEmbeddings``. To embed documents once, and have their
    texts agree with their vectors, release them with a :class:`DPDocumentTransformer` and embed
    those with the inner model.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` that is wrapped in one, or a
            ``dp.VectorResponse``.
        inner: Embeds. It may be remote, but for a ``dp.VectorResponse``.
        epsilon: Nats per token occurrence, at most the sanitizer's own, which is the default. A
            ``dp.VectorResponse`` has its own, per text.
        ledger: For a ``dp.VectorResponse``: charged once per text, before the draw. A session has
            its own, ``session.sanitizer.ledger``.
        subject: Whose budget is charged; needed with a ledger.
        trusted_hosts: For a ``dp.VectorResponse``: hosts that may see raw text.

    Raises:
        ParameterError: ``inner`` is no LangChain embedding model, ``epsilon`` no number, or an
            option is of no use here.
        UntrustedHost: Raw text would leave: the inner model of a ``dp.VectorResponse`` is remote.
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

    def __init__(
        self,
        session: Any,
        inner: Any,
        *,
        epsilon: float | None = None,
        ledger: Ledger | None = None,
        subject: str | None = None,
        trusted_hosts: Iterable[str] = (),
    ) -> None:
        if not isinstance(inner, Embeddings):
            raise ParameterError(
                f"expected a LangChain embedding model, got {type(inner).__name__}"
            )
        require_epsilon(epsilon=epsilon)
        self._inner = inner
        self._vectors: VectorSanitizer | None = None
        if isinstance(session, dp.VectorResponse):
            if epsilon is not None:
                raise ParameterError("expected no epsilon= with dp.VectorResponse(epsilon=...)")
            service = embedding_service(inner, trusted_hosts=trusted_hosts)
            self._vectors = VectorSanitizer(session, service, ledger=ledger, subject=subject)
            return
        if ledger is not None or subject is not None or tuple(trusted_hosts):
            raise ParameterError(
                "expected ledger=, subject= and trusted_hosts= with a dp.VectorResponse only: a "
                "session has a ledger, and its inner model sees released text"
            )
        self._session = at_most(session_of(session), epsilon)

    def __repr__(self) -> str:
        releases = self._vectors or self._session
        return f"DPEmbeddings({releases!r}, {type(self._inner).__name__})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        if self._vectors is not None:
            return guarded(self._vectors.release, texts)
        return self._inner.embed_documents(self._released(texts))

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text."""
        if self._vectors is not None:
            return self.embed_documents([text])[0]
        return self._inner.embed_query(*self._released([text]))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """As :meth:`embed_documents`; the release runs in a thread."""
        if self._vectors is not None:
            return await asyncio.to_thread(self.embed_documents, texts)
        return await self._inner.aembed_documents(await self._areleased(texts))

    async def aembed_query(self, text: str) -> list[float]:
        """As :meth:`embed_query`; the release runs in a thread."""
        if self._vectors is not None:
            return await asyncio.to_thread(self.embed_query, text)
        return await self._inner.aembed_query(*await self._areleased([text]))

    def _released(self, texts: Sequence[str]) -> list[str]:
        def work() -> list[str]:
            events = [(ONCE, "user", text) for text in texts]
            session = for_subject(self._session, None)
            return [release.text for release in session.release_many(events)]

        return guarded(work)

    async def _areleased(self, texts: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._released, texts)
