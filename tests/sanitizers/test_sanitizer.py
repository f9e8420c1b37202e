"""Texts in, releases out: what is kept, counted, charged, refused, and never revealed."""

import math
import pickle
import re
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from support.cases import over, refuses
from support.contexts import Says, repeats
from support.ledgers import Charges
from support.letters import Letters
from support.spaces import host_rows, random_space
from support.texts import CANARY, TORTURE

import dp_middleware as dp
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.tokenizers import BlankTokenizer

INFINITE = {
    "santext-plus",
    "custext",
    "custext-plus",
    "custext-aggressive",
    "dyntext",
    "stencil",
}  # whatever the parameter
SENTENCE = "the patient has a pain in left knee and takes two pills every day ."
WORDS = SENTENCE.split()


def word_space(words=WORDS, **options):
    vectors = np.random.default_rng(0).normal(size=(len(words), 6))
    return dp.EmbeddingSpace(dp.Vocabulary(words, **options), vectors)


SPACE = word_space()
MECHANISM = dp.TokenExponential(epsilon=6.0)


@over("text", TORTURE.values())
@over("unknown", ["uniform", "split", "drop"])
def test_every_text_is_released(text, unknown):
    space = word_space(unknown=unknown)
    sanitizer = dp.Sanitizer(MECHANISM, space, accept_infinite=True)
    release = sanitizer.release(text)
    assert release.tokens_total == len(space.vocabulary.encode(text))
    assert release.tokens_verbatim == 0
    assert set(release.text.split()) <= set(WORDS)
    assert len(release.text.split()) == release.tokens_total


def test_a_megabyte_is_released_whole():
    text = "the patient has pain " * 50_000
    release = dp.Sanitizer(MECHANISM, SPACE).release(text)
    assert len(text) > 1_000_000
    assert release.tokens_total == len(release.text.split()) == 200_000


def test_without_a_list_of_nltk_the_extra_is_named(monkeypatch):
    frequencies.nltk_stop_words.cache_clear()
    monkeypatch.setattr(frequencies._files, "package_folder", lambda *parts: None)
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    with pytest.raises(dp.MissingExtra, match="llama-index"):
        dp.KeepPolicy.nltk_stop_words()


def test_case_blanks_and_lines_are_never_copied():
    """The released text is a function of the released ids: equal ids, equal text."""
    seed = sampler.insecure_entropy
    texts = ("the patient has pain", "  the\tpatient\n\n has    pain \r\n")
    one, other = (dp.Sanitizer(MECHANISM, SPACE, insecure_entropy=seed(3)) for _ in texts)
    assert one.release(texts[0]).text == other.release(texts[1]).text


def test_draws_follow_the_row_of_each_token():
    sanitizer = dp.Sanitizer(MECHANISM, SPACE)
    ids = SPACE.vocabulary.encode("pain knee pain " + CANARY)
    rows = np.exp(host_rows(MECHANISM, ids, SPACE))
    releases = sanitizer.release_batch(["pain knee pain " + CANARY] * 2000)
    drawn = np.array([SPACE.vocabulary.encode(release.text) for release in releases])
    for position in range(4):
        counts = np.bincount(drawn[:, position], minlength=len(SPACE))
        assert stats.chisquare(counts, 2000 * rows[position]).pvalue > 1e-9
        assert stats.chisquare(counts, 2000 * rows[(position + 1) % 4]).pvalue < 1e-9
    first, third = drawn[:, 0], drawn[:, 2]
    kidney = SPACE.vocabulary.id_of("pain")
    both = ((first == kidney) & (third == kidney)).mean()
    assert both == pytest.approx(rows[0, kidney] ** 2, abs=0.06)  # equal tokens, fresh draws


