"""Secrets: what is found, what stands for it, and that it comes back."""

import json
import re
import time
from collections import Counter

from scipy import stats
from support.cases import over
from support.secret_messages import messages
from support.session_draws import replaced

import dp_middleware as dp
from dp_middleware.conversation.messages import Message
from dp_middleware.pseudonyms.detection import entities_of
from dp_middleware.pseudonyms.kinds import Secret
from dp_middleware.pseudonyms.secrets import secrets_in


def session():
    return dp.Pseudonyms(secrets_in, on_empty="pass").session()


def is_covered(secret, found):
    return any(each.start <= secret[0] and secret[1] <= each.end for each in found)


@over("seed", range(5))
@over("name", ["tuning", "report"])
def test_secrets_are_covered(name, seed):
    missed, total = [], 0
    for text, secrets in messages(name, seed):
        found = entities_of(text, secrets_in)
        total += len(secrets)
        missed += [text[slice(*each)] for each in secrets if not is_covered(each, found)]
    assert total >= 45
    assert len(missed) <= 0.02 * total, missed


def test_checksums_names_and_code_are_no_secrets():
    for text, _ in messages("harmless"):
        assert [text[a:b] for a, b, _ in secrets_in(text)] == []


@over("name", ["tuning", "report"])
def test_no_secret_leaves_and_all_come_back(name):
    for text, secrets in messages(name):
        talk, found = session(), entities_of(text, secrets_in)
        exchange = talk.exchange([Message(role="user", texts=(text,))], conversation="c")
        [release] = exchange.releases
        covered = [text[slice(*each)] for each in secrets if is_covered(each, found)]
        assert not [secret for secret in covered if secret in release.text]
        assert release.certificate.epsilon == 0
        restored = exchange.restore(release.text, json=text.startswith("{"), shown=False)
        if text.startswith("{"):
            assert json.loads(restored) == json.loads(text)
        else:
            pieces = talk.restore_stream(iter(release.text), conversation="c")
            assert restored == "".join(pieces) == text


def test_the_form_of_a_key_and_of_a_connection_string_stays():
    text = "Our API key ghp_0123456789abcdefABCDEF0123456789abcd opens the API."
    release = session().release("1", "user", text).text
    assert re.fullmatch(r"Our API key ghp_\w{36} opens the API\.", release)
    text = "postgresql://ann:hunter22@db.acme.com:5432/payroll"
    release = session().release("1", "user", text).text
    assert re.fullmatch(r"postgresql://\w+:\w{8}@[\w-]+\.example\.\w+:5432/\w{7}", release)
    assert "acme" not in release


def test_prefix_length_and_alphabet_stay_and_all_signs_are_uniform():
    counts = Counter()
    for seed in range(600):
        drawn = replaced(Secret(), "AKIA" + "Q7" * 8, seed)
        assert re.fullmatch("AKIA[A-Z0-9]{16}", drawn)
        counts.update(drawn[4:])
    assert len(counts) == 36
    assert stats.chisquare([*counts.values()]).pvalue > 1e-6


def test_the_place_of_capitals_and_signs_of_a_password_is_private():
    kind = Secret()
    assert kind.parts("Tr0ub4dor&3") == kind.parts("aZ3...---9x")
    assert kind.parts("hunter2") == kind.parts("2222zzz")
    assert kind.parts("hunter2") != kind.parts("Hunter2")  # the smallest alphabet is public


def test_short_ones_are_labels_and_long_ones_are_cut():
    assert replaced(Secret(), "ab1").startswith("SECRET_")
    assert Secret().parts("aB3" * 900)[0].shape.count("x") == 64


@over("text", ["a" * 50_000, "a-" * 20_000, "password='" * 4_000, "key " * 9_000])
def test_long_texts_take_linear_time(text):
    begun = time.process_time()
    list(secrets_in(text))
    assert time.process_time() - begun < 5
