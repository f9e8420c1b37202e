"""Evaluate mechanisms at several epsilons on data sets, part by part; run one attack."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from dp_middleware import _validate
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding import EmbeddingService, EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks import AttackResult
from dp_middleware.lab.evaluation._cases import Case, Encoded, Law, Models, Setup
from dp_middleware.lab.evaluation._parts import Named, rows
from dp_middleware.lab.evaluation.data import NAME, Texts, load
from dp_middleware.lab.evaluation.measures import MEASURES, Kind, named
from dp_middleware.lab.evaluation.results import Results, open_folder, save
from dp_middleware.lab.metrics.results import Chat, SentenceEncoder, default_encoder
from dp_middleware.mechanisms import MECHANISMS, Mechanism
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.vocabulary.vocabulary import Vocabulary

EPSILONS = (1.0, 3.0, 6.0, 10.0)
Source = str | Path | Texts


def evaluate(
    mechanisms: Sequence[Named] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    data: Source | Sequence[Source] = (),
    *,
    space: EmbeddingSpace | None = None,
    attacks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    exact: bool = False,
    budget_per_text: float | None = None,
    list_size: float | None = None,
    limit: int = 200,
    tokens: int = 64,
    policy: KeepPolicy | None = None,
    generated: int = 0,
    sample: int = 32,
    context: Context | None = None,
    masked: Any = None,
    chat: Chat | None = None,
    extractor: Chat | None = None,
    service: SentenceEncoder | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Results:
    """Measures what attackers recover and texts keep, for every mechanism, epsilon and data set.

    Every text is released once for each, also where the exact epsilon is infinite, and no ledger
    is charged: give public texts. What cannot be run has a row that says why.

    Args:
        mechanisms: Names of ``MECHANISMS``, or mechanisms, of different names. Default all, those
            of whole texts with ``budget_per_text`` only.
        epsilons: Nats per token, or per text for mechanisms of whole texts.
        data: Files, folders (see :func:`load`) or :class:`Texts`, of different names.
        space: Default the first 11,000 WordPieces of the bundled encoder, with its vectors; rarer
            words are spelt by these.
        attacks: Names; default those that need no language model.
        metrics: Names; default those that need no language model.
        exact: Calibrate each mechanism to the epsilons; one that cannot be is drawn at the nominal
            one. Else epsilons are the mechanisms' own parameters.
        budget_per_text: Exact nats for a whole text, in place of ``epsilons``, of which mechanisms
            of tokens have a share for each of the ``tokens`` of a text.
        list_size: Share of the vocabulary, such as 0.05, that lists of RANTEXT have on average.
        limit: Texts of each data set, from the first.
        tokens: Tokens of each text, from the first.
        policy: Tokens that are released unchanged and not attacked. Certificates are of the others.
        generated: Tokens of an answer that count; the next so many tokens of a text are what its
            answer is compared with, where the data has no references. Default 0: all, and none.
        sample: Texts that the slow measures take, evenly spaced; their rows say so.
        context: For contextual mechanisms and "bayes-language-model". A CAPE by name is bounded by
            the largest logit over public sentences.
        masked: What :class:`dp_middleware.MaskedContext` takes, for "masked-token".
        chat: From messages to text, for measures of answers. **It is sent all releases.**
        extractor: From messages to text: makes of a raw text and the chat model's answer what is
            measured, as in InferDPT. **It is sent raw texts.**
        service: An encoder of texts; default the bundled one.
        out: A folder for table.csv, table.json and table.parquet.
        progress: Show a bar if standard error is a terminal.

    Raises:
        ParameterError: An unknown name, a number out of range, or data that cannot be read.
        MissingExtra: ``out`` is given and pandas or pyarrow is not installed.
        ChatError: The chat model failed.
    """
    if out is not None:
        open_folder(Path(out))
    if budget_per_text is not None:
        epsilons = (budget_per_text,)
    if list_size is not None:
        _validate.probability(list_size=list_size)
    for epsilon in epsilons:
        _validate.positive(epsilon=epsilon)
    if masked is not None and not isinstance(masked, MaskedContext):
        masked = MaskedContext(masked)
    by_default = of_tokens() if budget_per_text is None else tuple(MECHANISMS)
    chosen = _check_mechanisms(by_default if mechanisms is None else mechanisms)
    setup = Setup(
        space=space if space is not None else default_space(),
        encoder=Encoded(service if service is not None else default_encoder()),
        models=Models(context=context, masked=masked, chat=chat, extractor=extractor),
        measures=(*_names("attack", attacks), *_names("metric", metrics)),
        asked="text" if budget_per_text is not None else "exact" if exact else "nominal",
        list_size=list_size,
        policy=policy if policy is not None else KeepPolicy.nothing(),
        tokens=tokens,
        generated=generated,
        sample=sample,
    )
    cuts = [setup.cut(texts.head(limit)) for texts in _load_all(data)]
    grid = [(law, e) for e in sorted({float(epsilon) for epsilon in epsilons}) for law in chosen]
    quiet = not progress or not sys.stderr.isatty()
    shown = track(grid, "evaluating", console=Console(stderr=True), disable=quiet)
    tables = [rows(setup, *asked, cuts) for asked in shown]
    own = zip(*tables, strict=True)  # by data set
    table = Results(rows=[row for parts in own for part in parts for row in part])
    if out is not None:
        save(table, Path(out))
    return table


def default_space() -> EmbeddingSpace:
    """Makes 11,000 WordPieces, so that a certificate takes seconds; rarer words are split."""
    return EmbeddingService().space(Vocabulary.from_encoder(size=11_000, unknown="split"))


def of_tokens() -> tuple[str, ...]:
    """Names ``MECHANISMS`` but for those of whole texts."""
    return tuple(n for n, kind in MECHANISMS.items() if not issubclass(kind, TextMechanism))


def _check_mechanisms(asked: Iterable[Named]) -> list[Named]:
    """Known ones of different public names, each once."""
    names: dict[Named, str] = {}
    for mechanism in asked:
        if isinstance(mechanism, str):
            _validate.one_of(tuple(MECHANISMS), mechanism=mechanism)
        elif not isinstance(mechanism, Mechanism):
            kind = type(mechanism).__name__
            raise ParameterError(f"expected names of mechanisms, or mechanisms, got {kind}")
        elif not NAME.fullmatch(mechanism.name):  # it names files and cells of the table
            raise ParameterError(f"expected a mechanism's name as {NAME.pattern}")
        names[mechanism] = mechanism if isinstance(mechanism, str) else mechanism.name
    if len(set(names.values())) < len(names):
        raise ParameterError("expected mechanisms of different names: they tell rows apart")
    return list(names)


def _load_all(data: Source | Sequence[Source]) -> list[Texts]:
    """The data sets, each once; none, or two of one name, raise ParameterError."""
    sources = [data] if isinstance(data, str | Path | Texts) else list(data)
    if not sources:
        raise ParameterError("expected data: a file or a folder")
    sets = [source if isinstance(source, Texts) else load(source) for source in sources]
    once = {(texts.name, texts.digest): texts for texts in sets}
    if len({name for name, _ in once}) < len(once):
        raise ParameterError("expected data sets of different names; give Texts with names")
    return list(once.values())


def _names(kind: Kind, asked: Sequence[str] | None) -> tuple[str, ...]:
    if asked is None:
        return named(kind, default=True)
    for name in asked:
        _validate.one_of(named(kind), **{kind: name})
    return tuple(name for name in MEASURES if name in asked)


def attack(
    name: str, texts: Sequence[str], sanitizer: Sanitizer, *, models: Models | None = None
) -> AttackResult:
    """Releases private texts, as :meth:`Sanitizer.release_batch` does, and attacks the releases.

    Tokens that the policy keeps are no trials, but attackers read them as context. The ledger is
    charged once it is known that the attack can be run. A chat model is sent what was released.
    ParameterError: an unknown attack, one whose model is missing, or no token to attack.
    """
    _validate.one_of(named("attack"), attack=name)
    mechanism, space, encoder = sanitizer.mechanism, sanitizer.space, Encoded(default_encoder())
    sample = max(1, len(texts))
    setup = Setup(space=space, encoder=encoder, models=models or Models(), sample=sample)
    MEASURES[name].check(setup.models, mechanism)
    if isinstance(mechanism, TextMechanism):
        raise ParameterError(f"expected a mechanism of tokens, got {mechanism.name}")
    drafts = [draft for text in texts if isinstance(draft := sanitizer.read(text), Draft)]
    started = time.perf_counter()
    seen = [(release.text, draft) for release, draft in sanitizer.release_drafts(drafts)]
    seconds = time.perf_counter() - started
    law = Law(mechanism=mechanism, certificate=sanitizer.certificate)
    data = Texts(name="text", texts=tuple(texts))
    result = MEASURES[name].run(Case.of_drafts(setup, law, data, seen, seconds))
    assert isinstance(result, AttackResult)  # so are those of kind "attack"
    return result
