"""Causal language models as contexts: a small random GPT-2 with a byte-level tokenizer."""

import logging
import pickle

import numpy as np
import pytest
import torch
import transformers
from support.cases import over, refuses
from support.gpt2 import gpt2
from support.texts import CANARY
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import dp_middleware as dp
from dp_middleware.contexts import CausalContext
from dp_middleware.contexts._vocabulary_map import _own_tokens, model_ids
from dp_middleware.mechanisms.cape import CapeStrict

WINDOW = 12
CORPUS = [
    "the cat sat on the mat while the other cats ate",
    "a doctor sees the patient in the morning and the patients wait",
    "naïve café owners serve coffee in the café",
]


END = "<|endoftext|>"


def byte_level(texts, size, **options):
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, size, special_tokens=[END], show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token=END, **options)


@pytest.fixture(scope="module")
def tokenizer():
    return byte_level(CORPUS * 20, 420, model_max_length=WINDOW)


@pytest.fixture(scope="module")
def network(tokenizer):
    return gpt2(tokenizer, positions=WINDOW, layers=2, spread=0.4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, network, tokenizer):
    path = tmp_path_factory.mktemp("gpt2")
    network.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def space():
    words = list(dict.fromkeys(" ".join(CORPUS).split()))
    vectors = np.random.default_rng(0).normal(size=(len(words), 3))
    return dp.EmbeddingSpace(dp.Vocabulary(words), vectors)


@pytest.fixture(params=["start token", "no start token"])
def pair(request, network, tokenizer):
    if request.param == "start token":
        return network, tokenizer
    bare = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, unk_token="Ġthe", model_max_length=WINDOW
    )
    return network, bare


def literal(pair, space, ids, position):
    """The model's own pass over what the position sees."""
    network, tokenizer = pair
    before = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    start, room = 0, WINDOW - len(before)
    while position - start > room:
        start += room // 2
    own = model_ids(space.vocabulary, tokenizer)
    seen = [*before, *own[ids[start:position]]]
    if not seen:
        return np.zeros(len(space))
    with torch.no_grad():
        return centred(network(torch.tensor([seen])).logits[0, -1][own].double().numpy())


def centred(rows):
    return rows - rows.mean(axis=-1, keepdims=True)


@over("size", [1, 2, WINDOW - 1, WINDOW, WINDOW + 1, 40])
def test_logits_and_streams_are_those_of_one_position_at_a_time(pair, space, size):
    """Over three moves of the window; the cache changes nothing but the time."""
    ids, context = np.random.default_rng(size).integers(0, len(space), size), CausalContext(pair)
    expected = np.array([literal(pair, space, ids, position) for position in range(size)])
    assert size == 1 or np.std(expected[1:]) > 0.1
    logits, stream, late = context.logits(ids, space), context.start(space), context.start(space)
    assert logits.dtype == np.float64
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    for position, number in enumerate(ids):
        row = stream.logits()
        np.testing.assert_allclose(row[0], expected[position], atol=1e-4)
        assert np.array_equal(stream.logits(), row)  # asking again changes nothing
        if position == 7:  # the first question
            np.testing.assert_allclose(late.logits(), row, atol=1e-4)
        stream.append(int(number))
        late.append(int(number))


def test_one_token_influences_the_next_window_and_no_more(folder, space):
    context = CausalContext(folder)
    assert (context.capacity, context.window) == (WINDOW - 1, WINDOW)
    ids, most = np.random.default_rng(1).integers(0, len(space), 45), 0
    logits = context.logits(ids, space)
    for place in range(0, 25):
        other = np.where(np.arange(45) == place, (ids + 1) % len(space), ids)
        moved = np.abs(context.logits(other, space) - logits).max(axis=1) > 1e-4
        assert not moved[: place + 1].any()
        assert np.flatnonzero(moved)[-1] <= place + context.capacity
        most = max(most, 1 + int(moved.sum()))  # its own row moves by its own id
    assert most == context.window


class Bare(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.inner, self.config, self.device = network, network.config, network.device

    def forward(self, input_ids, **options):
        return self.inner(input_ids=input_ids, **options)


def small(kind, tokenizer, **options):
    """A model of another kind, with a head that has a bias or caps its logits."""
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "initializer_range": 0.4, **options}
    model = AutoModelForCausalLM.from_config(kind(**sizes)).eval()
    with torch.no_grad():
        head = model.get_output_embeddings()
        if head.bias is not None:
            head.bias.normal_()
    return model


