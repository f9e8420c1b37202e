"""Vectors of released text, or released vectors of text, for what may not see the raw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

import dp_middleware as dp
from dp_middleware.conversation.session import ONCE, session_of
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.models.embedders import embedding_service
from dp_middleware.privacy.releases import Ledger
from dp_middleware.sanitizers.vectors import VectorSanitizer
from langchain_dp_middleware._boundary import for_subject


class DPEmbeddings(Embeddings):
    """Releases every text and embeds what was released, or embeds it and releases the vector.

    Asynchronous calls run in a thread.

    With a session or sanitizer, the inner model sees released text only. With a
    ``dp.VectorResponse`` the inner model sees raw text and must be local; what leaves is one random
    vector per text. Every text of every call is a new release and a new charge; to embed documents
    once, release them with a :class:`DPDocumentTransformer` and embed those.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` or a ``dp.VectorResponse``.
        inner: Embeds. For a ``dp.VectorResponse`` it must be local, and may be a
            ``dp.EmbeddingService``.
        ledger: For a ``dp.VectorResponse``: charged once per text, before the draw.
        subject: For a ``dp.VectorResponse``: whose budget is charged; needed with a ledger.
        trusted_hosts: For a ``dp.VectorResponse``: hosts that may see raw text.

    Raises:
        ParameterError: ``inner`` embeds nothing, or an option is of no use here.
        UntrustedHost: The inner model of a ``dp.VectorResponse`` is remote.
        DPMiddlewareError: From a call: the release failed, nothing was embedded. Holds no text.
    """

    def __init__(
        self,
        session: Any,
        inner: Any,
        *,
        ledger: Ledger | None = None,
        subject: str | None = None,
        trusted_hosts: Iterable[str] = (),
    ) -> None:
        self._vectors: VectorSanitizer | None = None
        if isinstance(session, dp.VectorResponse):
            service = embedding_service(inner, trusted_hosts=trusted_hosts)
            self._vectors = VectorSanitizer(session, service, ledger=ledger, subject=subject)
            return
        if ledger is not None or subject is not None or tuple(trusted_hosts):
            raise ParameterError(
                "expected ledger=, subject= and trusted_hosts= with a dp.VectorResponse only: a "
                "session has a ledger, and its inner model sees released text"
            )
        self._session = session_of(session)
        if not isinstance(inner, Embeddings):
            kind = type(inner).__name__
            raise ParameterError(f"expected a LangChain embedding model, got {kind}")
        self._inner = inner

    def __repr__(self) -> str:
        return f"DPEmbeddings({self._vectors or self._session!r})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self._vectors is not None:
            return guarded(self._vectors.release, texts)
        return self._inner.embed_documents(self._released(texts))

    def embed_query(self, text: str) -> list[float]:
        if self._vectors is not None:
            return self.embed_documents([text])[0]
        return self._inner.embed_query(*self._released([text]))

    def _released(self, texts: Sequence[str]) -> list[str]:
        def work() -> list[str]:
            events = [(ONCE, "user", text) for text in texts]
            session = for_subject(self._session, None)
            return [release.text for release in session.release_many(events)]

        return guarded(work)
