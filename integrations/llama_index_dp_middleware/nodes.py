"""Nodes enter an index, or leave it, released: text, ids, public metadata and neighbours' ids."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, NoReturn
from uuid import uuid4

from llama_index.core import schema
from llama_index.core.bridge.pydantic import BaseModel, PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor

import dp_middleware as dp
from dp_middleware.conversation.events import public_texts
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, guarded
from llama_index_dp_middleware._blocks import in_block, unspanned

CONVERSATION = "llama-index-nodes"
"""Of nodes and queries: under a session with pseudonyms they must have the same ones."""

_RELATED = ("SOURCE", "PREVIOUS", "NEXT")
_EXCLUDED = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_MEDIA = ("image_resource", "audio_resource", "video_resource")


class _Releases(BaseModel):
    """Holds the session of a component, and the keys of metadata that stay."""

    metadata: tuple[str, ...]
    _session: dp.Session = PrivateAttr()

    def __init__(
        self, session: dp.Session | dp.Sanitizer, *, metadata: Collection[str] = ()
    ) -> None:
        session, keys = session_of(session), public_texts(metadata, "metadata")
        super().__init__(metadata=keys)
        self._session = session

    def __getstate__(self) -> NoReturn:  # the base class would leave the session out
        name = type(self).__name__
        raise TypeError(f"expected no num_workers: a {name} holds a session, which stays here")

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__


class DPTransform(_Releases, schema.TransformComponent):
    """Releases the text of nodes; a step of an ``IngestionPipeline``, best the first one.

    Gives new nodes with the same ids, the chosen keys of their ``metadata``, and the ids of the
    source and of the previous and the next node. Ids, order and the numbers of nodes and tokens are
    public. A node that is seen again with its id and text costs nothing; ids must be unique.

    It stays in its process: ``num_workers`` is refused. Steps before it hold raw text, and so does
    the span of ``IngestionPipeline.run``: :func:`unrecorded`.

    Raises:
        ParameterError: From a call: a node that is not text; nothing was charged.
    """

    def __init__(  # again: type checkers would be shown pydantic's own
        self, session: dp.Session | dp.Sanitizer, *, metadata: Collection[str] = ()
    ) -> None:
        super().__init__(session, metadata=metadata)

    @unspanned
    def __call__(self, nodes: Sequence[schema.BaseNode], **kwargs: Any) -> list[schema.BaseNode]:
        return guarded(release_nodes, self._session, nodes, self.metadata)

    @unspanned
    async def acall(self, nodes: Sequence[schema.BaseNode], **kwargs: Any) -> list[schema.BaseNode]:
        return await asyncio.to_thread(self, nodes)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Has a random field that nobody keeps: the ingestion cache knows entries by a hash of it.

        Nobody can guess that, and no document is given another's release for an equal text.
        """
        return {**super().to_dict(**kwargs), "salt": uuid4().hex}


class DPNodePostprocessor(_Releases, BaseNodePostprocessor):
    """Releases retrieved nodes for the model that reads them; put it last.

    For an index of raw text that stays local. Gives new nodes as :class:`DPTransform` does, without
    scores. Which nodes are retrieved, how many and in which order **has no guarantee**. The
    retriever's own spans hold raw nodes: see :func:`unrecorded`, or use :class:`DPQueryEngine`.
    """

    def __init__(  # again: type checkers would be shown pydantic's own
        self, session: dp.Session | dp.Sanitizer, *, metadata: Collection[str] = ()
    ) -> None:
        super().__init__(session, metadata=metadata)

    @unspanned
    def _postprocess_nodes(
        self, nodes: list[schema.NodeWithScore], query_bundle: schema.QueryBundle | None = None
    ) -> list[schema.NodeWithScore]:
        return guarded(release_scored, self._session, nodes, self.metadata)


def release_scored(
    session: dp.Session, nodes: Sequence[schema.NodeWithScore], metadata: tuple[str, ...]
) -> list[schema.NodeWithScore]:
    """As :func:`release_nodes`, for nodes that were found; the copies have no scores."""
    raw = [scored.node for scored in nodes]
    return [schema.NodeWithScore(node=node) for node in release_nodes(session, raw, metadata)]


def release_nodes(
    session: dp.Session, nodes: Sequence[Any], metadata: tuple[str, ...]
) -> list[schema.BaseNode]:
    """Makes new nodes with the released texts; one whose fields may hold more is refused."""
    for k, node in enumerate(nodes):
        if type(node) not in (schema.TextNode, schema.Node, schema.Document):
            raise ParameterError(
                f"node {k}: expected a TextNode or Document, got {type(node).__name__}; only "
                "text can be released, copy it into a TextNode"
            )
        if any(getattr(node, name, None) is not None for name in _MEDIA):
            raise ParameterError(f"node {k}: only text can be released; take other media out")
    return [_release(session, node, metadata) for node in nodes]


def _release(
    session: dp.Session, node: schema.BaseNode, metadata: tuple[str, ...]
) -> schema.BaseNode:
    """Copies the id, chosen metadata and neighbours' ids: more would tell of the raw text."""
    text = node.get_content()
    release = in_block(session).release(node.id_, "tool", text, conversation=CONVERSATION)
    public: Any = {name: [k for k in getattr(node, name) if k in metadata] for name in _EXCLUDED}
    return (schema.Document if isinstance(node, schema.Document) else schema.TextNode)(
        id_=node.id_,
        text=release.text,
        metadata={key: node.metadata[key] for key in metadata if key in node.metadata},
        relationships={
            kind: schema.RelatedNodeInfo(node_id=related.node_id)
            for kind in (schema.NodeRelationship[name] for name in _RELATED)
            if isinstance(related := node.relationships.get(kind), schema.RelatedNodeInfo)
        },
        **public,
    )
