"""Arguments of tools that come in pieces: strings are restored, whatever escapes spell them."""

import json

from hypothesis import given, strategies as st
from support.cases import over
from support.entities import mapping_of

from dp_middleware.pseudonyms.json_pieces import JsonRestorer

PAIRS = {'Mirela "M"': "Elena", "Tamburi": "Nov", "x\ny": 'q"7', "José": "Zoë", "a": "😀 b"}


def restored(text, size):
    restorer = JsonRestorer(mapping_of(PAIRS).pseudonyms)
    pieces = [text[k : k + size] for k in range(0, len(text), size)]
    return "".join([*map(restorer.feed, pieces), restorer.close()])


@over("ascii_alone", [True, False])
@over("size", [1, 2, 5, 100])
def test_a_value_behind_an_escape_or_spelled_with_escapes_is_restored(ascii_alone, size):
    value = {"to": "Dear all,\nElena\tNov", "all": [1, 'q"7', {"Zoë": "at 😀 b."}], "p": "c:\\Nov"}
    text = json.dumps(value, ensure_ascii=ascii_alone)
    expected = {
        "to": 'Dear all,\nMirela "M"\tTamburi',
        "all": [1, "x\ny", {"José": "at a."}],
        "p": "c:\\Tamburi",
    }
    assert json.loads(restored(text, size)) == expected


@given(st.text(st.sampled_from(list('"\\u{}[]d83c0e \n')), max_size=40), st.integers(1, 7))
def test_what_is_no_json_loses_nothing_but_the_spelling_of_escapes(text, size):
    if "\\" not in text and "\n" not in text:
        assert restored(text, size) == text
    assert restored(text, size) == restored(text, 100)
