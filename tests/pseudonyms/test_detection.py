"""All forms of results, overlaps, and what the detector for English finds; nothing is quoted."""

import logging
import socket
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from support.cases import over

import dp_middleware as dp
from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.pseudonyms import detection, detectors
from dp_middleware.pseudonyms.detection import PIECE, Entity, entities_of, pieces
from dp_middleware.pseudonyms.detectors import english
from dp_middleware.pseudonyms.labels import kind_of

TEXT = "Maria Lopez of Initech, maria@initech.com"
CANARY = "Quiddelbacher"


def needs_detect():
    pytest.importorskip("presidio_analyzer", reason="needs the detect extra")
    pytest.importorskip("spacy", reason="needs the detect extra")


def needs_model():
    needs_detect()
    if not any(english.find_spec(model) for model in english.MODELS):
        pytest.skip("needs spaCy's English model")


def found(text, detector, **options):
    return {(text[each.start : each.end], each.kind) for each in entities_of(text, detector)}


def spacy_span(start, end, label):
    return SimpleNamespace(start=0, end=1, start_char=start, end_char=end, label_=label)


FORMS = {
    "tuples": [(0, 11, "PERSON"), (15, 22, "org")],
    "entities": [Entity(0, 11, "person"), Entity(15, 22, "organisation")],
    "Presidio": [
        SimpleNamespace(start=0, end=11, entity_type="PERSON", score=0.85),
        SimpleNamespace(start=15, end=22, entity_type="ORGANIZATION", score=0.85),
    ],
    "a Doc": SimpleNamespace(ents=(spacy_span(0, 11, "PERSON"), spacy_span(15, 22, "ORG"))),
    "spans of spaCy": [spacy_span(0, 11, "PERSON"), spacy_span(15, 22, "ORG")],
    "GLiNER": [
        {"start": 0, "end": 11, "text": "Maria Lopez", "label": "full name", "score": 0.9},
        {"start": 15, "end": 22, "text": "Initech", "label": "company", "score": 0.9},
    ],
    "Hugging Face": [
        {"start": 0, "end": 11, "entity_group": "PER", "word": "Maria Lopez"},
        {"start": 15, "end": 22, "entity": "B-ORG", "word": "Initech"},
    ],
    "a generator, not sorted": ((15, 22, "ORG"), (0, 11, "PER")),
}


@over("results", FORMS.values())
def test_forms_of_results(results):
    def detect(text):
        return iter(results) if isinstance(results, tuple) else results

    assert entities_of(TEXT, detect) == [Entity(0, 11, "person"), Entity(15, 22, "organisation")]
    assert entities_of(TEXT, detect, {"ORG"}) == [Entity(15, 22, "organisation")]


@over(
    "label, kind",
    [
        ("PER", "person"),
        ("GPE", "place"),
        ("FAC", "place"),
        ("TIME", "date"),
        ("MONEY", "amount"),
        ("PERCENT", "number"),
        ("I-LOC", "place"),
        ("E-mail", "email"),
        ("phone number", "phone"),
        ("US_SSN", "ssn"),
        ("Work of Art", "work_of_art"),
        ("private_person", "person"),  # openai/privacy-filter
        ("S-account_number", "id"),
        ("E-secret", "secret"),
        ("B-GIVEN_NAME", "person"),  # Rampart
        ("DRIVERS_LICENSE", "id"),
        ("BUILDING_NUMBER", "address"),
        ("FIRSTNAME", "person"),  # ai4privacy
        ("I-TELEPHONENUM", "phone"),
        ("BUILDINGNUM", "address"),
        ("health insurance number", "id"),  # GLiNER-PII, whose labels anybody chooses
        ("mobile phone number", "phone"),
        ("date of birth", "date"),
        ("IT_FISCAL_CODE", "id"),  # Presidio
        ("persName", "person"),  # spaCy: pl, de, fr, es, it, pt, nl
        ("placeName", "place"),
        ("geogName", "place"),
        ("orgName", "organisation"),
        ("LOC", "place"),
        ("MISC", "misc"),
    ],
)
def test_kinds_have_one_name(label, kind):
    assert kind_of(label) == kind


def test_a_checked_pattern_beats_a_longer_name_and_the_rest_stays():
    detected = [(0, 41, "ORG"), (24, 41, "EMAIL_ADDRESS"), (30, 41, "URL"), (0, 11, "PER")]
    assert entities_of(TEXT, lambda text: detected) == [
        Entity(0, 23, "organisation"),
        Entity(24, 41, "email"),
    ]


KINDS = ["person", "date", "email", "phone", "id", "other"]
LETTERS = "ab \n\t.é😀\u05d0\u200f"


