"""What is named by hand: never replaced, or always."""

import json
import re

import pytest
from support.cases import over
from support.entities import CONTRACT, detector

import dp_middleware as dp
from dp_middleware.errors import ParameterError


def session(**terms):
    return dp.Pseudonyms(detector(), on_empty="pass", **terms).session()


def released(text, now=None, **terms):
    return session(**terms).release("1", "user", text, **(now or {})).text


@over("what", ["Berlin", "berlin", re.compile("B[a-z]+")])
def test_what_is_allowed_is_never_replaced(what):
    terms = {"allow": [what]}
    for text in (released(CONTRACT, **terms), released(CONTRACT, now=terms)):
        assert "in Berlin on" in text
        assert "Tamburi" not in text


@over("what", ["SIGNED", re.compile("sign.."), lambda text: [re.search("sig..d", text).span()]])
def test_what_is_named_is_always_replaced_with_its_kind(what):
    terms = {"also": {what: "verb"}}
    for text in (released(CONTRACT, **terms), released(CONTRACT, now=terms)):
        assert "signed" not in text
        assert re.search(r"VERB_\d+", text)


def test_a_part_of_an_entity_may_stay_and_what_is_named_always_wins():
    assert re.search(r"Mirela \w+ of", released(CONTRACT, allow=["Mirela"]))
    assert "Berlin" not in released(CONTRACT, allow=["Berlin"], also=[("Berlin", "city")])


def test_what_was_named_once_stays_named_in_the_conversation():
    talk = session()
    first = talk.release("1", "user", "Falcon starts.", also={"Falcon": "project"}).text
    assert talk.release("2", "user", "falcon ended").text == first.replace(" starts.", " ended")
    assert talk.restore(first) == "Falcon starts."


def test_a_number_of_json_or_another_kind_is_replaced_where_it_is_named():
    text = released(json.dumps({"count": 4711}), also={re.compile("4711"): "total"})
    assert re.fullmatch(r'\{"count": "TOTAL_\d+"\}', text)
    text = released("Falcon in Berlin", kinds=["person"], also={"Falcon": "project"})
    assert re.fullmatch(r"PROJECT_\d+ in Berlin", text)


@over(
    "name, value",
    [
        *(("allow", value) for value in ("Berlin", [""], [3])),
        *(("also", value) for value in ("Berlin", ["Berlin"], {"": "x"})),
    ],
)
def test_other_things_are_refused_without_a_quote(name, value):
    with pytest.raises(ParameterError) as raised:
        session(**{name: value})
    assert "Berlin" not in str(raised.value)


def test_a_function_that_fails_quotes_nothing():
    def fails(text):
        raise ValueError(text)

    with pytest.raises(ParameterError) as raised:
        released(CONTRACT, also={fails: "x"})
    assert "Mirela" not in str(raised.value) + repr(raised.value.__cause__)


def test_the_certificate_names_what_a_call_allows():
    pseudonyms = dp.Pseudonyms(lambda _: [], on_empty="pass")
    known = set(pseudonyms.certificate.assumptions)
    twin = pseudonyms.naming(allow=["Berlin"])
    assert set(twin.certificate.assumptions) - known == {"what allow= names is public"}
    assert set(pseudonyms.certificate.assumptions) == known