GPTJ = {"n_positions": WINDOW, "n_embd": 32, "n_layer": 2, "n_head": 2, "rotary_dim": 8}
TINY = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 2, "max_position_embeddings": WINDOW}
GEMMA = {**TINY, "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 4}


@pytest.mark.parametrize(
    ("made", "short"),
    [
        (lambda network, tokenizer: network, True),
        (lambda network, tokenizer: small(transformers.GPTJConfig, tokenizer, **GPTJ), True),
        (lambda network, tokenizer: small(transformers.Gemma3TextConfig, tokenizer, **GEMMA), True),
        (lambda network, tokenizer: small(transformers.Gemma2Config, tokenizer, **GEMMA), False),
        (lambda network, tokenizer: Bare(network), False),
    ],
)
def test_the_head_of_a_space_says_what_the_whole_one_says(made, short, network, tokenizer, space):
    model = made(network, tokenizer)
    context, ids = CausalContext((model, tokenizer)), np.arange(20) % len(space)
    stream = context.start(space)
    assert (context._head is not None) == short
    expected = [literal((model, tokenizer), space, ids, position) for position in range(20)]
    np.testing.assert_allclose(context.logits(ids, space), expected, atol=1e-4)
    for position, number in enumerate(ids):
        np.testing.assert_allclose(stream.logits()[0], expected[position], atol=1e-4)
        stream.append(number)


def test_a_stream_never_sees_raw_tokens(folder, space):
    """Two texts, the same releases: the same logits, bit for bit; and no way to pass a text."""
    context = CausalContext(folder)
    mechanism = CapeStrict(epsilon=4.0, buckets=5, logit_bound=5.0)
    texts = np.random.default_rng(1).integers(0, len(space), (2, 14))
    released = np.random.default_rng(2).integers(0, len(space), 14)
    streams = [context.start(space) for _ in texts]
    for position, output in enumerate(released):
        rows = [stream.logits() for stream in streams]
        assert np.array_equal(rows[0], rows[1])
        pairs = zip(texts, rows, strict=True)
        laws = [mechanism.log_probs([text[position]], space, row) for text, row in pairs]
        assert np.abs(laws[0] - laws[1]).max() <= mechanism.position_loss(len(space))
        for stream in streams:
            stream.append(int(output))


def test_unknown_tokens_are_fed_as_the_model_s_own(folder, network, tokenizer, space):
    own = model_ids(space.vocabulary, tokenizer)
    logits = CausalContext(folder).logits([3, -1, 5], space)
    with torch.no_grad():
        whole = network(torch.tensor([[0, own[3], tokenizer.eos_token_id]])).logits[0]
    np.testing.assert_allclose(logits, centred(whole[:, own].numpy()), atol=1e-4)


def test_what_makes_no_sense_is_refused(folder, network, tokenizer, space, tmp_path):
    context = CausalContext(folder)
    refuses("expected ids", lambda ids: context.logits(ids, space), [-2], [10**6], [0.5], [[0]])
    refuses("expected ids", context.start(space).append, -1)
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer)
    unable = CausalContext((network, bare))
    refuses("unknown, mask, start or end", lambda ids: unable.logits(ids, space), [0, 1])
    with pytest.raises(dp.ParameterError, match=r"folder or the name") as caught:
        CausalContext(str(tmp_path / "nothing-here")).ready()
    assert "nothing-here" not in str(caught.value)


def test_the_same_letters_with_the_same_blank_are_the_same_token(tokenizer):
    own = tokenizer.get_vocab()
    words = dp.Vocabulary(["cat", "café", "patients", "zebra"])  # each stands behind a blank
    expected = [own[piece] for piece in ("Ġcat", "ĠcafÃ©", "Ġpatients")]  # é is two bytes
    expected.append(tokenizer(" zebra")["input_ids"][0])
    assert model_ids(words, tokenizer).tolist() == expected
    assert _own_tokens(tokenizer)["café", True] == own["ĠcafÃ©"]  # without splitting it
    assert _own_tokens(tokenizer)["s", False] == own["s"]
    pieces = dp.Vocabulary([" cat", "cat", " the", "s"])  # a leading blank starts a word
    found = model_ids(pieces, tokenizer).tolist()
    assert found[0] == own["Ġcat"]
    assert found[2:] == [own["Ġthe"], own["s"]]
    assert found[1] == own.get("cat", tokenizer("cat")["input_ids"][0])
    assert found[1] != found[0]


