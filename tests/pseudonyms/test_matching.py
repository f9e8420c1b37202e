"""Texts are found again at the boundaries of words, in any case, whatever comes in pieces."""

from hypothesis import given, strategies as st
from support.cases import over
from support.entities import mapping_of

from dp_middleware.pseudonyms.json_pieces import restore
from dp_middleware.pseudonyms.matching import Names, Restorer, fold


def names(*texts):
    found = Names()
    for text in texts:
        found.add(text, text)
    return found


def found(text, *texts):
    return [text[match.start : match.end] for match in names(*texts).find(text)]


@over(
    "text, expected",
    [
        ("Elena Novak's", ["Elena Novak"]),
        ("ELENA\n  novak", ["ELENA\n  novak"]),  # any case, any blanks
        ("Elena and Novak", ["Elena", "Novak"]),
        ("Helena, Elenas", []),
        ("elena_novak@example.com", ["elena", "novak"]),
        ("给Elena是", ["Elena"]),
        ("אלנה Elena", ["Elena"]),
        ("57, 57.5, 1.57, 157, 57.", ["57", "57"]),
        ("$13,204.77", ["$13,204.77"]),
        ("$13,204.775", []),
    ],
)
def test_matches_end_where_words_and_numbers_end(text, expected):
    known = ("Elena Novak", "Elena", "Novak", "57", "$13,204.77")
    assert found(text, *known) == expected


def test_the_longest_text_wins_and_its_first_value_stays():
    known = names("a b", "a", "b c")
    known.add("A", "other")
    assert [match.value for match in known.find("a b c a")] == ["a b", "a"]


def test_a_text_in_an_unspaced_script_is_found_inside_of_others():
    assert found("今日は山田太郎さんと", "山田太郎") == ["山田太郎"]


def test_parts_bound_what_is_found():
    text = "Elena Elena Novak"
    parts = [(0, 5), (6, 14)]
    assert [(m.start, m.end) for m in names("Elena", "Elena Novak").find(text, parts)] == [
        (0, 5),
        (6, 11),
    ]


@given(st.text())
def test_folding_keeps_offsets(text):
    assert len(fold(text)) == len(text)


PAIRS = {
    "Mirela": "Elena",
    "Mirela-Luisa": "Elena-Eva",
    "Tamburi": "Nov",
    "7": "13.5",
    "x y": "a b c",
}


@given(
    st.lists(st.sampled_from([*PAIRS.values(), " ", ".", "-", "a b", "1", "Ele", "s", "是", "\n"])),
    st.lists(st.integers(0, 60)),
)
def test_pieces_are_restored_as_the_whole_is(parts, cuts):
    text, mapping = "".join(parts), mapping_of(PAIRS)
    names_ = mapping.pseudonyms
    expected, done = [], 0
    for match in names_.find(text):
        expected += [text[done : match.start], match.value.original]
        done = match.end
    whole = "".join([*expected, text[done:]])
    assert restore(text, names_) == whole
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    restorer, out = Restorer(names_), ""
    for start, end in zip([0, *ends], ends, strict=False):
        out += restorer.feed(text[start:end])
    assert out + restorer.close() == whole


def test_nothing_else_is_held_back():
    restorer = Restorer(mapping_of({"Mirela": "Elena"}).pseudonyms)
    assert restorer.feed("Dear Ele") == "Dear "
    assert restorer.feed("na, the") == "Mirela, the"
    assert restorer.feed(" answer is") == " answer is"
    assert restorer.close() == ""
