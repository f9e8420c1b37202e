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
from dp_middleware.pseudonyms.labels import kind_of

TEXT = "Maria Lopez of Initech, maria@initech.com"
CANARY = "Quiddelbacher"


def needs_model():
    pytest.importorskip("presidio_analyzer", reason="needs the detect extra")
    pytest.importorskip("spacy", reason="needs the detect extra")
    if not any(detectors.find_spec(model) for model in detectors.MODELS):
        pytest.skip("needs spaCy's English model")


FOUND = [(0, 11, "PERSON"), (15, 22, "ORG")]
SPACY = [SimpleNamespace(start=0, end=1, start_char=a, end_char=b, label_=k) for a, b, k in FOUND]
FORMS = [
    FOUND,
    [Entity(0, 11, "person"), Entity(15, 22, "organisation")],
    [SimpleNamespace(start=a, end=b, entity_type=k, score=0.85) for a, b, k in FOUND],  # Presidio
    SimpleNamespace(ents=tuple(SPACY)),
    SPACY,
    [  # GLiNER
        {"start": 0, "end": 11, "text": "Maria Lopez", "label": "full name", "score": 0.9},
        {"start": 15, "end": 22, "text": "Initech", "label": "company", "score": 0.9},
    ],
    [  # Hugging Face
        {"start": 0, "end": 11, "entity_group": "PER", "word": "Maria Lopez"},
        {"start": 15, "end": 22, "entity": "B-ORG", "word": "Initech"},
    ],
    ((15, 22, "ORG"), (0, 11, "PER")),  # a generator, not sorted
]


@over("results", FORMS)
def test_forms_of_results(results):
    def detect(text):
        return iter(results) if isinstance(results, tuple) else results

    assert entities_of(TEXT, detect) == [Entity(0, 11, "person"), Entity(15, 22, "organisation")]
    assert entities_of(TEXT, detect, {"ORG"}) == [Entity(15, 22, "organisation")]


# labels of spaCy, Presidio, GLiNER, Rampart, ai4privacy and openai/privacy-filter
LABELS = [("PER", "person"), ("private_person", "person"), ("B-GIVEN_NAME", "person")]
LABELS += [("FIRSTNAME", "person"), ("persName", "person"), ("orgName", "organisation")]
LABELS += [(label, "place") for label in ("GPE", "FAC", "I-LOC", "LOC", "placeName", "geogName")]
LABELS += [("TIME", "date"), ("date of birth", "date"), ("MONEY", "amount"), ("PERCENT", "number")]
LABELS += [("E-mail", "email"), ("phone number", "phone"), ("I-TELEPHONENUM", "phone")]
LABELS += [("mobile phone number", "phone"), ("US_SSN", "ssn"), ("S-account_number", "id")]
LABELS += [("DRIVERS_LICENSE", "id"), ("health insurance number", "id"), ("IT_FISCAL_CODE", "id")]
LABELS += [("E-secret", "secret"), ("BUILDING_NUMBER", "address"), ("BUILDINGNUM", "address")]
LABELS += [("Work of Art", "work_of_art"), ("MISC", "misc")]


@over("label, kind", LABELS)
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
    claims = draw(st.lists(st.tuples(place, place, st.sampled_from(KINDS)), max_size=8))
    return text, [(min(a, b), max(a, b), kind) for a, b, kind in claims]


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
    read = " ".join(text.split(" ")[:512])
    place = read.find("Maria Lopez")
    return [] if place < 0 else [{"start": place, "end": place + 11, "entity_group": "PER"}]


class Pipeline:
    """What a pipeline of transformers looks like; it cuts a text at 512 tokens without a word."""

    model = SimpleNamespace(config=SimpleNamespace(id2label={0: "O", 1: "B-PER", 2: "I-PER"}))

    def __init__(self, most):
        self.tokenizer = Tokenizer(most)

    def __call__(self, text):
        most = self.tokenizer.model_max_length
        assert len(text.split(" ")) <= most, "a part of the text is not read"
        return truncating(text)


class Tokenizer:
    def __init__(self, most):
        self.model_max_length = most

    def __call__(self, text):
        return {"input_ids": text.split(" ")}


@over("detector", [truncating, Pipeline(512), Pipeline(40)])
def test_a_name_behind_the_end_of_a_models_window_is_found(detector):
    assert [LATE[e.start : e.end] for e in entities_of(LATE, detector)] == ["Maria Lopez"]


@over("label, told", [("MENSCH", "mensch"), ("maria", "others")])
def test_a_label_that_may_mean_what_is_asked_for_raises(label, told):
    with pytest.raises(ParameterError, match=f"got {told}") as failure:
        entities_of(TEXT, lambda text: [(0, 11, label)], {"person"})
    assert "maria" not in str(failure.value).lower()
    assert entities_of(TEXT, lambda text: [(0, 11, label)], {label}) == [
        Entity(0, 11, label.lower())
    ]


WRONG = [[(0, 5)], [("0", 5, "person")], [(0, 5, None)], [(0, 5, "")], None, CANARY]
WRONG += [[(-1, 5, "person")], [(5, 3, "person")], [(0, 99, "person")], [{"start": 0, "end": 3}]]


