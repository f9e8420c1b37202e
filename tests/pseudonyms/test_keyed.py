"""The law "keyed": who has the key agrees with all others who have it, and nobody else does."""

import json
import logging
import math
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings, strategies as st
from support.cases import over
from support.entities import CONTRACT, ENTITIES, HIDDEN, detector
from support.ledgers import Charges

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.draws import ff1

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

KEY, OTHER = b"one key of thirty-two bytes 0001", b"one key of thirty-two bytes 0002"
VALUES = ENTITIES | {"4111 1111 1111 1111": "card", "DE89 3704 0044 0532 0130 00": "iban"}
VALUES |= {"123-45-6789": "ssn", "10.1.2.3": "ip", "EC1A 1BB": "zip", "mirela_t": "username"}
VALUES |= {"https://acme.test/x": "url", "12 High Street": "address", "47": "age"}
VALUES |= {"1,234": "number", "Zoroastrian": "religion"}
VALUES |= {"ghp_0123456789abcdefghijABCDEFGHIJ012345": "secret"}
SEEN = {"Ms Tamburi": "person", "$9,000.00": "amount", "1999-12-31": "date"}
EVERY = f"{CONTRACT} " + " ; ".join(VALUES)


def pseudonyms(key=KEY, entities=VALUES, **options):
    return dp.Pseudonyms(detector(entities), law="keyed", key=key, **options)


def test_ff1_is_that_of_its_standard():
    """Samples 1 to 3 and 7 to 9 of NIST's examples for SP 800-38G."""
    short = "2B7E151628AED2A6ABF7158809CF4F3C"
    long = short + "EF4359D8D580AA4F7F036D6F04FC6A94"
    digits, tens = "0123456789", "39383736353433323130"
    letters, sevens = "0123456789abcdefghi", "3737373770717273373737"
    for key, radix, tweak, plain, encrypted in (
        (short, 10, "", digits, "2433477484"),
        (short, 10, tens, digits, "6124200773"),
        (short, 36, sevens, letters, "a9tv40mll9kdu509eum"),
        (long, 10, "", digits, "6657667009"),
        (long, 10, tens, digits, "1001623463"),
        (long, 36, sevens, letters, "xs8a0azh2avyalyzuwd"),
    ):
        cipher, told = ff1(bytes.fromhex(key), radix), bytes.fromhex(tweak)
        number, wanted = int(plain, radix), int(encrypted, radix)
        assert cipher(number, len(plain), told, False) == wanted
        assert cipher(wanted, len(plain), told, True) == number


def test_two_processes_with_one_key_agree_on_all_kinds_and_one_with_another_key_on_none():
    script = (
        "import json, sys\nfrom pseudonyms.test_keyed import *\n"
        "key, *seen = sys.argv[1:]\n"
        "talk = pseudonyms(bytes.fromhex(key), {**VALUES, **SEEN}).session()\n"
        "[talk.release(text, 'user', text) for text in (*seen, EVERY)]\n"
        "print(json.dumps({value: name for name, value in talk.mapping().items()}))"
    )

    def mapping(key, *seen):
        asked = [sys.executable, "-c", script, key.hex(), *seen]
        tests = Path(__file__).parents[1]
        return json.loads(subprocess.run(asked, cwd=tests, capture_output=True, check=True).stdout)

    one, other = mapping(KEY), mapping(OTHER)
    two = mapping(KEY, "Ms Tamburi paid $9,000.00 on 1999-12-31")
    assert len(one) >= len(VALUES)
    assert one.items() <= two.items()
    assert not one.items() & other.items()


def test_no_value_goes_out_and_all_come_back_by_the_session():
    talk = pseudonyms().session()
    released = talk.release("1", "user", EVERY).text
    hidden = (*HIDDEN, "Tamburi", *(value for value in VALUES if value != "47"))
    assert [value for value in hidden if value in released] == []
    assert talk.restore(released) == EVERY


TEN_DIGITS = st.integers(0, 10**10 - 1)


@st.composite
def values(draw):
    kind, digits = draw(st.sampled_from(["id", "phone", "iban"])), f"{draw(TEN_DIGITS):010d}"
    if kind == "id":
        return kind, draw(st.text("0123456789abcxyzABCXYZ-_/", min_size=6, max_size=30))
    if kind == "phone":
        form = draw(st.sampled_from(["+1 {} {}", "+49 {}{}", "({}) {} ext. 12"]))
        return kind, form.format(digits[:3], digits[3:])
    from stdnum import iban

    return kind, f"DE{iban.calc_check_digits(f'DE0037040044{digits}')}37040044{digits}"