def test_what_cannot_be_is_refused_at_once():
    cape = dp.CapeStrict(epsilon=2.0, logit_bound=10.0)
    for make, told in (
        (lambda: dp.sanitizer(mechanism="nonsense", space=SPACE), "mechanism"),
        (lambda: dp.Sanitizer(MECHANISM, SPACE, ledger=Charges()), "subject"),
        (lambda: dp.Sanitizer(cape, SPACE), "context="),
        (lambda: dp.Sanitizer(MECHANISM, SPACE, context=indifferent()), "context="),
        (lambda: dp.Sanitizer(dp.MetricNoise(eta=1.0), SPACE).explain("pain"), "law per token"),
    ):
        with pytest.raises(dp.ParameterError, match=told):
            make()
    with pytest.raises(AttributeError, match="open a session"):
        _ = object.__new__(dp.Pseudonyms).release
    space = random_space(tokens=40)
    custext = dp.CusText(epsilon=2.0, candidates=5)
    for mechanism in (custext, dp.CusTextAggressive(epsilon=1.0), dp.Stencil()):
        with pytest.raises(dp.InfiniteEpsilon, match="accept_infinite"):
            dp.Sanitizer(mechanism, space)
        told = dp.Sanitizer(mechanism, space, accept_infinite=True).release("w1 w2")
        assert math.isinf(told.certificate.epsilon)
    labels = custext.classes(space)
    release = dp.Sanitizer(custext, space, adjacency=dp.Adjacency.within(labels)).release("w1 w7")
    assert release.certificate.epsilon <= 2.0
    assert [labels[i] for i in space.vocabulary.encode(release.text)] == [labels[1], labels[7]]


@over("name", dp.MECHANISMS)
def test_every_mechanism_by_its_name(name):
    space = word_space([*WORDS, *(f"word{i}" for i in range(50))])
    context = repeats(len(space)) if name.startswith(("cape", "contextual")) else None
    encoder = Letters() if name.endswith(("document-response", "weighted-response")) else None
    try:
        named = dp.sanitizer(6, name, space, context=context, encoder=encoder)
    except dp.CannotCalibrate:
        assert name in INFINITE | {"cape"}  # whose buckets' sizes alone reveal more
        return
    assert name not in INFINITE
    assert named.certificate.epsilon <= 6.0
    release = named.release(f"the patient {CANARY}")
    assert release.certificate.epsilon <= 6.0
    if encoder is None:
        assert len(space.vocabulary.encode(release.text)) == 3
    else:
        encoder.asked.clear()  # it sees raw texts, and this one remembers them
    assert release.tokens_total == (3 if encoder is None else 1)
    assert CANARY not in release.text + repr(named) + repr(pickle.dumps(named))


def indifferent():
    return Says(raw=lambda ids: np.zeros((len(ids), len(SPACE))), window=3)


def test_a_kept_token_is_in_the_released_prefix_as_itself():
    """After a kept word the context repeats it; a kept word without an id has no place in it."""
    policy = dp.KeepPolicy.words(["the", CANARY], label="two words")
    kept = SPACE.vocabulary.tokens.index("the")
    context = repeats(len(SPACE))
    sanitizer = dp.Sanitizer(
        dp.ContextualResponse(epsilon=3.0), SPACE, context=context, policy=policy
    )
    release = sanitizer.release(f"the pain the {CANARY} knee")
    words = release.text.split()
    assert (words[0], words[2], words[3]) == ("the", "the", CANARY)
    assert context.seen == [[kept, *(SPACE.vocabulary.tokens.index(words[k]) for k in (1, 2, 4))]]
    certificate = sanitizer.certificate
    assert 3.0 <= certificate.epsilon < 3.0 + 1e-6
    assert certificate.adjacency.classes is not None
    assert any("released unchanged" in note for note in certificate.assumptions)
    assert (release.tokens_total, release.tokens_verbatim) == (5, 3)


def test_a_window_lies_over_kept_words_and_public_text():
    """Words on a line; what is nearest to the mean of 1/2, 1, 1/2 tells what was seen."""
    words = ["at0", "at6", "at12", "at2", "at10", "at4", "at8"]
    space = dp.EmbeddingSpace(dp.Vocabulary(words), np.array([[float(word[2:])] for word in words]))
    mechanism = dp.Stencil(window=3, sigma=1 / math.sqrt(2 * math.log(2)))
    policy = dp.KeepPolicy.words(["at6", CANARY], label="two words")
    beside = dp.Sanitizer(mechanism, space, policy=policy, accept_infinite=True)
    assert beside.release("at0 at6 at12").text == "at2 at6 at10"
    # a kept word without an id is left out, and so is public text without one
    assert beside.release(f"at0 {CANARY} at12").text == f"at4 {CANARY} at8"
    text = f"at0 {CANARY}, at6 at12"
    scope = [(0, 3), (len(text) - 4, len(text))]
    alone = dp.Sanitizer(mechanism, space, accept_infinite=True)
    assert alone.release(text, scope=scope).text == f"at2 {CANARY}, at6 at10"
    assert alone.release("at0 at12").text == "at4 at8"