@st.composite
def texts_with_claims(draw):
    text = draw(st.text(LETTERS, max_size=30))
    place = st.integers(0, len(text))
    pairs = st.tuples(place, place, st.sampled_from(KINDS))
    return text, [(min(a, b), max(a, b), kind) for a, b, kind in draw(st.lists(pairs, max_size=8))]


@given(texts_with_claims())
def test_what_is_detected_is_covered_once(case):
    text, claims = case
    entities = entities_of(text, lambda _: claims)
    assert entities == sorted(entities)
    assert all(one.end <= two.start for one, two in pairwise(entities))
    covered = [place for start, end, _ in entities for place in range(start, end)]
    claimed = {place for start, end, _ in claims for place in range(start, end)}
    assert {*covered} <= claimed
    assert {place for place in claimed if not text[place].isspace()} <= {*covered}
    for start, end, kind in entities:
        assert text[start:end] == text[start:end].strip() != ""
        assert any(a <= start and end <= b and kind == k for a, b, k in claims)
    assert entities_of(text, lambda _: claims[::-1]) == entities


@given(st.integers(0, 5 * PIECE), st.sampled_from(["x", "ab cd ", " ", "naïve\n"]))
def test_pieces_cover_the_text(length, word):
    text = (word * (length // len(word) + 1))[:length]
    covered = 0
    for start, piece in pieces(text):
        assert start <= covered
        assert piece == text[start : start + len(piece)]
        assert len(piece) <= PIECE + 2 * detection.OVERLAP
        assert start == 0 or " " not in word or text[start - 1].isspace()
        covered = start + len(piece)
    assert covered == length


FILLER = "nothing to see here, "
LATE = FILLER * 180 + "signed by Maria Lopez" + FILLER * 180  # the name is behind token 700


def truncating(text):
    """A model of names behind a function, which reads 512 words."""
    read = " ".join(text.split(" ")[:512])
    place = read.find("Maria Lopez")
    return [] if place < 0 else [{"start": place, "end": place + 11, "entity_group": "PER"}]


class Pipeline:
    """What a pipeline of transformers looks like; it cuts a text at 512 tokens without a word."""

    model = SimpleNamespace(config=SimpleNamespace(id2label={0: "O", 1: "B-PER", 2: "I-PER"}))

    def __init__(self, most=512):
        self.most = self.tokenizer_limit = most
        self.tokenizer = Tokenizer(most)

    def __call__(self, text):
        assert len(text.split(" ")) <= self.most, "a part of the text is not read"
        return truncating(text)


class Tokenizer:
    def __init__(self, most):
        self.model_max_length = most

    def __call__(self, text):
        return {"input_ids": text.split(" ")}


@pytest.mark.parametrize("detector", [truncating, Pipeline(), Pipeline(40)])
def test_a_name_behind_the_end_of_a_models_window_is_found(detector):
    assert [LATE[e.start : e.end] for e in entities_of(LATE, detector)] == ["Maria Lopez"]


def test_a_label_that_may_mean_what_is_asked_for_raises():
    with pytest.raises(ParameterError, match="got mensch") as failure:
        entities_of(TEXT, lambda text: [(0, 11, "MENSCH")], {"person"})
    assert "Maria" not in str(failure.value)
    assert entities_of(TEXT, lambda text: [(0, 11, "MENSCH")], {"mensch"}) == [
        Entity(0, 11, "mensch")
    ]
    with pytest.raises(ParameterError, match="got others") as failure:
        entities_of(TEXT, lambda text: [(0, 11, "maria")], {"person"})
    assert "maria" not in str(failure.value)


@over(
    "results",
    [
        [(0, 5)],
        [("0", 5, "person")],
        [(0, 5, None)],
        [(0, 5, "")],
        [{"start": None, "end": 3, "label": CANARY}],
        [{"start": 0, "end": 3}],
        [(-1, 5, "person")],
        [(5, 3, "person")],
        [(0, 99, "person")],
        None,
        CANARY,
    ],
)
def test_wrong_results_raise_and_quote_nothing(results):
    with pytest.raises(ParameterError) as failure:
        entities_of(f"{CANARY} said so", lambda text: results)
    assert CANARY not in f"{failure.value!r} {failure.value.__cause__} {failure.value.__context__}"


def test_a_failure_quotes_nothing():
    def detect(text):
        raise RuntimeError(text)

    with pytest.raises(ParameterError, match="failed with RuntimeError") as failure:
        entities_of(f"{CANARY} said so", detect)
    assert failure.value.__context__ is None
    assert CANARY not in str(failure.value)


@pytest.mark.parametrize("kinds", ["person", (), [""]])
def test_kinds_are_a_collection(kinds):
    with pytest.raises(ParameterError):
        entities_of(TEXT, lambda text: [], kinds)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(english, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"install '\.\[presidio\]"):
        detectors.presidio()


def test_a_missing_model_is_named(monkeypatch):
    monkeypatch.setattr(english, "find_spec", lambda name: None if "core" in name else object())
    with pytest.raises(ParameterError, match="spacy download en_core_web_lg"):
        detectors.presidio()


def blank_analyzer():
    import spacy
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine = SpacyNlpEngine()
    engine.nlp = {"en": spacy.blank("en")}
    return AnalyzerEngine(nlp_engine=engine)


@pytest.mark.slow
def test_an_analyzer_without_names_raises():
    needs_detect()
    analyzer = blank_analyzer()
    with pytest.raises(ParameterError, match="find person"):
        entities_of(TEXT, analyzer, {"person"})
    assert found("At 10.20.30.40", analyzer) == {("10.20.30.40", "ip")}


@pytest.mark.slow
def test_a_pipeline_itself_is_a_detector():
    needs_model()
    pipeline = english.importlib.import_module(english.model()).load(exclude=english._UNUSED)
    text = "Barack Obama met Angela Merkel in Berlin. " * 600
    assert len(text) > 2 * PIECE
    entities = entities_of(text, pipeline, {"place"})
    assert {text[each.start : each.end] for each in entities} == {"Berlin"}
    assert len(entities) == 600


@pytest.mark.slow
def test_nothing_leaves_and_nothing_is_logged(monkeypatch, caplog, capfd, tmp_path):
    needs_model()
    detector = detectors.presidio()
    private = f"Peter called. {CANARY}@{CANARY}.co.uk, IBAN DE00 {CANARY}, Dr {CANARY}"
    with caplog.at_level(logging.DEBUG), monkeypatch.context() as patch:
        loggers = [logging.getLogger(name) for name in ("presidio-analyzer", "decision_process")]
        for logger in loggers:
            caplog.set_level(logging.DEBUG, logger.name)
        patch.setattr(socket, "socket", pytest.fail)
        patch.setattr(socket, "getaddrinfo", pytest.fail)
        patch.setenv("TLDEXTRACT_CACHE", str(tmp_path))
        patch.setattr(english, "_engine", english.cache(english._Engine))  # it loads anew
        entities = entities_of(private, detector)
    assert (f"{CANARY}@{CANARY}.co.uk", "email") in {
        (private[each.start : each.end], each.kind) for each in entities
    }
    output = capfd.readouterr()
    for text in (caplog.text, output.out, output.err, repr(detector), repr(entities)):
        assert CANARY not in text
        assert "peter" not in text.casefold()
    assert not any(tmp_path.iterdir())


def test_words_of_a_text_do_not_stay_in_the_pipeline():
    needs_model()
    entities_of(f"Dr {CANARY} wrote to us", detectors.presidio())
    pipeline = english._engine()._analyzer.nlp_engine.get_nlp("en")
    assert CANARY not in pipeline.vocab.strings
    assert CANARY.lower() not in pipeline.vocab.strings


@pytest.mark.slow
def test_a_pattern_that_is_given_up_is_an_error(monkeypatch):
    """Presidio skips it and goes on, so what it would have found would go out."""
    recognizers = pytest.importorskip("presidio_analyzer.pattern_recognizer")
    monkeypatch.setattr(recognizers, "REGEX_TIMEOUT_SECONDS", 1e-9)
    with pytest.raises(ParameterError, match="TimeoutError"):
        entities_of("Call Maria Lopez.", detectors.presidio())


def test_a_changed_model_of_the_package_index_is_not_loaded(monkeypatch, tmp_path):
    package = tmp_path / english._REUPLOAD
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, english._REUPLOAD, raising=False)
    with pytest.raises(ParameterError, match="as it was checked"):
        english.checked(english._REUPLOAD)
    assert english.checked("en_core_web_lg") == "en_core_web_lg"


@pytest.mark.slow
def test_the_model_of_the_package_index_is_the_one_that_was_checked():
    needs_model()
    if english.find_spec(english._REUPLOAD) is None:
        pytest.skip("needs the offline extra")
    assert english.checked(english._REUPLOAD) == english._REUPLOAD


@pytest.mark.parametrize("slip", ["persom", "persons", "e-mails", "organizaton"])
def test_a_slip_in_a_kind_is_refused_with_every_detector(slip):
    for own in (lambda _: [(0, 5, "person")], detectors.union(lambda _: [], lambda _: [])):
        with pytest.raises(ParameterError, match="did you mean"):
            dp.Pseudonyms(own, kinds=[slip])
    assert dp.Pseudonyms(lambda _: [], kinds=["project"]).kinds.keys() == {"project"}
