"""Ids, cards, bank accounts and social security numbers."""

import re
from collections import Counter

import pytest
from scipy import stats
from stdnum import iban, luhn
from support.session_draws import Names, SeededDraws, replaced

from dp_middleware.pseudonyms.kinds import Card, Iban, Id, Ssn, Zip


def layout(text):
    return re.sub("[0-9]", "9", text)


@pytest.mark.parametrize(
    "mention", ["4111 1111 1111 1111", "4111-1111-1111-1111", "378282246310005", "411111111111"]
)
def test_cards(mention):
    for seed in range(50):
        text = replaced(Card(), mention, seed)
        digits = re.sub("[^0-9]", "", text)
        assert luhn.is_valid(digits)
        assert digits.startswith("99")
        assert layout(text) == layout(mention)


def test_the_check_digit_of_the_value_does_not_matter():
    assert Card().parts("4111 1111 1111 1111")[0] == Card().parts("4111 1111 1111 1112")[0]


@pytest.mark.parametrize(
    "mention",
    [
        "GB82 WEST 1234 5698 7654 32",
        "DE89370400440532013000",
        "ES9121000418450200051332",
        "BE71 0961 2345 6769",
        "FR1420041010050500013M02606",
    ],
)
def test_ibans(mention):
    for seed in range(5):
        text = replaced(Iban(), mention, seed)
        assert iban.is_valid(text)
        assert text[:2] == mention[:2]
        assert [c == " " for c in text] == [c == " " for c in mention]


def test_a_wrong_iban_keeps_its_pattern():
    text = replaced(Iban(), "DE00370400440532013000")
    assert re.fullmatch("[A-Z]{2}[0-9]{20}", text)


@pytest.mark.parametrize("mention", ["078-05-1120", "078051120", "078 05 1120"])
def test_social_security_numbers_are_never_assigned(mention):
    for seed in range(50):
        text = replaced(Ssn(), mention, seed)
        assert text[:3] in ("000", "666")
        assert layout(text) == layout(mention)


def test_every_character_of_an_id_is_uniform():
    names = Names(Id(), SeededDraws(2))
    drawn = [names(f"Ab-{n:05d}") for n in range(20_000)]
    for place, size in [(0, 26), (1, 26), (3, 10), (7, 10)]:
        counts = Counter(text[place] for text in drawn)
        assert len(counts) == size
        assert stats.chisquare([*counts.values()]).pvalue > 1e-4
    assert all(re.fullmatch("[A-Z][a-z]-[0-9]{5}", text) for text in drawn)


def test_case_is_of_the_id():
    names = Names(Id(), SeededDraws())
    assert names("ABC123") != names("abc123").upper()
    assert names.kind.exact
    assert re.fullmatch("[A-Z]{2}[0-9][A-Z] [0-9][A-Z]{2}", replaced(Zip(), "SW1A 1AA"))
