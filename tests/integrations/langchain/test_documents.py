"""DPDocumentTransformer: content released once per id, nothing else of a document left over."""

from langchain_core.documents import Document
from langchain_dp_middleware import DPDocumentTransformer
from support.contract import TraceSafeContract


def document(probe, text, event):
    private = {"author": probe.canary, "nested": {"x": [probe.canary]}, "year": 1999}
    return Document(page_content=text, id=event, metadata=private)


def fresh(probe):
    return [document(probe, probe.new_text(), probe.new_id() if i else None) for i in range(2)]


class TestContract(TraceSafeContract):
    output = "released"
    calls = {
        "transform": lambda t, p: t.transform_documents(fresh(p)),
        "atransform": lambda t, p: t.atransform_documents(fresh(p)),
    }
    replays = {
        "transform": lambda t, p: t.transform_documents([document(p, p.private_text, "d")]),
        "atransform": lambda t, p: t.atransform_documents([document(p, p.private_text, "d")]),
    }
    refusals = {
        "equal ids": lambda t, p: t.transform_documents([document(p, p.new_text(), "d")] * 2)
    }

    def adapter(self, probe):
        return DPDocumentTransformer(probe.session(), metadata=["year", "missing"])

    def test_ids_and_public_metadata_are_kept(self, probe):
        raw = [document(probe, probe.new_text(), "a"), document(probe, "", "b")]
        before = [each.model_copy(deep=True) for each in raw]
        found = self.adapter(probe).transform_documents(raw)
        assert [each.id for each in found] == ["a", "b"]
        assert [each.metadata for each in found] == [{"year": 1999}] * 2
        assert [len(each.page_content.split()) for each in found] == [7, 0]
        assert raw == before

    def test_an_edited_document_and_one_without_an_id_are_released_again(self, probe):
        transform, words = self.adapter(probe).transform_documents, " ".join(probe.words)
        [first], [edited] = (
            transform([Document(text, id="a")]) for text in (words, f"{words} more")
        )
        nameless = transform([Document(words)] * 2)
        assert len({each.page_content for each in (first, edited, *nameless)}) == 4
        assert len(probe.charges) == 4