@over("results", [*WRONG, [{"start": None, "end": 3, "label": CANARY}]])
def test_wrong_results_raise_and_quote_nothing(results):
    with pytest.raises(ParameterError) as failure:
        entities_of(f"{CANARY} said so", lambda text: results)
    assert CANARY not in f"{failure.value!r} {failure.value.__cause__} {failure.value.__context__}"


@over("kinds", ["person", (), [""]])
def test_kinds_are_a_collection(kinds):
    with pytest.raises(ParameterError):
        entities_of(TEXT, lambda text: [], kinds)


MISSING = [("", MissingExtra, r"install '\.\[presidio\]")]
MISSING += [("core", ParameterError, "spacy download en_core_web_lg")]


@pytest.mark.parametrize(("missing", "error", "said"), MISSING)
def test_a_missing_extra_or_model_is_named(missing, error, said, monkeypatch):
    monkeypatch.setattr(detectors, "find_spec", lambda name: None if missing in name else object())
    with pytest.raises(error, match=said):
        detectors.presidio()


@pytest.mark.slow
def test_an_analyzer_without_names_raises():
    needs_model()
    import spacy
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine = SpacyNlpEngine()
    engine.nlp = {"en": spacy.blank("en")}
    analyzer = AnalyzerEngine(nlp_engine=engine)
    with pytest.raises(ParameterError, match="find person"):
        entities_of(TEXT, analyzer, {"person"})
    assert entities_of("At 10.20.30.40", analyzer) == [Entity(3, 14, "ip")]


@pytest.mark.slow
def test_a_pipeline_itself_is_a_detector():
    needs_model()
    pipeline = detectors.import_module(detectors.english_model()).load(exclude=["parser", "senter"])
    text = "Barack Obama met Angela Merkel in Berlin. " * 600
    assert len(text) > 2 * PIECE
    entities = entities_of(text, pipeline, {"place"})
    assert {text[each.start : each.end] for each in entities} == {"Berlin"}
    assert len(entities) == 600


@pytest.mark.slow
def test_nothing_leaves_and_nothing_is_logged(monkeypatch, caplog, capfd, tmp_path):
    needs_model()
    detector = detectors.presidio()
    mail = f"{CANARY}@{CANARY}.co.uk"
    private = f"Peter called. {mail}, IBAN DE00 {CANARY}, Dr {CANARY}"
    with caplog.at_level(logging.DEBUG), monkeypatch.context() as patch:
        for name in ("presidio-analyzer", "decision_process"):
            caplog.set_level(logging.DEBUG, name)
        patch.setattr(socket, "socket", pytest.fail)
        patch.setattr(socket, "getaddrinfo", pytest.fail)
        patch.setenv("TLDEXTRACT_CACHE", str(tmp_path))
        patch.setattr(detectors, "_engine", detectors.cache(detectors._Engine))  # it loads anew
        entities = entities_of(private, detector)
    assert Entity(private.index(mail), private.index(mail) + len(mail), "email") in entities
    shown = f"{caplog.text} {capfd.readouterr()} {detector!r} {entities!r}"
    assert CANARY not in shown
    assert "peter" not in shown.casefold()
    assert not any(tmp_path.iterdir())


def test_words_of_a_text_do_not_stay_in_the_pipeline():
    needs_model()
    entities_of(f"Dr {CANARY} wrote to us", detectors.presidio())
    strings = detectors._engine()._analyzer.nlp_engine.get_nlp("en").vocab.strings
    assert CANARY not in strings
    assert CANARY.lower() not in strings


@pytest.mark.slow
def test_a_pattern_that_is_given_up_is_an_error(monkeypatch):
    """Presidio skips it and goes on, so what it would have found would go out."""
    recognizers = pytest.importorskip("presidio_analyzer.pattern_recognizer")
    monkeypatch.setattr(recognizers, "REGEX_TIMEOUT_SECONDS", 1e-9)
    with pytest.raises(ParameterError, match="TimeoutError"):
        entities_of("Call Maria Lopez.", detectors.presidio())


def test_a_changed_model_of_the_package_index_is_not_loaded(monkeypatch, tmp_path):
    package = tmp_path / detectors._REUPLOAD
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, detectors._REUPLOAD, raising=False)
    with pytest.raises(ParameterError, match="as it was checked"):
        detectors.checked(detectors._REUPLOAD)
    assert detectors.checked("en_core_web_lg") == "en_core_web_lg"


@pytest.mark.slow
def test_the_model_of_the_package_index_is_the_one_that_was_checked():
    needs_model()
    if detectors.find_spec(detectors._REUPLOAD) is None:
        pytest.skip("needs the offline extra")
    assert detectors.checked(detectors._REUPLOAD) == detectors._REUPLOAD


@over("slip", ["persom", "persons", "e-mails", "organizaton"])
def test_a_slip_in_a_kind_is_refused_with_every_detector(slip):
    for own in (lambda _: [(0, 5, "person")], detectors.union(lambda _: [], lambda _: [])):
        with pytest.raises(ParameterError, match="did you mean"):
            dp.Pseudonyms(own, kinds=[slip])
    assert dp.Pseudonyms(lambda _: [], kinds=["project"]).kinds.keys() == {"project"}