def test_a_raw_context_sees_kept_words_and_pays_at_drawn_positions_only():
    context = indifferent()
    mechanism = dp.CapeStrict(epsilon=2.0, logit_bound=10.0, buckets=3, context="raw")
    policy = dp.KeepPolicy.words(["the"], label="one word")
    sanitizer = dp.Sanitizer(mechanism, SPACE, context=context, policy=policy)
    release = sanitizer.release("the knee the pain")
    assert context.seen == [
        [SPACE.vocabulary.id_of(word) for word in ("the", "knee", "the", "pain")]
    ]
    assert release.text.split()[::2] == ["the", "the"]
    one = sanitizer.release("knee").certificate
    assert release.certificate.epsilon == pytest.approx(2 * one.epsilon)
    many = sanitizer.release(" ".join(["pain"] * 9)).certificate  # of which three see a token
    assert many.epsilon == sanitizer.certificate.epsilon == pytest.approx(3 * one.epsilon)


def test_a_policy_keeps_a_public_list_and_says_so():
    policy = dp.KeepPolicy.words(["The", "and", "#"], label="three words")
    sanitizer = dp.Sanitizer(MECHANISM, SPACE, policy=policy)
    release = sanitizer.release("The patient and the # knee")  # "The" and "#" are unknown
    words = release.text.split()
    assert (words[0], *words[2:5]) == ("the", "and", "the", "#")
    assert (release.tokens_total, release.tokens_verbatim) == (6, 4)
    certificate = release.certificate
    assert any("three words" in line and "public" in line for line in certificate.assumptions)
    assert any("piece of another word" in line for line in certificate.assumptions)
    kept, labels = SPACE.vocabulary.id_of("the"), certificate.adjacency.classes
    assert labels.count(labels[kept]) == 1  # alone
    others = [k for k in range(len(SPACE)) if labels[k] == labels[-1]]  # with the unknown ones
    assert len(others) == len(SPACE) - 2
    rows = host_rows(MECHANISM, np.array([*others, -1]), SPACE)
    assert certificate.epsilon == pytest.approx(np.ptp(rows, axis=0).max(), abs=1e-9)
    assert (certificate.retention, certificate.recovery) == (None, None)  # those of no policy
    unknown = dp.KeepPolicy.words(["#"], label="hashes")
    alone = dp.Sanitizer(MECHANISM, SPACE, policy=unknown).release("# pain").certificate
    assert alone.adjacency.classes is not None
    assert any("hashes" in line for line in alone.assumptions)


def test_a_scope_perturbs_its_spans_and_nothing_else():
    text = 'Name: Anna Bell; {"note": "left knee pain"}'
    start = text.index("left")
    sanitizer = dp.Sanitizer(MECHANISM, SPACE, insecure_entropy=sampler.insecure_entropy(0))
    release = sanitizer.release(text, scope=[(start, start + 14)])
    assert release.text.startswith(text[:start])
    assert release.text.endswith('"}')
    inside = release.text[start:-2].split()
    assert len(inside) == 3
    assert set(inside) <= set(WORDS)
    assert release.tokens_total - release.tokens_verbatim == 3
    assert any("outside the given spans" in line for line in release.certificate.assumptions)
    assert release.certificate.epsilon == sanitizer.certificate.epsilon
    overlapping = sanitizer.release("pain knee day", scope=[(5, 9), (0, 6), (3, 3)])
    assert overlapping.tokens_total - overlapping.tokens_verbatim == 2
    assert overlapping.text.endswith(" day")
    for span in ((-1, 2), (0, 99), (5, 2), "12", (0.5, 3.0)):
        with pytest.raises(dp.ParameterError, match="spans"):
            sanitizer.release("pain", scope=[span])


FOUND = [  # as detectors say where an entity is
    dp.Span,
    lambda *ends: ends,
    lambda start, end: SimpleNamespace(start=start, end=end),
    lambda start, end: SimpleNamespace(start=1, end=2, start_char=start, end_char=end),  # spaCy's
]


@over("kind", FOUND)
def test_a_detector_finds_the_scope(kind):
    def detector(text):
        return [kind(text.index(CANARY), text.index(CANARY) + len(CANARY))]

    release = dp.Sanitizer(MECHANISM, SPACE).release(f"Dear {CANARY}, hello", scope=detector)
    assert re.fullmatch(r"Dear \S+, hello", release.text)
    assert CANARY not in release.text


