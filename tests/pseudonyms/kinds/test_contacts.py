"""E-mail, user names, URLs, phones and IP addresses."""

import ipaddress
import re

import phonenumbers
import pytest
from support.cases import over
from support.session_draws import Names, SeededDraws, replaced

from dp_middleware.pseudonyms.kinds import Email, Ip, Phone, Url, Username

RESERVED = r"example\.(com|org|net)"


def test_reserved_domains():
    for seed in range(50):
        assert re.fullmatch(rf"[a-z]+\.[a-z]+@{RESERVED}", replaced(Email(), "A@b.c", seed))
        url = replaced(Url(), "HTTPS://www.acme.com/x?y=1", seed)
        assert re.fullmatch(rf"HTTPS://[a-z]+-[a-z]+\.{RESERVED}", url)
        assert re.fullmatch(r"@[a-z]+_[a-z]+", replaced(Username(), "@MLopez", seed))


def test_letters_of_an_email_do_not_count():
    names = Names(Email(), SeededDraws())
    assert names("Maria@Acme.com") == names("maria@acme.COM")
    urls = Names(Url(), SeededDraws())
    assert urls("a.com/X") != urls("a.com/x")


PHONES = [
    "+1 212-555-0100",
    "(415) 555-2671",
    "415.555.2671",
    "+1 (604) 555-2671",
    "+44 20 7946 0018",
    "+44 (0)20 7946 0018",
    "0044 20 7946 0018",
    "+49 30 901820",
    "+33 1 42 68 53 00",
    "+39 02 1234 5678",
    "+91 98765 43210",
    "+81 3-3580-3311",
]


def country(number):
    return phonenumbers.region_code_for_number(number)


@over("mention", PHONES)
def test_phones_stay_valid_in_their_country_and_format(mention):
    kind = Phone(region="GB" if mention.startswith("00") else "US")
    was = phonenumbers.parse(mention, kind.region)
    drawn = {replaced(kind, mention, seed) for seed in range(20)}
    assert len(drawn) == 20
    for text in drawn:
        number = phonenumbers.parse(text, kind.region)
        assert phonenumbers.is_valid_number(number)
        assert country(number) == country(was)
        assert re.sub("[0-9]", "9", text) == re.sub("[0-9]", "9", mention)


def test_phones_are_uniform_among_valid_ones():
    """Prefixes come up as often as among numbers that were drawn and checked here."""
    drawn = [replaced(Phone(), "(415) 555-2671", seed) for seed in range(1500)]
    areas = [text[1:4] for text in drawn]
    toll_free = sum(area in ("800", "888", "877", "866", "855", "844", "833") for area in areas)
    valid = [
        area for area in range(200, 1000) if country(phonenumbers.parse(f"+1{area}5552671")) == "US"
    ]
    expected = 1500 * 7 / len(valid)
    assert abs(toll_free - expected) < 5 * expected**0.5
    assert len({*areas}) > 0.85 * len(valid)


def test_a_city_state_shares_the_code_of_its_neighbour():
    text = replaced(Phone(), "+39 06 698 12345")
    assert phonenumbers.is_valid_number(phonenumbers.parse(text))


@pytest.mark.parametrize("mention", ["12345", "1-800-FLOWERS", "ext. 7", "555-0100"])
def test_what_is_no_phone_keeps_its_pattern(mention):
    kind = Phone()
    assert replaced(kind, mention) != mention
    assert [part.shape.startswith("valid") for part in kind.parts(mention)] == [False]


def test_extensions():
    text = replaced(Phone(), "(415) 555-2671 ext. 123")
    assert re.fullmatch(r"\([0-9]{3}\) [0-9]{3}-[0-9]{4} ext\. [0-9]{3}", text)
    for seed in range(5):  # 555-01 is no number that is given to anybody
        text = replaced(Phone(), "+1-555-010-9999x4603", seed)
        assert re.fullmatch(r"\+[0-9]-[0-9]{3}-[0-9]{3}-[0-9]{4}x[0-9]{4}", text)
        assert re.fullmatch(r"[0-9]{2} ext\. [0-9]{2}", replaced(Phone(), "12 ext. 34", seed))


def test_a_number_without_a_country_is_valid_where_the_language_is_spoken():
    for language, mention in (("de", "0221 4478213"), ("fr", "06 12 34 56 78")):
        number = phonenumbers.parse(replaced(Phone(language=language), mention), language.upper())
        assert phonenumbers.is_valid_number(number)


def test_addresses_for_documentation():
    nets = [*map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))]
    names = Names(Ip(), SeededDraws())
    drawn = [ipaddress.ip_address(names(f"10.0.{n // 250}.{n % 250}")) for n in range(900)]
    assert len({*drawn}) == 900
    assert all(any(address in net for net in nets) for address in drawn[:762])
    assert all(address in ipaddress.ip_network("198.18.0.0/15") for address in drawn[762:])
    six = ipaddress.ip_address(names("FE80::1"))
    assert six in ipaddress.ip_network("2001:db8::/32")
    assert names("fe80::1") == str(six)


def test_ports_and_networks_stay():
    assert replaced(Ip(), "10.0.0.1:8080").endswith(":8080")
    assert replaced(Ip(), "10.0.0.0/8").endswith("/8")
    assert replaced(Ip(), "[::1]:80").endswith("]:80")
    for mention in ("10.0.0.1 Maria", "10.0.0.1 4111111111111111", "5 10.0.0.1"):
        assert Ip().parts(mention)[0].shape.startswith("?")
