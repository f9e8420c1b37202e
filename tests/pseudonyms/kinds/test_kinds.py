"""What holds for every kind: parts lie inside, nothing crashes, no value is needed for a draw."""

import re

import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.session_draws import Names, SeededDraws

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.draws import words
from dp_middleware.pseudonyms.kinds import Age, Amount, Date, Label, Number, default_kinds
from dp_middleware.pseudonyms.kinds.names import LEGAL, PARTICLES, SMALL_PARTICLES, SUFFIXES, TITLES

pytestmark = pytest.mark.slow  # all kinds keep one contract

KINDS = default_kinds()
MENTIONS = {
    "person": ["Maria Lopez", "Ms. O'Neill's", "J. R. Smith", "王小明"],
    "organisation": ["Acme Inc.", "The Foo Bar Company", "IBM"],
    "place": ["Paris", "New York's"],
    "address": ["742 Evergreen Terrace, Apt 5B, Springfield", "Hauptstr. 5"],
    "email": ["Maria.Lopez@acme.com"],
    "username": ["@mlopez", "mlopez92"],
    "url": ["https://www.acme.com/a?b=1", "acme.com"],
    "phone": ["+1 212-555-0100", "(415) 555-2671 x33", "12345"],
    "iban": ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "XX12"],
    "card": ["4111 1111 1111 1111", "4111-1111"],
    "ssn": ["078-05-1120", "12"],
    "id": ["AB-12345x", "№ 5"],
    "ip": ["192.168.0.1:80", "fe80::1", "foo"],
    "zip": ["90210", "SW1A 1AA"],
    "date": ["2024-03-01T10:20:30Z", "March 1 to 4 April 2024", "two weeks ago", "May", "2024"],
    "amount": ["$12,500.00", "$0.75", "five dollars", "$5 to $10"],
    "age": ["42-year-old", "aged 130"],
    "number": ["-3.14", "5 mg", "007"],
    "secret": ["hunter2", "AKIA1234567890ABCDEF", "postgres://ann:pw12@db.acme.com:5432/hr"],
    "label": ["American"],
}
ODD = ["", " ", "\n\t", "...", "👩‍👩‍👧 x", "\u200fמרים לוי\u200f", "\u0000", "1 ſep 2024"]
ODD += ["🦊", "王小明", "مريم", "e\u0301", "٤٢", "²", "ǅ", "ß"]


def test_every_kind_has_its_name_and_says_what_it_keeps():
    assert {*KINDS} == {*MENTIONS}
    for name, kind in KINDS.items():
        assert (kind.name, hash(kind)) == (name, hash(type(kind)()))
        assert kind.keeps


def check(kind, mention, seed=0):
    parts = kind.parts(mention)
    place = 0
    for start, end, shape in parts:
        assert place <= start < end <= len(mention)
        assert shape == shape.strip("\n")
        place = end
    assert parts or not re.search(r"\S", mention)
    return Names(kind, SeededDraws(seed))(mention)


@over("name", KINDS)
@over("mention", ODD)
def test_odd_mentions(name, mention):
    assert check(KINDS[name], mention) != mention or not mention.strip()


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data(), seed=st.integers(0, 99))
@settings(max_examples=100)
def test_any_text_and_texts_like_its_own(name, data, seed):
    alphabet = st.sampled_from(sorted({*"".join(MENTIONS[name])} | {*" -./,:'’07aZé🦊٣"}))
    mention = data.draw(
        st.text(max_size=40)
        | st.text(alphabet, max_size=30)
        | st.tuples(st.sampled_from(MENTIONS[name]), st.text(alphabet, max_size=8)).map("".join)
    )
    check(KINDS[name], mention, seed)
    if name == "date":
        check(Date(law="near"), mention)


SCHEMES = words("https http sftp ftps ftp wss ws ssh git file mailto")
STAYS = {
    "person": TITLES
    | SUFFIXES
    | PARTICLES
    | SMALL_PARTICLES
    | words("s al el ad as ash ur ul d ph m"),
    "organisation": LEGAL | words("the s a k v l o co p r c kg n"),
    "place": words("s"),
    "email": SCHEMES,
    "url": SCHEMES,
    "secret": words("postgres 5432"),
    "amount": Amount.public,
    "number": Number.public,
    "age": Age.public,
    "date": words(
        "from since in on by before after between during early late mid the of at until to till"
        " through and or t z utc gmt"
    ),
}


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_only_public_words_stay_outside_parts(name, data):
    every = [mention for mentions in MENTIONS.values() for mention in mentions]
    listed = st.sampled_from([*every, *MENTIONS[name] * 20, "\u017f", "7", "x9://"])
    mention = data.draw(st.sampled_from([" ", "", "-", ", "])).join(
        data.draw(st.lists(listed, max_size=3))
    )
    rest, place = "", 0
    for start, end, _ in [*KINDS[name].parts(mention), (len(mention), 0, "")]:
        rest, place = f"{rest} {mention[place:start]}", end
    if name == "ip":
        rest = re.sub(r"[:/][0-9]{1,5}\W*$", "", rest)
    assert {*re.findall(r"\w+", rest.casefold())} <= STAYS.get(name, frozenset())


@over("name", KINDS)
def test_one_value_one_pseudonym_and_two_values_two(name):
    names = Names(KINDS[name], SeededDraws(3))
    first, again = ({mention: names(mention) for mention in MENTIONS[name]} for _ in range(2))
    assert first == again
    assert len({*first.values()}) == len(first)


@over("name", KINDS)
def test_nothing_free_quotes_no_value(name):
    kind = KINDS[name]
    for mention in MENTIONS[name]:
        for a, b, shape in kind.parts(mention):
            with pytest.raises(ParameterError) as caught:
                kind.draw(kind.key(mention[a:b], shape), shape, lambda _: False, SeededDraws())
            assert mention not in str(caught.value)


def test_labels():
    names = Names(Label(of="NRP"), SeededDraws())
    labels = [names(f"value {n}") for n in range(2000)]
    assert len({*labels}) == 2000
    assert all(re.fullmatch("NRP_[0-9]{2,4}", each) for each in labels)
    assert names("VALUE 7") == names("value 7") == labels[7]
