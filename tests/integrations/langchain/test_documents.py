"""DPDocumentTransformer: content released once per id, nothing else of a document left over."""

from langchain_core.documents import Document
from langchain_dp_middleware import DPDocumentTransformer
from support.contract import Probe, TraceSafeContract


def document(probe: Probe, text: str, event: str | None) -> Document:
    private = {"author": probe.canary, "nested": {"x": [probe.canary]}, "year": 1999}
    return Document(page_content=text, id=event, metadata=private)


def fresh(probe: Probe) -> list[Document]:
    return [document(probe, probe.new_text(), probe.new_id() if i else None) for i in range(2)]


CALLS = {
    "transform": lambda t, p: t.transform_documents(fresh(p)),
    "atransform": lambda t, p: t.atransform_documents(fresh(p)),
}
REPLAYS = {
    "transform": lambda t, p: t.transform_documents([document(p, p.private_text, "d")]),
    "atransform": lambda t, p: t.atransform_documents([document(p, p.private_text, "d")]),
}
REFUSALS = {"equal ids": lambda t, p: t.transform_documents([document(p, p.new_text(), "d")] * 2)}


class TestContract(TraceSafeContract):
    output = "released"
    calls = CALLS
    replays = REPLAYS
    refusals = REFUSALS

    def adapter(self, probe: Probe) -> DPDocumentTransformer:
        return DPDocumentTransformer(probe.session(), metadata=["year", "missing"])

    def test_ids_and_public_metadata_are_kept(self, probe):
        raw = [document(probe, probe.new_text(), "a"), document(probe, "", "b")]
        before = [each.model_copy(deep=True) for each in raw]
        found = self.adapter(probe).transform_documents(raw)
        assert [each.id for each in found] == ["a", "b"]
        assert [each.metadata for each in found] == [{"year": 1999}] * 2
        assert [len(each.page_content.split()) for each in found] == [7, 0]
        assert raw == before

    def test_an_edited_document_is_released_and_charged_again(self, probe):
        transformer = self.adapter(probe)
        words = " ".join(probe.words[:20])
        [first] = transformer.transform_documents([Document(words, id="a")])
        [again] = transformer.transform_documents([Document(words + " more", id="a")])
        assert again != first
        assert len(probe.charges) == 2

    def test_without_an_id_every_time_is_a_new_release(self, probe):
        transformer = self.adapter(probe)
        raw = [Document(" ".join(probe.words))] * 2
        assert len({each.page_content for each in transformer.transform_documents(raw)}) == 2
        assert len(probe.charges) == 2