def test_several_spans_are_encoded_each_by_itself():
    text = "<b>pain</b><b>knee day</b>"
    spans = [
        dp.Span(11, 26, "knee day", lambda new: f"<b>{new}</b>"),
        dp.Span(0, 11, "pain", lambda new: f"<i>{new}</i>"),
    ]
    release = dp.Sanitizer(MECHANISM, SPACE).release(text, scope=spans)
    assert re.fullmatch(r"<i>\S+</i><b>\S+ \S+</b>", release.text)
    assert release.tokens_total - release.tokens_verbatim == 3


OVERLAPPING = [
    [dp.Span(0, 6, encode=str.upper), (5, 9)],
    [(0, 6), dp.Span(5, 9, encode=str.upper)],
    [dp.Span(0, 6, CANARY), dp.Span(5, 9, CANARY)],
    [dp.Span(0, 9, encode=str.upper), (2, 4)],
]


def charged(budget=math.inf, **options):
    """A sanitizer and what it was charged."""
    ledger = Charges(budget)
    return dp.Sanitizer(MECHANISM, SPACE, ledger=ledger, subject="anna", **options), ledger.rows


@over("spans", OVERLAPPING)
def test_what_is_encoded_overlaps_nothing(spans):
    sanitizer, charges = charged()
    with pytest.raises(dp.ParameterError, match="overlap no other") as caught:
        sanitizer.release("pain knee day", scope=spans)
    assert "pain" not in str(caught.value)
    assert CANARY not in "".join(map(str, [caught.value, spans]))
    assert charges == []


def test_a_failing_encoder_does_not_speak():
    def failing(text):
        raise ValueError(f"cannot write {text}")

    sanitizer, charges = charged()
    for encode, told in ((failing, "ValueError"), (len, "return a str")):
        with pytest.raises(dp.ParameterError, match=told) as caught:
            sanitizer.release("pain", scope=[dp.Span(0, 4, encode=encode)])
        assert caught.value.__context__ is None
        assert not any(word in str(caught.value) for word in WORDS if len(word) > 3)
    assert charges == []
    with pytest.raises(dp.ParameterError, match="expected encode="):
        dp.Span(0, 4, encode="json")


def drew(count):
    raise AssertionError("drew")


def test_charges_are_of_private_texts_and_come_before_draws():
    sanitizer, charges = charged()
    releases = sanitizer.release_batch(["the patient", "", "pain pain pain"])
    assert [(r.tokens_total, len(r.text.split())) for r in releases] == [(2, 2), (0, 0), (3, 3)]
    sanitizer.release("pain knee day", scope=[(0, 4)])
    assert sanitizer.release_batch([]) == []
    refuses("list of texts", sanitizer.release_batch, "the patient")
    public = sanitizer.release("pain knee day", scope=[])
    assert (public.text, public.tokens_verbatim) == ("pain knee day", 3)
    assert sanitizer.release("  \n ").text == ""
    assert [tokens for _, _, tokens in charges] == [2, 3, 1]
    broke, _ = charged(budget=0, insecure_entropy=drew)
    with pytest.raises(dp.BudgetExhausted):
        broke.release("the patient")
    assert charged(budget=0)[0].release("  \n ").text == ""
    leaky = dp.Sanitizer(MECHANISM, word_space(unknown="drop"), insecure_entropy=drew)
    with pytest.raises(dp.InfiniteEpsilon):
        leaky.release("the patient")


def test_explain_draws_and_charges_nothing():
    policy = dp.KeepPolicy.words(["the"], label="the")
    sanitizer, charges = charged(policy=policy, insecure_entropy=drew)
    explanation = sanitizer.explain(f"the pain the knee pain {CANARY}")
    assert charges == []
    counts = (explanation.tokens_total, explanation.tokens_verbatim, explanation.tokens_unknown)
    assert counts == (6, 2, 1)
    assert explanation.epsilon == 4 * sanitizer.certificate.epsilon
    first = explanation.alternatives[0]
    assert (first.token, first.count) == ("pain", 2)
    pain = SPACE.vocabulary.id_of("pain")
    row = np.exp(MECHANISM.log_probs([pain], SPACE)[0])
    assert first.retention == pytest.approx(row[pain])
    assert first.likely[0][1] == pytest.approx(row.max())
    knee = explanation.alternatives[1].retention
    assert explanation.expected_retention == pytest.approx((2 * first.retention + knee) / 4)
    assert "Do not retry" in explanation.warning
    assert "pain" not in repr(explanation)
    assert sanitizer.explain("").expected_retention == 0.0