def test_nothing_of_a_text_is_logged_or_shown(folder, space, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    context, ids = CausalContext(folder), space.vocabulary.encode(f"the cats {CANARY} " * 30)
    context.logits(ids, space)
    stream = context.start(space)
    stream.append(1)
    stream.logits()
    shown = f"{caplog.text} {capsys.readouterr()} {context!r} {stream!r} {pickle.dumps(context)!r}"
    assert CANARY not in shown
    assert "cats" not in shown


@pytest.mark.parametrize("kind", [transformers.BertConfig, transformers.RobertaConfig])
@over("spread", [0.02, 0.4])
def test_a_model_that_sees_later_tokens_is_refused(kind, spread, tokenizer, space):
    """The library loads BERT as a causal model; one token would move all positions."""
    torch.manual_seed(0)
    config = kind(vocab_size=len(tokenizer), initializer_range=spread, **TINY)
    config.max_position_embeddings = WINDOW + 2
    both = AutoModelForCausalLM.from_config(config)
    with pytest.raises(dp.ParameterError, match=r"causal model.*later tokens.*MaskedContext"):
        CausalContext((both, tokenizer)).window  # noqa: B018
    config.is_decoder = True
    left = AutoModelForCausalLM.from_config(config)
    assert CausalContext((left, tokenizer)).logits([1, 2, 3], space).shape == (3, len(space))


def test_a_space_of_the_models_own_tokens_and_embeddings(network, tokenizer):
    """As CAPE has it with GPT-2: the vocabulary and ``wte`` of the model."""
    context = CausalContext((network, tokenizer))
    space = context.space()
    tokens = space.vocabulary.tokens
    assert len(space) < len(tokenizer)
    assert {" patient", " coffee", "the"} <= set(tokens)
    assert not {"<|endoftext|>", " ", ""} & set(tokens)
    ids = context.ids_of(space)
    assert [tokenizer.decode([number]) for number in ids] == list(tokens)
    table = network.get_input_embeddings().weight.detach().double().numpy()
    assert np.array_equal(space.vectors, table[ids])
    for text in CORPUS[:2]:
        assert ids[space.vocabulary.encode(text)].tolist() == tokenizer(text)["input_ids"]
    assert len(space.vocabulary.encode("<|endoftext|>")) > 3  # read as text
    assert np.array_equal(model_ids(space.vocabulary, tokenizer), ids)  # of another context too
    assert space.vocabulary.decode(space.vocabulary.encode("the café owners")) == "the café owners"
    assert context.space(7).vocabulary.tokens == tokens[:7]
    refuses("size <= ", context.space, 10**6)


@over("size", [1, WINDOW, 40])
@over("places", [None, [0], [1, 4], [39], list(range(0, 40, 3)), []])
def test_blocks_are_the_logits_in_parts(pair, space, size, places):
    context, ids = CausalContext(pair), np.random.default_rng(7).integers(0, len(space), size)
    given = [] if places is None else [np.array([k for k in places if k < size], dtype=np.int64)]
    parts = list(context.blocks(ids, space, 3, *given))
    expected = context.logits(ids, space)[given[0] if given else slice(None)]
    assert all(len(part) <= 3 for part in parts)
    found = np.concatenate([np.empty((0, len(space))), *parts])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_constant_added_to_all_logits_changes_nothing(network, tokenizer, space):
    """GPT-2's logits are strongly negative: without the shift all of them would be clipped to 0."""

    def lower(module, arguments, output):
        output.logits = output.logits - 64.0
        return output

    ids = np.arange(20)
    before = CausalContext((network, tokenizer)).logits(ids, space)
    hook = network.register_forward_hook(lower)
    try:
        context = CausalContext((network, tokenizer))
        after, first = context.logits(ids, space), context.start(space).logits()
        text = " ".join(space.vocabulary.decode(ids).split())
        assert context.logit_bound([text], space) > 0
    finally:
        hook.remove()
    np.testing.assert_allclose(after, before, atol=1e-3)
    np.testing.assert_allclose(first[0], before[0], atol=1e-3)
    assert ((after > 0).mean(axis=1) > 0.2).all()


def test_a_public_prompt_stands_before_every_text(network, tokenizer, folder, space):
    plain, asked = CausalContext(folder), CausalContext(folder, prompt="the cat")
    public = tokenizer("the cat", add_special_tokens=False)["input_ids"]
    assert asked.before() == [*plain.before(), *public]
    assert asked.capacity == plain.capacity - len(public)
    ids = space.vocabulary.encode("sat on the")
    rows, stream = asked.logits(ids, space), asked.start(space)
    for row, number in zip(rows, ids, strict=True):
        assert stream.logits()[0] == pytest.approx(row, abs=1e-4)
        stream.append(int(number))
    assert not np.allclose(rows, plain.logits(ids, space), atol=1e-3)
    again = pickle.loads(pickle.dumps(asked))
    assert again.parameters == asked.parameters == {**plain.parameters, "prompt": "the cat"}
    refuses("prompt of type str", lambda prompt: CausalContext(folder, prompt=prompt), 3)
    long = CausalContext(folder, prompt="the cat sat on the mat " * 3)
    refuses("room for a token", lambda where: long.start(where).logits(), space)


def test_a_closing_sign_of_word_pieces_is_fed_without_a_blank():
    """As the model has read it: a byte-level model's " ." is another token, and rare."""
    own = byte_level(["a b . c, (d)"] * 9, 280)
    own.add_tokens(["Ġ.", "Ġ(", "Ġcat"])
    vocabulary = dp.Vocabulary.from_encoder("all-MiniLM-L6-v2")
    fed = own.convert_ids_to_tokens(model_ids(vocabulary, own).tolist())
    by_token = dict(zip(vocabulary.tokens, fed, strict=True))
    assert [by_token[sign] for sign in (".", ",", "(", "cat")] == [".", ",", "Ġ(", "Ġcat"]