@settings(max_examples=150, deadline=None)
@given(values(), values())
def test_the_key_alone_gives_back_all_of_a_format_with_a_million_texts(first, second):
    """And so two of its values never share a pseudonym; what is not encrypted is refused."""
    with_key, out = pseudonyms(), {}
    for kind, value in (first, second):
        (part,) = with_key.kinds[kind].parts(value) or [None]
        assume(part is not None and part[:2] == (0, len(value)))
        released = pseudonyms(entities={value: kind}).session().release("1", "user", value).text
        if kind == "iban" or texts(part.shape) >= 1_000_000:
            assert with_key.original(kind, released) == value
            out[kind, value] = released
        else:
            with pytest.raises(ParameterError) as error:
                with_key.original(kind, released)
            assert released not in str(error.value)
    assert len({*out.values()}) == len(out)


def texts(shape):
    """How many there are of a format, before its rule."""
    layout = shape.split(" ", 3)[-1]
    if shape.startswith("valid"):
        return 10 ** layout.count("#")
    return math.prod({"9": 10, "1": 9}.get(sign, 26 if sign in "aA" else 1) for sign in shape)


@over("kind, text", [("person", "Eva"), ("card", "9900 0000 0000 0000"), ("zip", "12345")])
def test_what_a_session_restores_alone_is_refused_by_the_key(kind, text):
    with pytest.raises(ParameterError, match="by session"):
        pseudonyms().original(kind, text)
    with pytest.raises(ParameterError, match="keyed"):
        dp.Pseudonyms(detector()).original("id", "AB-1234567")


def test_a_name_is_one_wherever_it_stands_and_intervals_stay():
    forms = dict.fromkeys(["Tamburi", "Ms Tamburi", "Mirela Tamburi"], "person")

    def released(text):
        return pseudonyms(entities=VALUES | forms).session().release("1", "user", text).text

    assert len({released(text).split()[-1] for text in forms}) == 1
    both = released("2024-03-01 and 2024-03-15").split(" and ")
    assert [released(day) for day in ("2024-03-01", "2024-03-15")] == both


def test_the_certificate_says_what_it_is():
    release = pseudonyms().session().release("1", "user", CONTRACT)
    certificate = release.certificate
    assert isinstance(certificate.guarantee, dp.NoGuarantee)
    assert (certificate.epsilon, certificate.method) == (math.inf, "none")
    for words in ("equal everywhere, for ever", "AES and HMAC-SHA-256", "no epsilon is finite"):
        assert words in certificate.assumptions[0]
        assert words in certificate.guarantee.reason
    assert pseudonyms(OTHER).fingerprint != pseudonyms().fingerprint == pseudonyms().fingerprint


def test_a_ledger_is_told_of_each_value_that_nothing_finite_is_guaranteed():
    ledger = Charges()
    talk = pseudonyms(ledger=ledger, subject="ann").session()
    assert talk.release("1", "user", "AB-12345 in Berlin").spent == float("inf")
    assert talk.release("2", "user", "AB-12345 in Berlin").spent == 0
    assert [row[:1] + row[2:] for row in ledger.rows] == [("ann", 2)]


def test_the_key_stays_where_it_is(caplog):
    with caplog.at_level(logging.DEBUG):
        own = pseudonyms()
        own.session().release("1", "user", CONTRACT)
    pickled = pickle.dumps(dp.Pseudonyms(law="keyed", key=KEY))
    shown = f"{own!r} {own._law!r} {vars(own)} {caplog.text} {pickled!r}"
    assert not [form for form in (KEY.decode(), KEY.hex(), repr(KEY)) if form in shown]
    with pytest.raises(ParameterError, match="has the key"):
        pickle.loads(pickled).original("id", "AB-1234567")


TERMS = [({"law": "keyed", "key": b"fifteen bytes.."}, "15 bytes"), ({"key": KEY}, "together")]
TERMS += [({"law": "keyed"}, "together"), ({"law": "keyed", "key": "but text"}, "got str")]


@over("terms, said", TERMS)
def test_terms_that_do_not_go_together(terms, said):
    with pytest.raises(ParameterError, match=said) as error:
        dp.Pseudonyms(detector(), **terms)
    assert not re.search("fifteen|but text", str(error.value))
