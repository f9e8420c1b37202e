"""Detectors of other libraries in one line each, and several as one."""

import json
from types import SimpleNamespace

import pytest
from support.cases import over

import dp_middleware as dp
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.pseudonyms import detectors
from dp_middleware.pseudonyms.detection import Entity, entities_of

TEXT = "Maria Lopez of Initech"
LONG = "nothing to see here, " * 300 + TEXT + " and so on" * 300
NAMED = Entity(LONG.index("Maria"), LONG.index("Maria") + 11, "person")


class Gliner:
    """Reads 384 words and says nothing of the rest."""

    def predict_entities(self, text, labels, threshold):
        place = " ".join(text.split(" ")[:384]).find("Maria Lopez")
        assert "phone number" in labels
        if place >= 0:
            yield {"start": place, "end": place + 11, "label": "person", "score": 0.9}


class Gliner2:
    def extract_entities(self, text, labels, threshold):
        return {"entities": {"person": ["Maria Lopez"] if "Maria Lopez" in text else []}}


def answer(messages):
    """A local chat model; it makes one name up."""
    text = messages[-1]["content"].partition("Text:\n")[2]
    names = ["Maria Lopez", "Nobody Else"] if "Maria Lopez" in text else []
    return "Here: " + json.dumps([{"text": name, "kind": "person"} for name in names])


@over(
    "detector",
    [
        detectors.gliner(Gliner()),
        detectors.gliner(Gliner2()),
        detectors.chat_model(dp.chat_model(answer, local=True)),
        detectors.union(lambda text: [], detectors.gliner(Gliner())),
    ],
)
def test_a_name_deep_in_a_text_is_found(detector):
    assert entities_of(LONG, detector) == [NAMED]


def test_a_union_has_what_any_of_its_detectors_finds():
    detector = detectors.union(
        lambda text: [(0, 11, "PER")], lambda text: [{"start": 15, "end": 22, "label": "company"}]
    )
    assert entities_of(TEXT, detector) == [Entity(0, 11, "person"), Entity(15, 22, "organisation")]
    with pytest.raises(ParameterError, match="at least one"):
        detectors.union()


@over("said", ["No names here.", '["Maria"]', '[{"text": "Maria"}]', "{"])
def test_an_answer_that_is_no_list_is_no_empty_one(said):
    with pytest.raises(ParameterError, match="ParameterError") as failure:
        entities_of(TEXT, detectors.chat_model(dp.chat_model(lambda _: said, local=True)))
    assert "Maria" not in str(failure.value)


def test_a_remote_chat_model_is_refused():
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="none", base_url="https://api.example.com/v1")
    with pytest.raises(DPMiddlewareError, match=r"api\.example\.com"):
        detectors.chat_model(dp.chat_model(client, "m"))


def test_an_engine_is_used_as_it_is_and_a_missing_model_is_named():
    engine = SimpleNamespace(analyze=lambda text, language: [])
    assert detectors.presidio(engine) is engine
    pytest.importorskip("spacy")
    with pytest.raises(ParameterError, match="no_such_model"):
        detectors.spacy("no_such_model")


def test_rampart_alone():
    pytest.importorskip("onnxruntime")
    text = "My name is Priyanka Venkatesan, call me."
    assert entities_of(text, detectors.rampart()) == [Entity(11, 30, "person")]
