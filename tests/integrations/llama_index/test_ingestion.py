"""DPTransform in real pipelines: the cache, a vector store that answers."""

import hashlib
import json
import pickle

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionCache, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index_dp_middleware import DPTransform
from support.cases import over

import dp_middleware as dp

COUNT = 12


def documents(desk, count=COUNT):
    """All with one text, so that what is drawn alike shows: the same words, once in 10^10."""
    text = f"{desk.private_text} and {desk.private_text}"
    return [
        Document(id_=f"d{k}", text=text, metadata={"author": desk.canary, "page": 3})
        for k in range(count)
    ]


def hashes(desk):
    """Unsalted digests of the raw text that LlamaIndex makes: who guesses the text knows it."""
    document = documents(desk, 1)[0]
    chunk = TextNode(text=desk.private_text, metadata=document.metadata)
    bare = hashlib.sha256(desk.private_text.encode()).hexdigest()
    return {document.hash, chunk.hash, TextNode(text=desk.private_text).hash, bare}


def assert_clean(desk, *values):
    for value in values:
        text = value if isinstance(value, str) else json.dumps(value)
        assert desk.canary not in text
        assert not [each for each in hashes(desk) if each in text]


@pytest.mark.parametrize("first", [True, False])
def test_what_leaves_a_pipeline(first, desk):
    steps = [DPTransform(desk.session(), metadata=["page"]), SentenceSplitter()]
    pipeline = IngestionPipeline(
        transformations=[*(steps if first else steps[::-1]), MockEmbedding(4)],
        vector_store=SimpleVectorStore(),
        disable_cache=not first,
    )
    nodes = pipeline.run(documents=documents(desk))
    assert len(nodes) == COUNT
    assert len({node.text for node in nodes}) == COUNT  # 50 ** 11 texts could have been drawn
    assert desk.charges == [11] * COUNT
    assert {tuple(node.metadata.items()) for node in nodes} == {(("page", 3),)}
    assert_clean(desk, *(node.to_dict() for node in nodes), pipeline.vector_store.to_dict())
    assert_clean(desk, pipeline.cache.cache.to_dict())


@over("first", [True, False])
def test_a_document_that_changed_replaces_its_release(first, desk):
    """Stores find what to delete by the id of the source."""
    steps = [DPTransform(desk.session()), SentenceSplitter()]
    pipeline = IngestionPipeline(
        transformations=[*(steps if first else steps[::-1]), MockEmbedding(4)],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
        vector_store=SimpleVectorStore(),
        disable_cache=True,
    )
    for text in (desk.private_text, f"{desk.private_text} more"):
        [node] = pipeline.run(documents=[Document(id_="d0", text=text)])
        assert node.ref_doc_id == "d0"
        assert_clean(desk, node.to_dict(), pipeline.vector_store.to_dict())
        assert list(pipeline.vector_store.data.embedding_dict) == [node.id_]


def test_the_cache_gives_no_stale_or_shared_release(desk):
    """A cached entry is found by text alone; the session knows a node by its id."""
    session, cache = desk.session(), IngestionCache()

    def run(step, document):
        pipeline = IngestionPipeline(transformations=[step], cache=cache)
        return pipeline.run(documents=[document])[0]

    one, two = documents(desk, 2)
    first = run(DPTransform(session), one)
    assert run(DPTransform(session), one).text == first.text
    assert desk.charges == [11]
    other = run(DPTransform(session), two)
    assert (other.id_, desk.charges) == ("d1", [11, 11])
    assert other.text != first.text
    weaker = dp.Sanitizer(dp.TokenExponential(epsilon=1.0), session.sanitizer.space)
    assert run(DPTransform(weaker), one).text != first.text
    assert_clean(desk, cache.cache.to_dict())
    # its keys are digests of raw text; without the salt, whoever reads it could try texts
    fields = DPTransform(session).to_dict()
    assert fields != DPTransform(session).to_dict()
    del fields["salt"]
    unsalted = hashlib.sha256((one.get_content("all") + str(fields)).encode()).hexdigest()
    assert unsalted not in cache.cache.get_all(collection="llama_cache")


def test_neighbours_keep_their_ids_only(desk):
    raw = documents(desk, 1)[0].as_related_node_info()
    raw.node_id = "other"
    chunk = TextNode(
        id_="c",
        text=desk.private_text,
        metadata={"author": desk.canary, "page": 3},
        excluded_llm_metadata_keys=["author", "page"],
        embedding=[0.5],
        start_char_idx=3,
        end_char_idx=99,
        text_template=f"{desk.canary} {{content}}",
        relationships={**dict.fromkeys("1234", raw), NodeRelationship.CHILD: [raw]},
    )
    before = chunk.model_dump_json()
    [found] = DPTransform(desk.session(), metadata=["page", "missing"])([chunk])
    bare = RelatedNodeInfo(node_id="other")
    near = (NodeRelationship.SOURCE, NodeRelationship.PREVIOUS, NodeRelationship.NEXT)
    assert found.relationships == dict.fromkeys(near, bare)
    kept = {"metadata": {"page": 3}, "excluded_llm_metadata_keys": ["page"]}
    assert found == TextNode(id_="c", text=found.text, relationships=found.relationships, **kept)
    assert chunk.model_dump_json() == before
    assert_clean(desk, found.to_dict())


def test_a_step_stays_in_its_process(desk):
    with pytest.raises(TypeError, match="num_workers"):
        pickle.dumps(DPTransform(desk.session()))
