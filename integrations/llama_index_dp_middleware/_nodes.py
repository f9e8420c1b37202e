"""Released copies of nodes: the text, ids, public metadata, and who stands next to whom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    Document,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from llama_index_dp_middleware._epsilon import at_asked

CONVERSATION = "llama-index-nodes"
"""Of nodes and queries: under a session with pseudonyms they must have the same ones."""

_RELATED = (NodeRelationship.SOURCE, NodeRelationship.PREVIOUS, NodeRelationship.NEXT)
_MEDIA = ("image_resource", "audio_resource", "video_resource")


def require_text(nodes: Collection[Any]) -> None:
    """Refuse what is not text, before anything is charged.

    Raises:
        ParameterError: A node with images, sound or video, or of another class, whose further
            fields may hold anything.
    """
    for k, node in enumerate(nodes):
        if type(node) not in (TextNode, Node, Document):
            raise ParameterError(
                f"node {k}: expected a TextNode or Document, got {type(node).__name__}; only "
                "text can be released, copy it into a TextNode"
            )
        if any(getattr(node, name, None) is not None for name in _MEDIA):
            raise ParameterError(f"node {k}: only text can be released; take other media out")


def release_node(
    session: dp.Session,
    node: BaseNode,
    metadata: tuple[str, ...],
    conversation: str = CONVERSATION,
) -> BaseNode:
    """A new node with the released text.

    Nothing of the old one is copied but its id, the chosen metadata and the ids of its source, by
    which stores delete it, and of its neighbours: their entries have their metadata and an unsalted
    hash of their text, its offsets count private characters, its embedding was computed from the
    raw text.
    """
    text = node.get_content()
    release = at_asked(session).release(node.id_, "tool", text, conversation=conversation)
    kind = Document if isinstance(node, Document) else TextNode
    return kind(
        id_=node.id_,
        text=release.text,
        metadata={key: node.metadata[key] for key in metadata if key in node.metadata},
        excluded_embed_metadata_keys=_among(node.excluded_embed_metadata_keys, metadata),
        excluded_llm_metadata_keys=_among(node.excluded_llm_metadata_keys, metadata),
        relationships={
            name: RelatedNodeInfo(node_id=related.node_id)
            for name in _RELATED
            if isinstance(related := node.relationships.get(name), RelatedNodeInfo)
        },
    )


def released(
    session: dp.Session,
    nodes: Sequence[BaseNode],
    metadata: tuple[str, ...],
    conversation: str = CONVERSATION,
) -> list[NodeWithScore]:
    """Released copies of nodes that were found, without scores.

    Raises:
        ParameterError: A node that is not text; nothing was charged.
    """
    require_text(nodes)
    return [
        NodeWithScore(node=release_node(session, node, metadata, conversation)) for node in nodes
    ]


def _among(keys: Collection[str], metadata: tuple[str, ...]) -> list[str]:
    return [key for key in keys if key in metadata]
