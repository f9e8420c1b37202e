"""Sentences say what a certificate says, and what follows from it."""

import math
import re
from dataclasses import replace

import numpy as np
from support.cases import over
from support.spaces import CASES, drawn_law, random_space

import dp_middleware as dp
from dp_middleware.privacy.wording import guess, nats, recovery, sentence

CERTIFICATE = dp.Certificate(
    guarantee=dp.PureDP(epsilon=2.00001),
    adjacency=dp.Adjacency.substitution(),
    method="exact",
    assumptions=(),
    claimed=2.0,
    epsilon=2.00001,
    mechanism="m",
    space="s",
    recovery=0.12341,
    retention=0.1,
)


@over("epsilon", [0.63485001, 9.99999, 12345.67891, math.pi])
def test_a_loss_is_never_understated(epsilon):
    assert epsilon <= float(nats(epsilon)) < epsilon + 1e-3
    assert nats(math.inf) == "infinite"


TOKEN = "With one token replaced by any other, no release becomes more than"
ENTITIES = {"adjacency": dp.Adjacency.entities(["person"]), "guarantee": dp.PureDP(epsilon=0.0)}
SENTENCES = [
    ({}, f"{TOKEN} e^2.0001 times as likely (2.0001 nats per token, exact)."),
    (
        {**ENTITIES, "epsilon": 0.0},
        "With one value replaced by another of its public kind and shape, every release stays "
        "as likely as it was (0 nats, exact).",
    ),
    (
        {"guarantee": dp.ApproxDP(epsilon=1.0, delta=1e-6)},
        f"{TOKEN} e^1 times as likely, but for a probability of 1e-06 (1 nats per token, exact).",
    ),
    (
        {"guarantee": dp.MetricDP(epsilon=3.0), "method": "proof"},
        f"{TOKEN} e^(3 d) times as likely, where d is the euclidean distance of the two "
        "(by proof).",
    ),
    (
        {"guarantee": dp.NoGuarantee(reason="it leaks"), "epsilon": math.inf},
        "Nothing is guaranteed: it leaks.",
    ),
]


@over("change, said", SENTENCES)
def test_a_certificate_in_one_sentence(change, said):
    assert sentence(replace(CERTIFICATE, **change)) == said


def test_what_the_best_attacker_recovers():
    assert recovery(CERTIFICATE).startswith(
        "The best attacker who looks at each token alone recovers 12.35 % of tokens; 10 % come"
    )
    english = replace(CERTIFICATE, recovery_in_english=0.5, retention_in_english=0.25)
    assert "recovers 50 % of English words; 25 % come" in recovery(english)
    assert recovery(replace(CERTIFICATE, recovery=None)) == ""


@over("name", ["token-exponential", "nearest-response", "custext-strict"])
def test_no_attacker_tells_two_tokens_apart_more_often(name):
    space = random_space(tokens=8, unknown="raise")
    certificate = dp.certify(CASES[name](1.5), space)
    (said,) = re.findall(r"at most ([\d.]+) %", guess(certificate))
    law = drawn_law(CASES[name](1.5), space)
    successes = [np.maximum(x, y).sum() / 2 for x in law for y in law]  # Bayes, equal priors
    assert max(successes) <= float(said) / 100
    assert float(said) / 100 <= 1 / (1 + math.exp(-1.5)) + 1e-6


def test_of_attackers_is_said_what_a_finite_pure_guarantee_says():
    for guarantee in (dp.NoGuarantee(reason="x"), dp.ApproxDP(epsilon=1, delta=1)):
        assert guess(replace(CERTIFICATE, guarantee=guarantee)) == ""
    assert guess(replace(CERTIFICATE, epsilon=math.inf)) == ""
    assert "at most 50 % of the time" in guess(replace(CERTIFICATE, epsilon=0.0))
