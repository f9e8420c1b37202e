"""E-mail, user names, URLs, phones, IP addresses, cards, bank accounts, SSNs and ids."""

import ipaddress
import re
from collections import Counter

import phonenumbers
from scipy import stats
from stdnum import iban, luhn
from support.cases import over
from support.session_draws import Names, SeededDraws, replaced

from dp_middleware.pseudonyms.kinds import Card, Email, Iban, Id, Ip, Phone, Ssn, Url, Username, Zip

RESERVED = r"example\.(com|org|net)"


def test_reserved_domains():
    for seed in range(50):
        assert re.fullmatch(rf"[a-z]+\.[a-z]+@{RESERVED}", replaced(Email(), "A@b.c", seed))
        url = replaced(Url(), "HTTPS://www.acme.com/x?y=1", seed)
        assert re.fullmatch(rf"HTTPS://[a-z]+-[a-z]+\.{RESERVED}", url)
        assert re.fullmatch(r"@[a-z]+_[a-z]+", replaced(Username(), "@MLopez", seed))
    names, urls = Names(Email(), SeededDraws()), Names(Url(), SeededDraws())
    assert names("Maria@Acme.com") == names("maria@acme.COM")
    assert urls("a.com/X") != urls("a.com/x")


PHONES = ["+1 212-555-0100", "(415) 555-2671", "415.555.2671", "+1 (604) 555-2671"]
PHONES += ["+44 20 7946 0018", "+44 (0)20 7946 0018", "0044 20 7946 0018", "+49 30 901820"]
PHONES += ["+33 1 42 68 53 00", "+39 02 1234 5678", "+91 98765 43210", "+81 3-3580-3311"]


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
        assert layout(text) == layout(mention)


def test_phones_are_uniform_among_valid_ones():
    drawn = [replaced(Phone(), "(415) 555-2671", seed) for seed in range(1500)]
    areas = [text[1:4] for text in drawn]
    toll_free = sum(area in ("800", "888", "877", "866", "855", "844", "833") for area in areas)
    valid = [
        area for area in range(200, 1000) if country(phonenumbers.parse(f"+1{area}5552671")) == "US"
    ]
    expected = 1500 * 7 / len(valid)
    assert abs(toll_free - expected) < 5 * expected**0.5
    assert len({*areas}) > 0.85 * len(valid)


@over("mention", ["12345", "1-800-FLOWERS", "ext. 7", "555-0100", "12 ext. 34"])
def test_what_is_no_phone_keeps_its_pattern(mention):
    [part] = Phone().parts(mention)
    assert not part.shape.startswith("valid")
    assert replaced(Phone(), mention) != mention


@over("mention", ["(415) 555-2671 ext. 123", "+1-555-010-9999x4603", "12 ext. 34"])
def test_extensions_stay(mention):  # 555-01 is no number that is given to anybody
    assert {layout(replaced(Phone(), mention, seed)) for seed in range(5)} == {layout(mention)}


def test_a_number_is_valid_where_its_language_is_spoken_and_of_a_city_state():
    for language, mention in (
        ("de", "0221 4478213"),
        ("fr", "06 12 34 56 78"),
        ("it", "+39 06 698 12345"),  # shares its code with a neighbour
    ):
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


def layout(text):
    return re.sub("[0-9]", "9", text)


NOBODYS = [(Card(), "4111 1111 1111 1111"), (Card(), "4111-1111-1111-1111")]
NOBODYS += [(Card(), "378282246310005"), (Card(), "411111111111")]
NOBODYS += [(Ssn(), "078-05-1120"), (Ssn(), "078051120"), (Ssn(), "078 05 1120")]


@over("kind, mention", NOBODYS)
def test_cards_and_social_security_numbers_are_nobodys(kind, mention):
    for seed in range(50):
        text = replaced(kind, mention, seed)
        digits = re.sub("[^0-9]", "", text)
        is_card = digits.startswith("99") and luhn.is_valid(digits)
        assert is_card if kind.name == "card" else digits[:3] in ("000", "666")
        assert layout(text) == layout(mention)
    assert Card().parts("4111 1111 1111 1111")[0] == Card().parts("4111 1111 1111 1112")[0]


IBANS = ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "ES9121000418450200051332"]
IBANS += ["BE71 0961 2345 6769", "FR1420041010050500013M02606"]


@over("mention", IBANS)
def test_ibans(mention):
    for seed in range(5):
        text = replaced(Iban(), mention, seed)
        assert iban.is_valid(text)
        assert text[:2] == mention[:2]
        assert [c == " " for c in text] == [c == " " for c in mention]
    wrong = replaced(Iban(), "DE00370400440532013000")
    assert re.fullmatch("[A-Z]{2}[0-9]{20}", wrong)


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
    assert re.fullmatch("[A-Z]{2}[0-9][A-Z] [0-9][A-Z]{2}", replaced(Zip(), "SW1A 1AA"))
