"""Corpora: documents released one by one, without the metadata that nobody declared public."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from langchain_core.documents import BaseDocumentTransformer, Document

import dp_middleware as dp
from dp_middleware.conversation.events import public_texts
from dp_middleware.conversation.session import ONCE, session_of
from dp_middleware.errors import guarded
from langchain_dp_middleware._boundary import for_subject

_CONVERSATION = "\x1fdocuments"  # so that ids of documents are not taken for those of messages


class DPDocumentTransformer(BaseDocumentTransformer):
    """Releases documents, for an index or a model that may not see them.

    A document's id is its event: transformed again, or retrieved by a :class:`DPRetriever` of the
    same session, it is the same release and costs nothing; with another text, or without an id, it
    is a new release. Ids, their order and the number of documents are public, and are kept.

    Args:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` that is wrapped in one.
        metadata: Keys of the metadata that are public and kept as they are; all others are cut.

    Raises:
        ParameterError: A parameter is wrong; from a call: equal ids.
        DPMiddlewareError: From a call: a release failed. Holds no text.
    """

    def __init__(self, session: Any, *, metadata: Collection[str] = ()) -> None:
        self._session = session_of(session)
        self._metadata = public_texts(metadata, "metadata")

    def __repr__(self) -> str:
        return f"DPDocumentTransformer({self._session!r}, metadata={self._metadata!r})"

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: Any
    ) -> Sequence[Document]:
        session = guarded(for_subject, self._session, None)
        return release_documents(
            session, documents, self._metadata, lambda document: document.id or ONCE
        )


def release_documents(
    session: dp.Session,
    documents: Sequence[Document],
    metadata: tuple[str, ...],
    identify: Callable[[Document], Any],
) -> list[Document]:
    """Returns released copies: page content, id and the metadata named, nothing else.

    ``identify`` gives the event id of a document, public, or ``ONCE``.
    """

    def work() -> list[Document]:
        events = [(identify(document), "user", document.page_content) for document in documents]
        releases = session.release_many(events, conversation=_CONVERSATION)
        return [
            Document(
                page_content=release.text,
                id=document.id,
                metadata={k: document.metadata[k] for k in metadata if k in document.metadata},
            )
            for document, release in zip(documents, releases, strict=True)
        ]

    return guarded(work)
