"""docs/guarantees.md is true: its tests exist, its tables are computed again, its lemmas hold."""

import inspect
import json
import math
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from support.cases import over
from support.noise_laws import plane_law
from support.spaces import crowded_space, host_rows, random_space, space_of

import dp_middleware as dp
from dp_middleware.mechanisms import dyntext, rantext, stencil
from dp_middleware.mechanisms.kernels import noise as _noise

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
MARKED = re.findall(r"<!-- check: (\S+) -->\n(.*?)\n<!-- end check -->", PAGE, flags=re.DOTALL)
BLOCKS = dict(MARKED)
CITED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
SIZES = (100, 11_000, 29_523)


def cells(table):
    _, ruler, *lines = [re.split(r" *\| *", line.strip("| ")) for line in table.splitlines()]
    assert all(set(cell) <= {"-"} for cell in ruler)
    return lines


def section(name):
    assert PAGE.count(f"### `{name}`\n") == 1, name
    return re.split(r"^##+ ", PAGE.split(f"### `{name}`\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_mechanism_has_a_section_and_nothing_else_has():
    assert re.findall(r"^### `(.*)`$", PAGE, flags=re.MULTILINE) == list(dp.MECHANISMS)


@over("name", dp.MECHANISMS)
def test_a_section_has_the_law_the_truth_the_certificate_and_a_test(name):
    text = section(name)
    parts = (r"\*\*Law", "[Cc]laimed|ours", "[Tt]rue|False", r"\*\*Certified", "alibrate")
    assert all(re.search(part, text) for part in (*parts, "`tests/"))


@over("path, name", CITED)
def test_a_cited_test_exists(path, name):
    assert re.search(rf"^ *def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_no_test_is_cited_in_another_form():
    assert len(CITED) > 50
    assert PAGE.count("::") == len(re.findall(r"`tests/[\w/]+\.py::\w+`", PAGE))


@over("name", dp.MECHANISMS)
def test_every_mechanism_says_the_truth_in_a_phrase(name):
    mechanism = dp.MECHANISMS[name]
    says = next(kind for kind in mechanism.__mro__ if "truth" in vars(kind))
    assert says is mechanism or says not in dp.MECHANISMS.values(), "another mechanism's"
    assert 0 < len(mechanism.truth) <= 90
    wrong = mechanism.truth.startswith("nothing") or "infinite" in mechanism.truth
    if wrong:
        assert re.search(r"\*\*Certified\*\*: none|none under substitution", section(name))


def bound(epsilon, size):
    """Lemma 2."""
    return math.exp(epsilon) / (math.exp(epsilon) + size - 1)


def retention_bound():
    epsilons = (1, 3, 6, 8, 10, 12)
    return [[str(v), *(f"{100 * bound(e, v):.2f}" for e in epsilons)] for v in SIZES]


def stored(space="default"):
    """Exact epsilons by mechanism and nominal epsilon; test_readme.py computes them again."""
    cells = json.loads((ROOT / "benchmarks" / "exact_epsilon.json").read_text())
    return {(c["mechanism"], c["nominal"]): c["epsilon"] for c in cells if c["space"] == space}


def exact_epsilon():
    found, names = stored(), ("token-exponential", "custext-strict", "rantext", "rantext-strict")
    return [[name, *(f"{found[name, e]:.2f}" for e in (1.0, 3.0, 6.0, 10.0))] for name in names]


def nearest_response():
    mechanism = dp.NearestResponse(epsilon=math.log(3), candidates=2, codebook=(0, 0, 2))
    rows = np.exp(host_rows(mechanism, np.array([0, 1, 2, -1]), space_of([[0.0], [1.0], [3.0]])))
    parts = (7, 7, 7, 3)
    counted = rows * np.array(parts)[:, None]
    assert counted == pytest.approx(counted.round(), abs=1e-12)
    return [
        [name, *(f"{round(k)}/{of}" for k in row)]
        for name, row, of in zip(("w0", "w1", "w2", "unknown"), counted, parts, strict=True)
    ]


@lru_cache(maxsize=1)
def cl100k():
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000)
    return dp.EmbeddingService().space(vocabulary, "input")


def rantext_radius():
    """Quantiles of the radius by its law, lists over 512 public tokens and 256 radii."""
    space = cl100k()
    distances = np.sort(space.distances(space.spread(512)), axis=None)
    lines = []
    for epsilon in (1, 3, 10):
        scale = rantext.noise_epsilon(epsilon)
        radii = rantext._radius_sample(rantext._law(dp.RanText(epsilon=epsilon), space)) / scale
        low, high = np.percentile(radii, [1, 99])
        size = np.searchsorted(distances, radii).mean() / 512
        lines.append([str(epsilon), f"{scale:.2f}", f"{low:.2f}", f"{high:.2f}", f"{size:.0f}"])
    return lines


def dyntext_unchanged():
    mechanism, space = dp.DynText(epsilon=3.0), cl100k()
    size, parameters = mechanism.candidates, (mechanism.epsilon_density, mechanism.delta)
    fresh = np.exp(dyntext.density(space, size, *parameters).log_lengths())
    parts = dyntext.device_density(space, size, *parameters, mechanism.table_seed)
    laws = {"table": np.exp(parts[2].cpu().numpy()), "fresh": fresh}
    mean = np.arange(1, size + 1)
    return [
        [name, f"{100 * law[:, 0].mean():.2f} %", f"{(law @ mean).mean():.1f}"]
        for name, law in laws.items()
    ]


def cape_counterexample():
    mechanism = dp.Cape(epsilon=0.5, buckets=5, logit_bound=1.0, logit_weight=0.0)
    first, second = mechanism.log_probs([0, 1], crowded_space(), [[0.0] * 10] * 2)[:, 0]
    claimed = mechanism.claimed_epsilon + math.log(9 / 1)
    losses = (first - second, claimed, mechanism.position_loss(10))
    return [[f"{math.exp(p):.4f}" for p in (first, second)] + [f"{loss:.3f}" for loss in losses]]


def cape_position_loss():
    def both(size, epsilon):
        kinds = (dp.Cape, dp.CapeStrict)
        losses = (kind(epsilon=epsilon, logit_bound=1.0).position_loss(size) for kind in kinds)
        return " / ".join(f"{loss:.3f}" for loss in losses)

    return [[str(v), *(both(v, e) for e in (1, 3, 6, 10))] for v in (1000, 11_000, 29_523)]


def float_distance():
    def shown(dimensions, eta):
        return f"{_noise.float_distance(dimensions, eta, reach=1.0):.1e}"

    return [[str(d), *(shown(d, eta) for eta in (1, 50, 300))] for d in (50, 384)]


def stencil_constants():
    lines = []
    for window, sigma in ((5, 0.75), (5, 1.25), (4, 1.25), (3, 1.25), (2, 1.25), (5, 50)):
        mechanism = dp.DChiStencil(eta=1.0, window=window, sigma=sigma)
        found = [f"{mechanism.lipschitz(n):.4f}" for n in (1, 3, 5, 10, None)]
        assert mechanism.lipschitz(10) == pytest.approx(stencil.influences(10, window, sigma).max())
        lines.append([f"{window}, {sigma}", *found])
    return lines


def cosine_claim():
    eta, angle = 4.0, 0.2
    angles = np.array([0.0, angle, angle + 1.2, -1.2, 3.0])
    tokens = np.column_stack([np.cos(angles), np.sin(angles)])
    first, second = (np.log(plane_law(tokens, tokens[k], eta)) for k in (0, 1))
    losses = (np.abs(first - second).max(), 2 * eta * math.sin(angle / 2))
    return [[f"{loss:.3f}" for loss in (*losses, 2 * eta * (1 - math.cos(angle)))]]


RECOMPUTED = {
    "retention-bound": retention_bound,
    "exact-epsilon": exact_epsilon,
    "nearest-response": nearest_response,
    "rantext-radius": rantext_radius,
    "dyntext-unchanged": dyntext_unchanged,
    "cape-counterexample": cape_counterexample,
    "cape-position-loss": cape_position_loss,
    "float-distance": float_distance,
    "stencil-constants": stencil_constants,
    "cosine-claim": cosine_claim,
}


def test_every_marked_table_is_recomputed():
    assert sorted(name for name, _ in MARKED) == sorted(RECOMPUTED)
    assert PAGE.count("<!--") == 2 * len(MARKED)  # no mark is misspelt
    unmarked = re.sub(r"<!-- check.*?<!-- end check -->", "", PAGE, flags=re.DOTALL)
    assert "|---" not in unmarked


FULL_SIZE = {"rantext-radius", "dyntext-unchanged"}


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_table_is_what_the_code_computes(full):
    for name, compute in RECOMPUTED.items():
        if (name in FULL_SIZE) == full:
            assert cells(BLOCKS[name]) == compute(), name


def test_figures_in_the_text():
    words = " ".join(PAGE.split())
    threshold = dp.TruncatedExponential(epsilon=1.0).cut(29_523)
    assert f"{threshold:.1f} for V = 29,523" in words
    assert f"({stored()['metric-noise', 1.0]:.2f} for the default one)" in words
    assert f"{exact_epsilon()[2][2]} nats at nominal 3" in words
    defaults = inspect.signature(dp.Cape).parameters
    assert defaults["buckets"].default == 50
    assert "With N = 50," in words


@over("epsilon", [0.3, 3.0, 12.0])
def test_lemma_1_zero_extension(epsilon):
    """Utilities drawn anew for every input, by laws of its own; probability 0 instead fails."""
    rng, size = np.random.default_rng(0), 30
    shapes = rng.uniform(0.05, 3, size=(size, 1, 1))  # a law per input
    utilities = rng.beta(shapes, 0.3, size=(size, 5, size))  # five draws of u for each
    utilities[0], utilities[1, :, 1:] = np.eye(size)[0], 1.0  # the worst ones
    utilities[1, :, 0] = 0.0
    weights = np.exp(epsilon / 2 * utilities)
    rows = (weights / weights.sum(axis=2, keepdims=True)).mean(axis=1)
    rows = np.vstack([rows, np.full(size, 1 / size)])
    assert rows.max() <= math.exp(epsilon / 2) / size
    assert rows.min() >= math.exp(-epsilon / 2) / size
    loss = np.ptp(np.log(rows), axis=0).max()
    assert 0.5 * epsilon < loss <= epsilon
    off = np.where(utilities > 0, weights, 0.0)
    literal = (off / off.sum(axis=2, keepdims=True)).mean(axis=1)
    assert (literal == 0).any()  # and the loss infinite


@over("size", [2, 30])
@over("epsilon", [0.5, 3.0])
def test_randomised_response_attains_lemma_2(size, epsilon):
    space = random_space(tokens=size)
    rows = dp.NearestResponse(epsilon=epsilon, candidates=1).log_probs(np.arange(size), space)
    assert np.exp(np.diagonal(rows)) == pytest.approx(bound(epsilon, size))
    two = dp.NearestResponse(epsilon=epsilon, candidates=2).log_probs(np.arange(size), space)
    assert np.exp(np.diagonal(two)).mean() < bound(epsilon, size)


@over("size", [2, 7, 50, 1000, 29_523])
@over("epsilon", [0.01, 1.0, 10.0, 300.0])
def test_the_simple_bound_of_cape_holds(size, epsilon):
    for buckets in (2, 50):
        mechanism = dp.Cape(epsilon=epsilon, logit_bound=1.0, buckets=buckets)
        simple = epsilon / 2 + math.log(size) + math.log(min(buckets, size))
        assert mechanism.position_loss(size) <= simple
        formula = max(
            math.log(size - m + 1)
            + float(np.logaddexp.reduce([0.0, *(epsilon / 2 * (1 - np.arange(m - 1) / buckets))]))
            for m in range(1, min(buckets, size) + 1)
        )
        formula -= math.log1p(math.exp(-epsilon / 2))
        assert mechanism.position_loss(size) == pytest.approx(formula)


@over(
    "mechanism",
    [
        dp.SanTextPlus(epsilon=1.0, non_sensitive=frozenset({"w1"})),
        dp.CusTextPlus(epsilon=1.0, candidates=3, kept=frozenset({"w1"})),
        *(kind(epsilon=1.0, candidates=3) for kind in (dp.CusText, dp.DynText)),
        dp.CusTextAggressive(epsilon=1.0, candidates=3),
        dp.Stencil(),
    ],
)
def test_calibration_refuses_what_is_never_finite(mechanism):
    with pytest.raises(dp.CannotCalibrate):
        dp.calibrate(mechanism, random_space(), epsilon=3.0)
    certificate = dp.certify(mechanism, random_space())
    assert certificate.method == "none"
    assert math.isinf(certificate.epsilon)
