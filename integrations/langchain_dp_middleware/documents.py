"""Corpora and retrieval: documents and vectors are released, a local search sees the raw query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import Context
from functools import partial
from typing import Annotated, Any, Literal
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentTransformer, Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from pydantic import BeforeValidator, Field

import dp_middleware as dp
from dp_middleware.conversation.events import public_texts
from dp_middleware.conversation.session import ONCE, session_of
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.models.embedders import embedding_service
from dp_middleware.models.trust import require_local
from dp_middleware.privacy.releases import Ledger
from dp_middleware.sanitizers.vectors import VectorSanitizer
from langchain_dp_middleware._boundary import (
    MODEL_CONFIG,
    for_subject,
    refuse_outer_run,
    session_for,
)
from langchain_dp_middleware._calls import Entered, ReleasedCalls
from langchain_dp_middleware.tracing import deaf_handlers, quiet

_CONVERSATION = "\x1fdocuments"  # so that ids of documents are not taken for those of messages


class DPDocumentTransformer(BaseDocumentTransformer):
    """Releases documents, for an index or a model that may not see them.

    A document's id is its event: transformed again, or retrieved by a :class:`DPRetriever` of the
    same session, it is the same release and costs nothing; with another text, or without an id, it
    is a new release. Ids, their order and the number of documents are public, and are kept.

    Args:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` that is wrapped in one.
        metadata: Keys of the metadata that are public and kept as they are; all others are cut.
    """

    def __init__(self, session: Any, *, metadata: Collection[str] = ()) -> None:
        self._session = session_of(session)
        self._metadata = public_texts(metadata, "metadata")

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: Any
    ) -> Sequence[Document]:
        session = guarded(for_subject, self._session, None)
        return guarded(_release, session, documents, self._metadata, lambda d: d.id or ONCE)


def _release(
    session: dp.Session,
    documents: Sequence[Document],
    metadata: tuple[str, ...],
    identify: Callable[[Document], Any],
) -> list[Document]:
    """Makes released copies, by event ids or ``ONCE``: content, id and the metadata named."""
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


class DPEmbeddings(Embeddings):
    """Releases every text and embeds what was released, or embeds it and releases the vector.

    With a session or sanitizer, the inner model sees released text only. With a
    ``dp.VectorResponse`` the inner model sees raw text and must be local; what leaves is one random
    vector per text. Every text of every call is a new release and a new charge; to embed documents
    once, release them with a :class:`DPDocumentTransformer` and embed those.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` or a ``dp.VectorResponse``.
        inner: Embeds. For a ``dp.VectorResponse``, as are the others, it must be local, and may be
            a ``dp.EmbeddingService``.
        ledger: Charged once per text, before the draw.
        subject: Whose budget is charged; needed with a ledger.
        trusted_hosts: Hosts that may see raw text.

    Raises:
        UntrustedHost: The inner model of a ``dp.VectorResponse`` is remote.
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
        if not isinstance(inner, Embeddings):
            kind = type(inner).__name__
            raise ParameterError(f"expected a LangChain embedding model, got {kind}")
        self._session, self._inner = session_of(session), inner

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self._vectors is not None:
            return guarded(self._vectors.release, texts)
        return self._inner.embed_documents(guarded(self._released, texts))

    def embed_query(self, text: str) -> list[float]:
        if self._vectors is not None:
            return self.embed_documents([text])[0]
        return self._inner.embed_query(*guarded(self._released, [text]))

    def _released(self, texts: Sequence[str]) -> list[str]:
        session, events = for_subject(self._session, None), [(ONCE, "user", text) for text in texts]
        return [release.text for release in session.release_many(events)]


_REMEDY = 'retrieve in a call of its own, or, if the query is public, say query="public"'
_Names = BeforeValidator(partial(public_texts, name="public_metadata"))


class DPRetriever(ReleasedCalls, BaseRetriever):
    """Finds documents with a local retriever, which sees the raw query, and releases them.

    Callbacks and tracers are told the released documents alone. Which documents were found, that is
    their ids and public metadata, depends on the query and **is not protected**. A document found
    again is the same release and costs nothing. It refuses to run inside a chain, which would
    record the query: retrieve first, and give the documents to the chain.

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` that is wrapped in one.
        retriever: A LangChain retriever that is known to be in process, on loopback or on a trusted
            host, with all that it is made of.
        public_metadata: Keys of the metadata of documents that are kept; all others are cut.
        query: ``"private"``, or ``"public"`` for one that may be recorded, such as what a remote
            model asks a tool.
        trusted_hosts: Names of further hosts that may see the raw query.
        identify: From a document to its public event id; default its id.

    Raises:
        UntrustedHost: A part of the retriever may send the raw query elsewhere.
    """

    model_config = MODEL_CONFIG

    session: Any = Field(exclude=True, repr=False)
    retriever: Any = Field(exclude=True, repr=False)
    public_metadata: Annotated[tuple[str, ...], _Names] = ()
    query: Literal["private", "public"] = "private"
    trusted_hosts: frozenset[str] = frozenset()
    identify: Callable[[Document], str] | None = Field(default=None, exclude=True, repr=False)

    def __init__(self, session: Any, retriever: Any, **options: Any) -> None:
        if not isinstance(retriever, BaseRetriever):
            kind = type(retriever).__name__
            raise ParameterError(f"expected a LangChain retriever, got {kind}; see as_retriever()")
        require_local(retriever, options.get("trusted_hosts", ()))
        fields: dict[str, Any] = {"session": session_of(session), "retriever": retriever}
        super().__init__(**options, **fields)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Returns the released documents; ``kwargs`` go to the local retriever."""
        entered = self._enter(input, config, **kwargs)
        return entered.rest.invoke(entered.input, entered.config)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        entered = await asyncio.to_thread(self._enter, input, config, **kwargs)
        return await entered.rest.ainvoke(entered.input, entered.config)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self._release(session_for(self.session, None), query)

    @property
    def _allowed(self) -> Collection[str]:
        return ("record", "send") if self.query == "public" else ()

    def _enter(self, value: Any, config: RunnableConfig | None, **kwargs: Any) -> Entered:
        if self.query == "private":
            refuse_outer_run(config, "DPRetriever", _REMEDY)
        at = guarded(session_for, self.session, config)
        found = self._release(at, value, **kwargs)
        return Entered(input=found, config=config or RunnableConfig())

    def _release(self, session: dp.Session, query: Any, **kwargs: Any) -> list[Document]:
        if not isinstance(query, str):
            raise ParameterError(f"expected a query of type str, got {type(query).__name__}")
        search = (Context().run, _search, self.retriever, query, kwargs)
        documents = guarded(*search, what="the local retriever")
        identify = self.identify or _id_of
        return guarded(_release, session, documents, self.public_metadata, identify)


def _search(retriever: BaseRetriever, query: str, kwargs: dict[str, Any]) -> list[Document]:
    """In no run of LangChain; retrievers inside it have runs, which nothing is told of."""
    arguments: dict[str, Any] = dict(kwargs) if retriever._expects_other_args else {}
    if retriever._new_arg_supported:
        arguments["run_manager"] = CallbackManagerForRetrieverRun(
            run_id=uuid4(), handlers=[], inheritable_handlers=deaf_handlers()
        )
    with quiet():
        return retriever._get_relevant_documents(query, **arguments)


def _id_of(document: Document) -> str:
    if document.id is None:
        raise ParameterError("expected documents with ids, got one without; see identify=")
    return document.id
