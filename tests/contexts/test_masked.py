"""Masked language models as contexts: a small random BERT with a real tokenizer."""

import copy
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.bert import save_bert
from support.cases import over, refuses
from support.texts import CANARY
from transformers import AutoTokenizer, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

import dp_middleware as dp
from dp_middleware import _files
from dp_middleware.contexts import MaskedContext, masked
from dp_middleware.contexts._vocabulary_map import model_ids

WINDOW = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"), positions=WINDOW, width=32, layers=2)


@pytest.fixture(scope="module")
def pair(folder):
    return BertForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def space():
    whole = dp.Vocabulary.from_encoder("all-MiniLM-L6-v2")
    chosen = np.random.default_rng(0).choice(len(whole), 300, replace=False)
    tokens = [*dict.fromkeys([*(whole.tokens[k] for k in chosen), "the", "cat", "##s"])]
    vocabulary = dp.Vocabulary(tokens, tokenizer=whole.tokenizer)
    return dp.EmbeddingSpace(vocabulary, np.ones((len(tokens), 1)))


def texts(space, *sizes):
    generator = np.random.default_rng(1)
    return [generator.integers(0, len(space), size) for size in sizes]


def literal(pair, space, tokens, position):
    """One position at a time, with the model's own pass over the window around it."""
    network, tokenizer = pair
    size = WINDOW - 2
    start = int(np.clip(position - (size - 1) // 2, 0, max(0, len(tokens) - size)))
    seen = list(tokens[start : start + size])
    seen[position - start] = tokenizer.mask_token_id
    inputs = torch.tensor([[tokenizer.cls_token_id, *seen, tokenizer.sep_token_id]])
    with torch.no_grad():
        row = network(inputs).logits[0, position - start + 1]
    row = row[own_ids(tokenizer, space)].double().numpy()
    return row - row.mean()


def own_ids(tokenizer, space):
    return tokenizer.convert_tokens_to_ids(list(space.vocabulary.tokens))


@pytest.mark.slow
@over("size", [1, 2, 9, WINDOW - 2, WINDOW - 1, 31])
def test_masked_logits_are_those_of_one_position_at_a_time(folder, pair, space, size):
    (ids,) = texts(space, size)
    logits = MaskedContext(folder, device="cpu").logits(ids, space)
    loaded = MaskedContext(pair)
    assert np.array_equal(loaded.logits(ids, space), logits)
    assert logits.shape == (size, len(space))
    assert logits.dtype == np.float64
    tokens = np.array(own_ids(pair[1], space))[ids]
    expected = [literal(pair, space, tokens, position) for position in range(size)]
    assert np.std(expected) > 0.1  # tells positions and tokens apart
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.slow
def test_batches_do_not_matter(folder, space, monkeypatch):
    for ids in texts(space, 7, 40):
        rows = []
        for tokens in (1, 50, 100_000):
            monkeypatch.setattr(masked, "_CPU_TOKENS", tokens)
            rows.append(MaskedContext(folder).logits(ids, space))
        np.testing.assert_allclose(rows[0], rows[1], atol=5e-5)
        np.testing.assert_allclose(rows[0], rows[2], atol=5e-5)


def test_one_token_influences_the_window_and_no_more(folder, space):
    context = MaskedContext(folder)
    assert context.capacity == WINDOW - 2
    assert context.window == 2 * (WINDOW - 2) - 1
    most = 0
    for size in (27, 40):
        (ids,) = texts(space, size)
        logits = context.logits(ids, space)
        for place in (0, 13, 20, size - 1):
            other = ids.copy()
            other[place] = (other[place] + 1) % len(space)
            moved = np.abs(context.logits(other, space) - logits).max(axis=1) > 1e-4
            assert not moved[place]
            moved[place] = True  # its own row, by its own id
            assert np.abs(np.flatnonzero(moved) - place).max() < context.capacity
            most = max(most, int(moved.sum()))
    assert most == context.window  # reached in a text of 2 * capacity - 1 tokens


def test_unknown_tokens_are_fed_as_unknown(folder, pair, space):
    logits = MaskedContext(folder).logits([3, -1, 5], space)
    tokens = np.array(own_ids(pair[1], space))[[3, 0, 5]]
    tokens[1] = pair[1].unk_token_id
    expected = [literal(pair, space, tokens, position) for position in range(3)]
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@over("place", [0, 2, 17, 20])
def test_a_stream_sees_public_tokens_ahead_and_masks_what_is_to_be_drawn(
    folder, pair, space, place
):
    """Of 22 tokens those at even places and the last are public: so far it looks, no farther."""
    context, mask = MaskedContext(folder), pair[1].mask_token_id
    (numbers,) = texts(space, 22)
    public = np.where(np.arange(22) % 2 == 0, numbers, -1)
    stream = context.start_among(space, public)
    for number in numbers[:place]:
        stream.append(int(number))
    tokens = np.array(own_ids(pair[1], space))[numbers]
    tokens[place + 1 :][public[place + 1 :] == -1] = mask
    expected = literal(pair, space, tokens[:21], place)
    np.testing.assert_allclose(stream.logits()[0], expected, atol=1e-5)
    blind = context.start(space)
    for number in numbers[:place]:
        blind.append(int(number))
    left = np.array(own_ids(pair[1], space))[numbers[:place]][3 - WINDOW :]
    expected = literal(pair, space, np.append(left, 0), len(left))  # the place that is masked
    np.testing.assert_allclose(blind.logits()[0], expected, atol=1e-5)
    is_last = place == 20  # the last public token: nothing is ahead
    assert np.allclose(stream.logits(), blind.logits(), atol=1e-5) == is_last


def test_blocks_at_places_are_those_rows(folder, space):
    context, (ids,) = MaskedContext(folder), texts(space, 30)
    whole = context.logits(ids, space)
    for places in (range(30), [0], [3, 4, 29], range(1, 30, 2), []):
        given = [] if len(places) == 30 else [np.array(places, dtype=np.int64)]
        parts = list(context.blocks(ids, space, 4, *given))
        assert all(len(part) <= 4 for part in parts)
        found = np.concatenate([np.empty((0, len(space))), *parts])
        np.testing.assert_allclose(found, whole[list(places)], atol=1e-5)


def test_a_space_of_the_models_own_word_pieces(folder, pair):
    context = MaskedContext(folder)
    own, known = context.space(), dp.Vocabulary.from_encoder("all-MiniLM-L6-v2")
    assert own.vocabulary.tokens == known.tokens
    numbers = pair[1].convert_tokens_to_ids(list(known.tokens))
    assert np.array_equal(context.ids_of(own), numbers)
    table = pair[0].get_input_embeddings().weight.detach().double().numpy()
    assert np.array_equal(own.vectors, table[numbers])
    text = "The patients' [MASK] knees, naïvely"
    assert own.vocabulary.encode(text).tolist() == known.encode(text).tolist()


def test_logits_are_bounded_on_public_texts_and_what_makes_no_sense_is_refused(folder, pair, space):
    context = MaskedContext(folder)
    refuses("expected ids", lambda ids: context.logits(ids, space), [-2], [10**6], [0.5], [[0]])
    refuses("expected ids", context.start(space).append, -1)
    maskless = MaskedContext((pair[0], SimpleNamespace(mask_token_id=None)))
    refuses("CausalContext", lambda ids: maskless.logits(ids, space), [0])
    refuses("folder", pickle.dumps, MaskedContext(pair))
    public = [" ".join(t for t in space.vocabulary.tokens if t.isalpha())[:60], "the cats", ""]
    rows = [context.logits(ids, space) for ids in map(space.vocabulary.encode, public) if len(ids)]
    assert context.logit_bound(public, space) == max(row.max() for row in rows) > 0
    refuses("sequence of public texts", lambda text: context.logit_bound(text, space), "the cats")
    refuses("more text", lambda texts: context.logit_bound(texts, space), [])


def test_nothing_of_a_text_is_logged_or_shown(folder, space, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    context = MaskedContext(folder)
    ids = space.vocabulary.encode(f"the cats {CANARY} " * 30)
    assert (ids == -1).any()
    context.logits(ids, space)
    context.start(space).logits()
    shown = f"{caplog.text} {capsys.readouterr()} {context!r} {pickle.dumps(context)!r}"
    assert CANARY not in shown
    assert "cats" not in shown


def test_roberta_counts_positions_from_behind_the_padding(space):
    tokenizer = AutoTokenizer.from_pretrained(_files.encoder_source("all-MiniLM-L6-v2"))
    tokenizer.model_max_length = 10**30
    tiny = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    tiny |= {"intermediate_size": 8, "max_position_embeddings": WINDOW + 2, "pad_token_id": 1}
    config = RobertaConfig(vocab_size=len(tokenizer), **tiny)
    context = MaskedContext((RobertaForMaskedLM(config), tokenizer))
    assert context.capacity == WINDOW - 2
    (ids,) = texts(space, 30)
    assert np.isfinite(context.logits(ids, space)).all()


def test_the_same_letters_are_the_same_token(pair):
    """WordPieces, words split at blanks, and tokens with a leading blank; else the first piece."""
    tokenizer = pair[1]
    wanted = dict(tokenizer.get_vocab())
    pieces = dp.Vocabulary.from_encoder("all-MiniLM-L6-v2")
    assert model_ids(pieces, tokenizer).tolist() == [wanted[token] for token in pieces.tokens]
    words = dp.Vocabulary(["cat", "The", "zebrafishes", "##s", "☃☃"])
    first = tokenizer("zebrafishes", add_special_tokens=False)["input_ids"][0]
    unknown = tokenizer.unk_token_id
    hashes = tokenizer("##s", add_special_tokens=False)["input_ids"][0]
    found = model_ids(words, tokenizer).tolist()
    assert found == [wanted["cat"], wanted["the"], first, hashes, unknown]
    blanks = dp.Vocabulary.from_tiktoken("cl100k_base", size=200)
    for token, number in zip(blanks.tokens, model_ids(blanks, tokenizer), strict=True):
        piece = token.removeprefix(" ") if token.startswith(" ") else f"##{token}"
        if piece in wanted:
            assert number == wanted[piece]


def one_scale(network):
    """Its embeddings rounded by one scale for the batch, as dynamic quantisation does."""

    def rounded(module, arguments, output):
        scale = output.abs().max() / 127
        return (output / scale).round() * scale

    copied = copy.deepcopy(network)
    copied.base_model.embeddings.register_forward_hook(rounded)
    return copied


def test_a_model_that_mixes_the_sequences_of_a_batch_is_refused(pair, space):
    mixing = one_scale(pair[0])
    rows = [torch.tensor([[1000, 1000], [other, 2000]]) for other in (1000, 3000)]
    with torch.no_grad():
        assert not torch.equal(*(mixing(ids).logits[0] for ids in rows))
    with pytest.raises(dp.ParameterError, match=r"each sequence independently.*quantised"):
        MaskedContext((mixing, pair[1])).logits([0, 1], space)


def test_two_contexts_may_share_a_network_in_two_threads(pair, space, monkeypatch):
    """Each pass hooks into the network; the two must not see the other's hook."""
    monkeypatch.setattr(masked, "_CPU_TOKENS", 60)  # more than one pass
    contexts = [MaskedContext(pair), MaskedContext(pair)]
    inputs = texts(space, 30, 11)
    pairs = list(zip(contexts, inputs, strict=True))
    expected = [context.logits(ids, space) for context, ids in pairs]
    together = Barrier(2)

    def repeated(context, ids):
        together.wait()
        return [context.logits(ids, space) for _ in range(15)]

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(repeated, *one) for one in pairs]
        for rows, one in zip(found, expected, strict=True):
            assert all(np.array_equal(again, one) for again in rows.result())
