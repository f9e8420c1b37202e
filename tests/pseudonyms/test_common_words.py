"""Only public words: a word of a release is in the list, or was drawn independently of its own."""

import json
import random
import re

import pytest
from hypothesis import example, given, settings, strategies as st
from support.cases import over
from support.entities import CONTRACT, detector

import dp_middleware as dp
from dp_middleware.pseudonyms.guarantee import SIGNS, common_words
from dp_middleware.pseudonyms.structured import view_of
from dp_middleware.vocabulary.classes import listed

ODD = (
    *("Kowalski", "KOWALSKI", "the", "The", "tHe", "don't", "O'Neill’s", "it’s", "a", "x"),
    "WORD_47",
    *("12", "4,567.80", "10:30", "٣", "²", "Ⅷ", "é", "e\u0301", "ß", "İ", "ﬁ", "ǅ", "\u212a", "ſ"),
    *("שלום", "مرحبا", "漢字", "かな", "ไทย", "😀", "👩\u200d👩\u200d👧", "𝔘", "\U0010ffff"),
    "аpple",
    *("\u200b", "\u202e", "\x00", "\x1b", "\u2028", "\u2003", "\x85", "\x0b", "\ufeff", "\u00ad"),
    *('{"', '"}', '": ', '", "', "[", "]", "{", "}", "\\", "\\n", "\\u0041", "\\\\u0041"),
    *('\\"', '"'),
    *(" ", " ", " ", "\n", "\t", ".", ",", "-", "_", "'", "’", "/", "@", "-1.5e10", "null", "true"),
)
STRUCTURE = '{["\\\x1e'
TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(ODD) | st.text(max_size=3), max_size=25
).map("".join)


def json_of(texts):
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    ).filter(lambda value: isinstance(value, dict | list))


def session(found=lambda _: [], **terms):
    return dp.Pseudonyms(found, rest="common", **terms).session()


def cleared(match):
    """A blank for what was drawn, unless a word of the list stands there that has it inside."""
    before, behind = match.string[: match.start()], match.string[match.end() :]
    word = re.search(r"[A-Za-z]*$", before)[0] + match[0] + re.match(r"[A-Za-z]*", behind)[0]
    return match[0] if word != match[0] and is_public(word) else " "


def strangers(text, drawn):
    """What of a text is no word of the list, no sign and nothing that was drawn."""
    longest_first = sorted(drawn, key=len, reverse=True)
    for pseudonym in longest_first:  # behind a backslash its first letter may look like an escape
        text = text.replace(f"\\{pseudonym}", "\\ ")
    seen, spelled = view_of(text).text, ""
    for pseudonym in longest_first:
        seen = re.sub(re.escape(pseudonym), cleared, seen, flags=re.IGNORECASE)
    for place, sign in enumerate(seen):
        beside = {seen[place - 1 : place] or " ", seen[place + 1 : place + 2] or " "}
        if sign in "'’" and not beside & SIGNS:
            sign = "'"
        spelled += " " if sign != "'" and sign in SIGNS else sign
    words = (re.sub("'s$", "", word, flags=re.I).strip("'") for word in re.split(" |''", spelled))
    return [word for word in words if word and not is_public(word)]


def is_public(word):
    is_cased = re.fullmatch("[a-z']+|[A-Z][a-z']*|[A-Z']+", word)
    return is_cased and {word.lower(), f"{word.lower()}'s"} & common_words()


@over("text", ["Kowalski", "tHe", "a 1", "the\u200b", "é", "😀", "the|Xaver"])
def test_what_is_not_public_is_a_stranger(text):
    assert strangers(text, ["WORD_47"])


def check(text, talk):
    release = talk.release("1", "user", text)
    drawn = talk.mapping()
    assert strangers(release.text, drawn) == []
    assert not re.search("[0-9]", re.sub(r"WORD_\d+", "", release.text))
    restored = talk.restore(release.text)
    if not set(STRUCTURE) & set(text):  # JSON is restored as JSON
        assert restored == text
    assert "".join(talk.restore_stream(iter(release.text))) == restored


