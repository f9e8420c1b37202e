"""PrivRewrite: the exact epsilon of all that is seen, its charge, and real HTTP on loopback."""

import asyncio
import dataclasses
import itertools
import logging
import math
import pickle
import time
import traceback
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from support.cases import over
from support.chat_models import KINDS, WORDS
from support.known_bad import LINE, Renormalised
from support.ledgers import Charges
from support.spaces import host_rows, random_space, space_of
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.frameworks import rewriting_prompts
from dp_middleware.frameworks._candidates import distinct, prune
from dp_middleware.frameworks._selection import Selection, token_similarities
from dp_middleware.frameworks.privrewrite import PrivRewrite, PrivRewriteNaive
from dp_middleware.sampling import sampler

INPUTS = list(itertools.product(range(4), repeat=2))
EPSILON_ONE, EPSILON_SELECT = 1.0, 2.0


def vectors_of(texts):
    """Sentence vectors that depend on the text alone."""
    rows = np.array([[text.count("w0") + 1.0, text.count("w2")] for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


SERVICE = SimpleNamespace(encode=vectors_of)


def candidate(sanitized, number):
    """A deterministic chat model: one candidate with w0, the others without, or the reverse."""
    odd, even = ("w0", "w1 w2") if sanitized.endswith("w1") else ("w2 w1", "w0 w0")
    return f"{odd if number == 0 else even} {'other ' * number}".strip()


def generator(k=4):
    """Answers with the candidates of the text it is sent, one after the other."""
    calls = itertools.count()

    async def answer(messages):
        sanitized = messages[-1]["content"].split("Text:\n")[1]
        return candidate(sanitized, next(calls) % k)

    return answer


def rewriter(kind=PrivRewrite, **options):
    mechanism = dp.NearestResponse(epsilon=EPSILON_ONE, candidates=1)
    entropy = sampler.insecure_entropy(1)
    sanitizer = dp.Sanitizer(mechanism, LINE, insecure_entropy=entropy)
    own = {"epsilon_select": EPSILON_SELECT, "k": 4, "prune_above": 1.0, "generator": generator()}
    return kind(sanitizer, **{**own, "service": SERVICE, **options})


def law(rewrite, ids, selection):
    """The exact law of (sanitized text, final text), from the integers that are drawn from."""
    private = np.array([i if i < 3 else -1 for i in ids])
    rows = sampler.tables(host_rows(rewrite.sanitizer.mechanism, private, LINE))
    integers = [[Fraction(n, 2**64) for n in row.integers(3)] for row in rows]
    found = {}
    for outputs in itertools.product(range(3), repeat=2):
        first = integers[0][outputs[0]] * integers[1][outputs[1]]
        sanitized = LINE.vocabulary.decode(outputs)
        texts = rewrite._prune([candidate(sanitized, n) for n in range(rewrite.k)])
        read = [LINE.vocabulary.encode(text) for text in texts]
        table = selection.table(private, read, LINE)
        for text, second in zip(texts, table.integers(len(texts)), strict=True):
            found[sanitized, text] = first * Fraction(second, 2**64)
    assert sum(found.values()) == 1
    return found


def marginal(joint, part):
    totals = Counter()
    for outputs, probability in joint.items():
        totals[outputs[part]] += probability
    return totals


def loss(laws):
    """The largest log-ratio over all outputs and all inputs that differ in one token."""
    return max(
        math.log(laws[x][y] / laws[z][y])
        for x, z in itertools.permutations(INPUTS, 2)
        if sum(a != b for a, b in zip(x, z, strict=True)) == 1
        for y in laws[x]
    )


CASES = [
    (PrivRewrite, {"sensitivity": "candidates"}),
    (PrivRewrite, {"sensitivity": "candidates", "prune_above": 0.95}),
    (PrivRewrite, {"sensitivity": "candidates", "alpha": 0.0}),
    (PrivRewrite, {"sensitivity": "paper"}),
    (PrivRewriteNaive, {}),
]


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_the_exact_epsilon_end_to_end(kind, options):
    rewrite = rewriter(kind, **options)
    laws = {ids: law(rewrite, ids, rewrite.selection) for ids in INPUTS}
    provider = loss({ids: marginal(joint, 0) for ids, joint in laws.items()})
    final = loss({ids: marginal(joint, 1) for ids, joint in laws.items()})
    both = loss(laws)
    certified = rewrite.certificate.epsilon
    assert certified == pytest.approx(EPSILON_ONE + EPSILON_SELECT, abs=1e-9)
    assert provider <= rewrite.sanitizer.certificate.epsilon
    assert final <= both <= certified
    assert both > provider + 0.1  # the choice does depend on the text
    assert final > 0


@pytest.mark.parametrize("sensitivity", ["candidates", "paper"])
def test_a_renormalised_mean_breaks_it(sensitivity):
    rewrite = rewriter(sensitivity=sensitivity)
    wrong = Renormalised(epsilon=EPSILON_SELECT, sensitivity=sensitivity, vectors=LINE.vectors)
    found = loss({ids: law(rewrite, ids, wrong) for ids in INPUTS})
    assert found > 1.02 * (EPSILON_ONE + EPSILON_SELECT)


def test_what_is_released_follows_the_enumerated_law():
    rewrite = rewriter(insecure_entropy=sampler.insecure_entropy(2))
    ids, runs = (0, 0), 1000

    async def repeat():
        return [await rewrite.arewrite("w0 w0") for _ in range(runs)]

    counts = Counter(release.text for release in asyncio.run(repeat()))
    p_values = []
    for epsilon in (EPSILON_SELECT, 3 * EPSILON_SELECT):
        final = marginal(law(rewrite, ids, Selection(epsilon=epsilon)), 1)
        assert set(counts) <= set(final)
        expected = [runs * float(probability) for probability in final.values()]
        observed = [counts[text] for text in final]
        p_values.append(stats.chisquare(observed, np.array(expected) * runs / sum(expected)).pvalue)
    assert p_values[0] > 1e-4
    assert p_values[1] < 1e-9


@over("count", [1, 2, 7])
@over("alpha", [0.0, 0.3, 1.0])
def test_no_replacement_moves_a_utility_by_more_than_its_sensitivity(count, alpha):
    generator = np.random.default_rng(count)
    space = random_space(tokens=8, dimensions=3, seed=count)
    space = space_of(space.vectors / np.linalg.norm(space.vectors, axis=1).max())
    candidates = [generator.integers(-1, 8, size=3) for _ in range(4)]
    similarities = token_similarities(candidates, space)
    kinds = [Selection(epsilon=1, alpha=alpha, sensitivity=s) for s in ("candidates", "paper")]
    ours, papers = (kind.delta(count, similarities) for kind in kinds)
    assert ours < papers == min(1.0, 2 / (count * (1 + alpha)) + 1e-12)
    moves = [0.0]
    for _ in range(100):
        ids = generator.integers(-1, 8, size=count)
        for token in range(-1, 8):
            changed = ids.copy()
            changed[0] = token
            pair = [kinds[0].utilities(each, similarities) for each in (ids, changed)]
            moves.append(float(np.abs(pair[0] - pair[1]).max()))
    assert max(moves) <= ours
    if alpha == 1.0:  # nothing is clipped, so the bound is reached
        assert max(moves) == pytest.approx(ours, abs=1e-9)


def test_utilities_by_hand():
    similarities = token_similarities([np.array([0, 1]), np.array([2]), np.array([-1])], LINE)
    means = [0.025, -1.0, 0.0]
    expected = [[token * mean for mean in means] for token in (0.95, -0.9, -1.0, 0.0)]
    np.testing.assert_allclose(similarities, expected)
    selection = Selection(epsilon=1, alpha=0.5)
    utilities = selection.utilities(np.array([0, 0, -1]), similarities)
    np.testing.assert_allclose(utilities, [(0.95 * 0.025 * 2 / 3 + 0.5) / 1.5, 0.0, 0.5 / 1.5])
    assert selection.delta(3, similarities) == pytest.approx(1.95 / (3 * 1.5))
    law = selection.log_probs(np.array([0, 0, -1]), [np.array([0, 1]), np.array([2])], LINE)
    scale = (1 - 1e-6) / (2 * 1.95 / (3 * 1.5))  # less by what rounding to integers may add
    assert law[0] - law[1] == pytest.approx(scale * utilities[0], abs=1e-9)


def test_alpha_can_peak_only_where_the_sensitivity_is_one():
    """The nearer of two candidates: with Delta 1 it comes most often at a moderate alpha."""
    candidates, ids = [np.array([0, 1]), np.array([2])], np.zeros(4, dtype=np.int64)

    def nearest(sensitivity, alpha):
        selection = Selection(epsilon=4.0, alpha=alpha, sensitivity=sensitivity)
        return float(np.exp(selection.log_probs(ids, candidates, LINE)[0]))

    naive = [nearest("naive", alpha) for alpha in (0.0, 0.95, 10.0)]
    assert naive[1] > max(naive[0], naive[2]) + 0.1
    papers = [nearest("paper", alpha) for alpha in (1.0, 2.0, 10.0)]
    np.testing.assert_allclose(papers, papers[0], atol=1e-9)


@pytest.mark.parametrize("epsilon", [1e-7, 0.5, 20.0, 45.0, 500.0])
def test_the_drawn_integers_keep_epsilon_on_steep_rows(epsilon):
    selection = Selection(epsilon=epsilon)
    candidates = [np.array([0]), np.array([2]), np.array([1, 2]), np.array([0, 1])]
    tables = [selection.table(np.array([i]), candidates, LINE) for i in (0, 1, 2, -1)]
    bits = 64 if tables[0].low is None else 128
    rows = [table.integers(4) for table in tables]
    assert all(sum(row) == 2**bits for row in rows)
    worst = max(math.log(Fraction(a, b)) for p in rows for q in rows for a, b in zip(p, q))  # noqa: B905
    assert worst <= epsilon
    if epsilon == 20.0:
        assert worst > 0.5 * epsilon


def test_pruning_is_greedy_and_in_order():
    def angles(texts):
        turns = np.radians([float(text) for text in texts])
        return np.stack([np.cos(turns), np.sin(turns)], axis=1)

    # (1 + cos 60 degrees) / 2 = 0.75: "50" goes for "0", "100" stays although near to "50".
    assert prune(["0", "50", "100"], SimpleNamespace(encode=angles), 0.76) == ["0", "100"]
    assert prune(["50", "0", "100"], SimpleNamespace(encode=angles), 0.76) == ["50"]
    assert prune(["0", "50", "100"], SimpleNamespace(encode=angles), 1.0) == ["0", "50", "100"]
    assert distinct([" A b", "", "a  B", "c", " \n"], bool) == ["A b", "c"]


UNIT = dp.TokenExponential(epsilon=2.0)
TEXT = f"word1 word2 {CANARY} word3"


@pytest.fixture(scope="module")
def space():
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)


def over_http(model, space, books=None, policy=None, **options):
    paid = {"ledger": books, "subject": "s" if books else None}
    sanitizer = dp.Sanitizer(UNIT, space, policy=policy, **paid)
    return PrivRewrite(sanitizer, generator=model, **{"service": SERVICE, **options})


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_sees_the_sanitized_text_only(kind, make, remote, space, caplog):
    caplog.set_level(logging.DEBUG)
    requests_before = []

    class Watching(Charges):
        def charge(self, *paid):
            super().charge(*paid)
            requests_before.append(len(remote.requests))

    books = Watching()
    rewrite = over_http(make(kind, remote.url), space, books, k=3)
    releases = [rewrite.rewrite(TEXT), asyncio.run(rewrite.arewrite(TEXT))]
    total = 2 * rewrite.sanitizer.certificate.epsilon
    for release in releases:
        assert release.text == "remote text"
        assert release.certificate.guarantee == dp.PureDP(epsilon=total)
        assert (release.tokens_total, release.tokens_verbatim) == (4, 0)
    assert books.rows == [("s", total, 4)] * 2
    assert books.certificates == [release.certificate for release in releases]
    assert requests_before == [0, 3]  # charged before anything is sent
    assert len(set(remote.prompts)) <= 2
    for prompt in remote.prompts:
        assert set(prompt.split("Text:\n")[1].split()) <= set(WORDS)
    assert not remote.saw(CANARY)
    assert CANARY not in caplog.text + repr(rewrite) + repr(releases)


def test_failed_empty_and_repeated_candidates(space):
    said = iter(["word1 word2", OSError(CANARY), "", " Word1  word2 ", ValueError(CANARY), "word9"])

    def model(messages):
        answer = next(said)
        if isinstance(answer, Exception):
            raise answer
        return answer

    rewrite = over_http(model, space, k=6, at_once=1, minimum=4, prune_above=1.0)
    assert rewrite.rewrite(TEXT).text in {"word1 word2", "word9"}
    assert next(said, None) is None


@pytest.mark.parametrize("mode", ["error", "malformed", "slow"])
def test_too_few_answers_and_then_none_with_tokens(mode, make, remote, space, caplog):
    caplog.set_level(logging.DEBUG)
    remote.mode = mode
    books = Charges()
    model = make("openai", remote.url, timeout=0.3)
    rewrite = over_http(model, space, books, k=2)
    with pytest.raises(dp.RemoteError, match="expected at least 1 of 2 candidates, got 0") as error:
        rewrite.rewrite(TEXT)
    assert error.value.__context__ is None
    told = f"{error.value!r}{''.join(traceback.format_exception(error.value))}{caplog.text}"
    assert CANARY not in told + pickle.dumps(error.value).decode("latin-1")
    assert not remote.saw(CANARY)
    assert len(books.rows) == 1  # it stays spent
    remote.mode = "empty"
    with pytest.raises(dp.RemoteError, match="expected a candidate with tokens"):
        rewrite.rewrite(TEXT)
    release = over_http(model, space, books, k=2, fallback="sanitized").rewrite(TEXT)
    assert release.text == remote.prompts[-1].split("Text:\n")[1]
    assert release.certificate.epsilon == books.rows[2][1]


def quoting(texts):
    raise TypeError(" ".join(texts))


def ragged(texts):
    return [[1.0] * (k + 1) for k in range(len(texts))]


@over("encode, kind", [(quoting, "TypeError"), (ragged, "ValueError")])
def test_a_service_that_fails_is_named_and_not_quoted(encode, kind, space):
    said = iter(["word1", "word2"])
    options = {"k": 2, "prune_above": 0.9, "service": SimpleNamespace(encode=encode), "at_once": 1}
    with pytest.raises(dp.ParameterError, match=f"failed with {kind}; .* stays spent") as error:
        over_http(lambda messages: next(said), space, **options).rewrite(TEXT)
    assert error.value.__cause__ is error.value.__context__ is None
    assert "word1 word2" not in "".join(traceback.format_exception(error.value))


def test_slow_candidates_do_not_hold_up_each_other(space):
    running, most = 0, 0

    async def slow(messages):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return "word1"

    releases = over_http(slow, space, k=5, at_once=3).rewrite_batch([TEXT, "word2 word7"])
    assert [release.tokens_total for release in releases] == [4, 2]
    assert most == 3  # over the whole batch


@pytest.mark.parametrize("kind", ["openai", "async_openai"])
def test_cancelled_half_way(kind, make, remote, space):
    remote.mode = "slow"
    books = Charges()
    rewrite = over_http(make(kind, remote.url, timeout=20), space, books, k=4, at_once=2)

    async def cancelled():
        task = asyncio.create_task(rewrite.arewrite_batch([TEXT] * 3))
        while len(remote.requests) < 2:  # noqa: ASYNC110 - filled by the server's threads
            await asyncio.sleep(0.01)
        start = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seconds = time.perf_counter() - start
        remote.closing.set()  # the threads of clients without asyncio need not wait longer
        return seconds

    assert asyncio.run(cancelled()) < 10
    assert len(remote.requests) == 2  # those that waited for their turn were never sent
    assert len(books.rows) == 3


def test_a_spent_budget_sends_nothing(make, remote, space):
    books = Charges(budget=4)  # tokens, as many as one text has
    rewrite = over_http(make("openai", remote.url), space, books, k=1)
    rewrite.rewrite(TEXT)
    with pytest.raises(dp.BudgetExhausted):
        rewrite.rewrite("word1")
    assert len(remote.requests) == len(books.rows) == 1
    assert rewrite.sanitizer.ledger is books  # the sanitizer is left as it was


def word(messages):
    return "word3"


def test_refusals(space):
    def built(mechanism, where=space, **options):
        sanitizer = dp.Sanitizer(mechanism, where, accept_infinite=True)
        return PrivRewrite(sanitizer, generator=word, **options)

    with pytest.raises(dp.IncompatibleGuarantees, match="metric"):
        built(dp.MetricNoise(eta=1.0))
    with pytest.raises(dp.IncompatibleGuarantees, match="NoGuarantee"):
        built(dp.CusText(epsilon=1.0, candidates=3)).rewrite("word1")
    long = dp.EmbeddingSpace(space.vocabulary, space.vectors * (1 + 1e-6))
    with pytest.raises(dp.ParameterError, match="norm at most 1, got 40 of 40"):
        built(UNIT, long)
    for options in (
        {"k": 0}, {"k": 2, "minimum": 3}, {"minimum": 0}, {"at_once": 0}, {"alpha": -0.1},
        {"alpha": math.nan}, {"epsilon_select": 0}, {"epsilon_select": math.inf},
        {"prune_above": 0}, {"sensitivity": "none"}, {"fallback": "raw"},
    ):  # fmt: skip
        with pytest.raises(dp.ParameterError, match="expected"):
            built(UNIT, **options)
    books = Charges()
    for texts in (["word1", ""], "word1", ["word1", None]):
        with pytest.raises(dp.ParameterError):
            over_http(word, space, books).rewrite_batch(texts)
    assert not books.rows
    strict = dp.EmbeddingSpace(dp.Vocabulary(WORDS, unknown="raise"), space.vectors)
    rewrite = over_http(lambda messages: "quite new words", strict)
    assert rewrite.rewrite("word1 word2").text == "quite new words"
    with pytest.raises(dp.UnknownTokenError) as error:
        rewrite.rewrite(TEXT)
    assert CANARY not in "".join(traceback.format_exception(error.value))


def test_a_metric_channel_adds_its_exact_epsilon(space):
    sanitizer = dp.Sanitizer(dp.SanText(epsilon=1.0), space)
    first = sanitizer.certificate
    both = PrivRewrite(sanitizer, generator=word, epsilon_select=0.5).certificate
    assert first.metric is not None
    assert both.epsilon == both.claimed == first.epsilon + 0.5  # its claim is in another unit
    assert both.guarantee == dp.PureDP(epsilon=both.epsilon)
    assert both.metric is None


def test_the_sanitizer_may_keep_public_words(space):
    books = Charges()
    rewrite = over_http(word, space, books, policy=dp.KeepPolicy.words(["word1"], label="one word"))
    release = rewrite.rewrite(TEXT)
    assert (release.tokens_total, release.tokens_verbatim) == (4, 1)
    assert books.rows == [("s", rewrite.certificate.epsilon, 3)]
    assert release.certificate.adjacency.classes is not None


def test_a_nominal_total_is_split_evenly():
    space = space_of(np.eye(4))
    rewrite = PrivRewrite.with_total(6.0, space, generator=word)
    assert rewrite.sanitizer.mechanism == dp.TokenExponential(epsilon=3.0)
    assert rewrite.selection.epsilon == 3.0
    first = dp.certify(dp.TokenExponential(epsilon=3.0), space)
    assert rewrite.certificate.claimed == 6.0
    assert rewrite.certificate.epsilon == first.epsilon + 3.0 < 6.0
    naive = PrivRewriteNaive.with_total(4.0, space, share=0.25, generator=word)
    assert (naive.sanitizer.mechanism.nominal, naive.selection.epsilon) == (3.0, 1.0)
    assert naive.sensitivity == "naive"
    with pytest.raises(dp.ParameterError, match="share"):
        PrivRewrite.with_total(4.0, space, share=1.0, generator=word)


def test_prompts_are_taken_in_turns_and_differ():
    prompts = rewriting_prompts(20)
    assert (len(set(prompts)), rewriting_prompts(21)[20]) == (20, prompts[0])
    asked = []

    def model(messages):
        asked.append(messages[-1]["content"].split("\n\nText:\n")[0])
        return f"w0 w{len(asked) % 3}"

    rewrite = rewriter(generator=model, k=5, prompts=prompts[:3], at_once=1)
    rewrite.rewrite("w0 w1")
    assert sorted(asked) == sorted([*prompts[:3], *prompts[:2]])
    other = dataclasses.replace(rewrite, prompts=()).certificate
    assert other.mechanism != rewrite.certificate.mechanism
    with pytest.raises(dp.ParameterError, match="prompts"):
        dataclasses.replace(rewrite, prompts="one text")