def test_nothing_of_a_release_is_kept():
    sanitizer = dp.Sanitizer(MECHANISM, word_space([*WORDS, CANARY]))
    sanitizer.release("pain")
    before = pickle.dumps(sanitizer)
    release = sanitizer.release(" ".join([CANARY] * 3 + ["pain"]))
    assert CANARY not in repr(sanitizer)
    fields = {"text", "certificate", "tokens_total", "tokens_verbatim", "tokens_free", "for_values"}
    assert set(vars(release)) == fields
    # the vocabulary is public and holds the word; which rows are cached is not pickled
    assert pickle.dumps(sanitizer) == before
    assert pickle.loads(before).release("pain").tokens_total == 1


def test_a_refused_text_is_not_quoted():
    sanitizer = dp.Sanitizer(MECHANISM, word_space(unknown="raise"))
    with pytest.raises(dp.UnknownTokenError, match="token 2 of 2") as caught:
        sanitizer.release(f"pain {CANARY}")
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in shown.replace(f'release(f"pain {{{"CANARY"}}}")', "")
    refuses("bytes", sanitizer.release, CANARY.encode())


def test_threads_share_a_sanitizer():
    sanitizer, charges = charged()
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(sanitizer.release, ["the patient has pain in left knee"] * 400))
    assert len(charges) == 400
    assert all(len(release.text.split()) == 7 for release in found)
    assert len({release.text for release in found}) > 300  # fresh draws


def test_a_batch_has_one_scope_per_text():
    sanitizer = dp.Sanitizer(MECHANISM, SPACE)
    texts = [f"{CANARY} day", f"day {CANARY}"]
    for scope in ([[(0, 10)], [(4, 14)]], lambda text: re.finditer(CANARY, text)):
        released = sanitizer.release_batch(texts, scope=scope)
        assert [r.tokens_verbatim for r in released] == [1, 1]
        assert all(CANARY not in r.text for r in released)
    with pytest.raises(dp.ParameterError, match="one scope per text"):
        sanitizer.release_batch(texts, scope=[(0, 10)])


def test_a_failing_tokenizer_does_not_speak():
    class Failing(BlankTokenizer):
        def pieces(self, text):
            raise ValueError(f"cannot parse {text}")

    space = dp.EmbeddingSpace(dp.Vocabulary(["a", "b"], tokenizer=Failing()), [[0.0], [1.0]])
    with pytest.raises(dp.ParameterError, match="tokenizer failed with ValueError") as caught:
        dp.Sanitizer(MECHANISM, space).release(CANARY)
    assert caught.value.__context__ is None


CAPE = dp.CapeStrict(epsilon=2.0, logit_bound=10.0)


@over("mechanism", [MECHANISM, dp.MetricNoise(eta=3.0), CAPE])
def test_a_sanitizer_at_another_epsilon(mechanism):
    context = indifferent() if mechanism is CAPE else None
    ledger, policy = Charges(), dp.KeepPolicy.words(["the"], label="the")
    settings = {"policy": policy, "ledger": ledger, "subject": "anna"}
    one = dp.Sanitizer(mechanism, SPACE, context=context, **settings)
    before = one.certificate
    other = one.at(1.5)
    assert 1.5 * (1 - 2e-3) < other.certificate.epsilon <= 1.5
    assert other.certificate.adjacency.fingerprint == before.adjacency.fingerprint
    kept = (other.policy, other.ledger, other.subject, other.context)
    assert kept == (policy, ledger, "anna", context)
    assert other.mechanism == mechanism.at(other.mechanism.nominal)
    assert one.mechanism is mechanism
    assert one.certificate == before
    if context is None:
        assert other.release("the knee").text.startswith("the ")
        assert ledger.rows == [("anna", other.certificate.epsilon, 1)]


def test_an_epsilon_at_which_nothing_is_hidden_is_refused_at_once(monkeypatch):
    def search(*_):
        raise AssertionError("a search")

    space = random_space(30)
    at_12 = dp.sanitizer(12, space=space)
    monkeypatch.setattr("dp_middleware.sanitizers.sanitizer.calibrate", search)
    monkeypatch.setattr(dp.NearestResponse, "with_defaults", search)
    for ask in (at_12.at, lambda epsilon: dp.sanitizer(epsilon, space=space)):
        refuses(r"at most 17\.2 for .* 30 tokens.* lets 100 %", ask, 100)
