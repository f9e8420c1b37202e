"""Texts are found again at the boundaries of words, in any case, in pieces, behind escapes."""

import json
from itertools import pairwise

from hypothesis import given, strategies as st
from support.cases import over
from support.entities import mapping_of

from dp_middleware.pseudonyms.matching import Names, Restorer, fold, restore
from dp_middleware.pseudonyms.structured import JsonRestorer

MATCHES = [("Elena Novak's", ["Elena Novak"]), ("ELENA\n  novak", ["ELENA\n  novak"])]
MATCHES += [("Elena and Novak", ["Elena", "Novak"]), ("Helena, Elenas", [])]
MATCHES += [("elena_novak@example.com", ["elena", "novak"]), ("给Elena是", ["Elena"])]
MATCHES += [("אלנה Elena", ["Elena"]), ("57, 57.5, 1.57, 157, 57.", ["57", "57"])]
MATCHES += [("$13,204.77", ["$13,204.77"]), ("$13,204.775", [])]
MATCHES += [("今日は山田太郎さんと", ["山田太郎"])]


def names(*texts):
    known = Names()
    for text in texts:
        known.add(text, text)
    return known


@over("text, expected", MATCHES)
def test_matches_end_where_words_and_numbers_end(text, expected):
    known = names("Elena Novak", "Elena", "Novak", "57", "$13,204.77", "山田太郎")
    assert [text[start:end] for start, end, _ in known.find(text)] == expected


def test_the_longest_text_wins_and_its_first_value_stays():
    known = names("a b", "a", "b c")
    known.add("A", "other")
    assert [value for *_, value in known.find("a b c a")] == ["a b", "a"]
    assert [value for *_, value in known.find("a a b", [(0, 1), (2, 4)])] == ["a", "a"]  # parts


@given(st.text())
def test_folding_keeps_offsets(text):
    assert len(fold(text)) == len(text)


PAIRS = {"Mirela": "Elena", "Mirela-Luisa": "Elena-Eva", "Tamburi": "Nov", "7": "13.5"}
PAIRS |= {"x y": "a b c"}
PIECES = [*PAIRS.values(), " ", ".", "-", "a b", "1", "Ele", "s", "是", "\n"]


@given(st.lists(st.sampled_from(PIECES)), st.lists(st.integers(0, 60)))
def test_pieces_are_restored_as_the_whole_is(parts, cuts):
    text, known = "".join(parts), mapping_of(PAIRS).pseudonyms
    whole = text
    for start, end, pair in reversed([*known.find(text)]):
        whole = whole[:start] + pair.original + whole[end:]
    assert restore(text, known) == whole
    restorer, ends = Restorer(known), sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [restorer.feed(text[start:end]) for start, end in pairwise(ends)]
    assert "".join(pieces) + restorer.close() == whole


def test_nothing_else_is_held_back():
    restorer = Restorer(mapping_of({"Mirela": "Elena"}).pseudonyms)
    fed = [restorer.feed(piece) for piece in ("Dear Ele", "na, the", " answer is")]
    assert [*fed, restorer.close()] == ["Dear ", "Mirela, the", " answer is", ""]


JSON = {'Mirela "M"': "Elena", "Tamburi": "Nov", "x\ny": 'q"7', "José": "Zoë", "a": "😀 b"}


def restored(text, size):
    restorer = JsonRestorer(mapping_of(JSON).pseudonyms)
    pieces = [text[k : k + size] for k in range(0, len(text), size)]
    return "".join([*map(restorer.feed, pieces), restorer.close()])


@over("ascii_alone", [True, False])
@over("size", [1, 2, 5, 100])
def test_a_value_behind_an_escape_or_spelled_with_escapes_is_restored(ascii_alone, size):
    value = {"to": "Dear all,\nElena\tNov", "all": [1, 'q"7', {"Zoë": "at 😀 b."}], "p": "c:\\Nov"}
    text = json.dumps(value, ensure_ascii=ascii_alone)
    expected = {"to": 'Dear all,\nMirela "M"\tTamburi', "all": [1, "x\ny", {"José": "at a."}]}
    assert json.loads(restored(text, size)) == expected | {"p": "c:\\Tamburi"}


@given(st.text(st.sampled_from(list('"\\u{}[]d83c0e \n')), max_size=40), st.integers(1, 7))
def test_what_is_no_json_loses_nothing_but_the_spelling_of_escapes(text, size):
    if "\\" not in text and "\n" not in text:
        assert restored(text, size) == text
    assert restored(text, size) == restored(text, 100)


def test_a_string_of_json_comes_when_it_ends():
    restorer = JsonRestorer(mapping_of({"Mirela": "Elena"}).pseudonyms)
    fed = [restorer.feed(piece) for piece in ('{"a": "Dear Ele', 'na", "b": 1', "}")]
    assert fed == ['{"a": "', 'Dear Mirela", "b": ', "1}"]
