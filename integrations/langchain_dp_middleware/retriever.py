"""Retrieval for a remote model: the search is local and raw, what it finds is released."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextvars import Context
from functools import partial
from typing import Annotated, Any, Literal
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from pydantic import BeforeValidator, Field

import dp_middleware as dp
from dp_middleware.conversation.events import public_texts
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.models.trust import require_local
from langchain_dp_middleware._boundary import MODEL_CONFIG, refuse_outer_run, session_for
from langchain_dp_middleware._calls import Entered, ReleasedCalls
from langchain_dp_middleware.documents import release_documents
from langchain_dp_middleware.tracing import deaf_handlers, quiet

_REMEDY = (
    "retrieve first, in a call of its own, and give the documents to the chain; or, if the query "
    'is public, as one that a remote model wrote, say so with query="public"'
)
_Names = BeforeValidator(partial(public_texts, name="public_metadata"))


class DPRetriever(ReleasedCalls, BaseRetriever):
    """Finds documents with a local retriever, which sees the raw query, and releases them.

    Neither the query nor the documents found are seen by callbacks or tracers; these are told the
    released documents. Which documents were found, that is their ids and public metadata, depends
    on the query and **is not protected**. A document found again is the same release and costs
    nothing, so it needs an id, or ``identify``. In a chain the query would be recorded by the run
    of the chain: it refuses to run inside one. Retrieve first, and give the documents to the chain.

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` that is wrapped in one.
        retriever: A LangChain retriever that is in process, on loopback or on a trusted host, with
            all that it is made of. An index or a model that is not known to be local is refused.
        public_metadata: Keys of the metadata of documents that are kept; all others are cut.
        query: ``"private"``, or ``"public"`` for one that may be recorded, such as what a remote
            model asks a tool.
        trusted_hosts: Names of further hosts that may see the raw query.
        identify: From a document to its public event id; default its id.

    Raises:
        UntrustedHost: A part of the retriever may send the raw query elsewhere.
        ParameterError: Not a retriever; from a call: a document that is not identified, or a
            private query inside another run.
        DPMiddlewareError: From a call: the search or a release failed. Holds no text.
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
            raise ParameterError(
                f"expected a LangChain retriever, got {type(retriever).__name__}; a vector store "
                "makes one with as_retriever()"
            )
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
        at = guarded(lambda: session_for(self.session, config))
        found = self._release(at, value, **kwargs)
        return Entered(input=found, config=config or RunnableConfig())

    def _release(self, session: dp.Session, query: Any, **kwargs: Any) -> list[Document]:
        if not isinstance(query, str):
            raise ParameterError(f"expected a query of type str, got {type(query).__name__}")
        documents = guarded(
            lambda: Context().run(_search, self.retriever, query, kwargs),
            what="the local retriever",
        )
        identify = self.identify or _id_of
        return release_documents(session, documents, self.public_metadata, identify)


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
        raise ParameterError(
            "expected documents with ids, by which one found again is known, got one without; "
            "give ids to the index, or a function with identify="
        )
    return document.id