@given(text=TEXTS)
@example("L\u2003opez")
@example("aren't\\MARIA, \"")
@example('{"a": "Kowalski\\u0041nd", "b": -1.5e10}')
@settings(max_examples=300)
def test_a_word_that_leaves_is_in_the_list_or_was_drawn(text):
    check(text, session())


@given(value=json_of(TEXTS), ascii=st.booleans())
@settings(max_examples=150)
def test_json_stays_json(value, ascii):
    text, talk = json.dumps(value, ensure_ascii=ascii), session()
    release = talk.release("1", "tool", text).text
    json.loads(release)
    assert strangers(release, talk.mapping()) == []


@given(text=TEXTS, data=st.data())
@settings(max_examples=100)
def test_it_holds_beside_detected_entities(text, data):
    text = f"{text}{CONTRACT}{text}"
    place = st.integers(0, len(text))
    spans = data.draw(st.lists(st.tuples(place, place, st.sampled_from(["person", "id", "nrp"]))))
    ordered = [(min(a, b), max(a, b), kind) for a, b, kind in spans]  # one with "\\" is spelled
    found = [each for each in ordered if set(STRUCTURE).isdisjoint(text[each[0] : each[1]])]
    talk = session(lambda text: [each for each in found if each[1] <= len(text)])
    release = talk.release("1", "user", text)
    assert strangers(release.text, talk.mapping()) == []


def test_a_megabyte():
    draws = random.Random(0)
    words = [*ODD, *sorted(common_words())[:2000], *map(chr, range(0x100, 0x800))]
    check("".join(draws.choices(words, k=100_000)), session())


def test_the_law_of_the_labels_does_not_depend_on_the_words():
    for name in ("Kowalski", "99", "😀", "x\u0301y", "ʂʈ", "12.5"):
        labels = session().release("1", "user", f"Is {name} or {name}'s cat here?").text
        assert re.fullmatch(r"Is (WORD_\d\d) or \1's cat here\?", labels)
    drawn = {session().release("1", "user", w).text for w in ("zzyx", "4") for _ in range(300)}
    assert len(drawn) > 80


def test_equal_words_have_equal_labels_in_a_session():
    talk = session()
    one, other = re.findall(r"WORD_\d+", talk.release("1", "user", "Kowalski met Tamburi.").text)
    later = talk.release("2", "user", "tell Kowalski KOWALSKI").text
    assert one != other
    assert later.startswith(f"tell {one} WORD_")
    assert not later.endswith(one)  # another spelling is another word, and comes back as it was


def test_the_list_is_public_english_without_given_names():
    words = common_words()
    assert 19_000 < len(words) <= 20_003
    assert not words & listed("name")
    assert {"the", "don't", "surgery", "i", "null"} <= words
    assert not {"maria", "kowalski", "x", "lo"} & words


def test_the_certificate_says_so():
    pseudonyms = dp.Pseudonyms(detector(), rest="common")
    certificate = pseudonyms.session().release("1", "user", "Tell Zlatko to wait.").certificate
    assert certificate.assumptions[0].startswith("nothing leaves but ")
    assert certificate.epsilon == 0
    assert pseudonyms.certificate.epsilon == pytest.approx(1)  # of amounts that stay near
    assert not any("goes out as it is" in line for line in certificate.assumptions)


def test_what_is_allowed_stays_and_is_declared():
    talk = session(allow=["Kowalski", re.compile(r"\d{4}")])
    release = talk.release("1", "user", "Kowalski and Tamburi, 1999 or 12")
    assert re.fullmatch(r"Kowalski and WORD_\d+, 1999 or WORD_\d+", release.text)
    assert "what allow= names is public" in release.certificate.assumptions
