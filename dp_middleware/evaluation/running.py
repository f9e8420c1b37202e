"""Evaluate mechanisms at several epsilons on data sets, part by part."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dp_middleware import _validate
from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.embedding import EmbeddingService, EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation._cases import Chat, Cut, Models, cut
from dp_middleware.evaluation._cells import Cell, Cells, Row
from dp_middleware.evaluation._parts import Chosen, Part, Setup
from dp_middleware.evaluation.data import NAME, Texts, load
from dp_middleware.evaluation.measures import MEASURES, Kind, named
from dp_middleware.evaluation.report import save
from dp_middleware.evaluation.results import Results, check_extras
from dp_middleware.mechanisms import MECHANISMS, Mechanism
from dp_middleware.metrics.inputs import Encoder, default_encoder
from dp_middleware.vocabulary.vocabulary import Vocabulary

EPSILONS = (1.0, 3.0, 6.0, 10.0)
Source = str | Path | Texts


def evaluate(
    mechanisms: Sequence[Chosen] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    data: Source | Sequence[Source] = (),
    *,
    space: EmbeddingSpace | None = None,
    attacks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    exact: bool = False,
    limit: int = 200,
    tokens: int = 64,
    sample: int = 32,
    context: Context | None = None,
    masked: Any = None,
    chat: Chat | None = None,
    service: Encoder | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Results:
    """What attackers recover and what texts keep, for every mechanism, epsilon and data set.

    Every text is released once for each mechanism and epsilon with the operating system's
    entropy, also where the exact epsilon is infinite: this is to measure, on public texts, and
    charges no ledger. What cannot be run has a row that says why.

    Args:
        mechanisms: Names of ``MECHANISMS``, with public defaults, or mechanisms, of different
            names; default all.
        epsilons: Nats per token.
        data: Files, folders, names of data sets (see :func:`load`) or :class:`Texts`, of
            different names.
        space: Default the first 11,000 words of cl100k with the bundled encoder's vectors.
        attacks: Names; default those that need no language model.
        metrics: Names; default those that need no language model.
        exact: Take epsilons as certified ones: each mechanism is calibrated to them, and those
            that cannot be are drawn at the nominal one, with their own exact epsilon. Else the
            epsilons are the mechanisms' own parameters.
        limit: Texts of each data set, from the first.
        tokens: Tokens of each text, from the first.
        sample: Texts that the slow measures take, evenly spaced; their rows say so.
        context: A language model for cape, cape-strict and the attack "bayes-language-model".
        masked: What :class:`dp_middleware.MaskedContext` takes, for "masked-token".
        chat: From messages to text, for measures of answers. **It is sent all releases**, those
            of mechanisms without a guarantee too.
        service: An encoder of texts; default the bundled one.
        out: A folder for table.csv, table.json, table.parquet, report.html, and the finished
            parts: the same call goes on where it was interrupted, unless a model has no name
            (``model`` or ``name``): it cannot be told from another.
        progress: Show a bar if standard error is a terminal.

    Raises:
        ParameterError: An unknown name, a number out of range, or data that cannot be read.
        MissingExtra: ``out`` is given and pandas, pyarrow or matplotlib is not installed.
        ChatError: The chat model failed.
    """
    if out is not None:
        check_extras()
    wanted = tuple(mechanisms) if mechanisms is not None else tuple(MECHANISMS)
    grid = [(e, each) for e in _positive(epsilons) for each in _known(wanted)]
    setup = Setup(
        measures=(*_names("attack", attacks), *_names("metric", metrics)),
        exact=exact,
        tokens=tokens,
        sample=sample,
        space=space if space is not None else default_space(),
        models=Models(context=context, masked=_masked(masked), chat=chat),
        service=service if service is not None else default_encoder(),
    )
    sets = [each.head(limit) for each in _distinct([_read(each) for each in _sources(data)])]
    cells = Cells(None if out is None else Path(out) / "cells")
    whole = [cut(each, setup.space, tokens) for each in sets]
    table = _table(grid, whole, setup, cells, progress)
    if out is not None:
        save(table, Path(out))
    return table


def default_space() -> EmbeddingSpace:
    """The words of cl100k that evaluations are on: 11,000, so that a certificate takes seconds."""
    return EmbeddingService().space(Vocabulary.from_tiktoken("cl100k_base"))


def _table(
    grid: list[tuple[float, Chosen]], sets: list[Cut], setup: Setup, cells: Cells, progress: bool
) -> Results:
    """All parts, those on disk read; a mechanism at an epsilon is set up once for all data."""
    found: dict[tuple[int, int], Cell] = {}
    with _bar(len(grid) * len(sets), progress) as advance:
        for place, (epsilon, chosen) in enumerate(grid):
            part = Part(setup, chosen, epsilon)
            for number, whole in enumerate(sets):
                advance(f"{part.name} at {epsilon:g} on {whole.data.name}")
                key = part.key(whole)
                cell = cells.load(key)
                if cell is None:
                    cell = part.cell(whole)
                    cells.store(key, cell)
                found[number, place] = cell
    return _joined([found[index] for index in sorted(found)])


def _joined(cells: list[Cell]) -> Results:
    """Rows in order; each example once, though every data set has one."""
    rows: list[Row] = [row for cell in cells for row in cell.rows]
    examples = [cell.example for cell in cells if cell.example is not None]
    once = {(each["mechanism"], each["asked_epsilon"]): each for each in reversed(examples)}
    return Results(rows=rows, examples=list(reversed(once.values())))


def _known(mechanisms: tuple[Chosen, ...]) -> tuple[Chosen, ...]:
    for each in mechanisms:
        if isinstance(each, str):
            _validate.one_of(tuple(MECHANISMS), mechanism=each)
        elif not isinstance(each, Mechanism):
            raise ParameterError(f"expected names or mechanisms, got {type(each).__name__}")
    known = tuple(dict.fromkeys(mechanisms))
    names = [_public_name(each) for each in known]
    if len(set(names)) < len(names):
        raise ParameterError(
            "expected mechanisms of different names: rows are told apart by name; evaluate those "
            "of one name one after the other"
        )
    return known


def _public_name(chosen: Chosen) -> str:
    """Of files and cells of the table."""
    name = chosen if isinstance(chosen, str) else chosen.name
    if not NAME.fullmatch(name):
        raise ParameterError(f"expected a mechanism's name as {NAME.pattern}")
    return name


def _distinct(sets: list[Texts]) -> list[Texts]:
    """Each once; rows are told apart by name.

    Raises:
        ParameterError: Two data sets of one name.
    """
    found = {(each.name, each.digest): each for each in sets}
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise ParameterError(
            "expected data sets of different names, got two of one name; name their folders, or "
            "give Texts with names"
        )
    return list(found.values())


def _positive(epsilons: Sequence[float]) -> tuple[float, ...]:
    for each in epsilons:
        _validate.positive(epsilon=each)
    return tuple(sorted({float(each) for each in epsilons}))


def _names(kind: Kind, asked: Sequence[str] | None) -> tuple[str, ...]:
    if asked is None:
        return named(kind, default=True)
    for each in asked:
        _validate.one_of(named(kind), **{kind: each})
    return tuple(name for name in MEASURES if name in asked)


def _sources(data: Source | Sequence[Source]) -> list[Source]:
    found = [data] if isinstance(data, str | Path | Texts) else list(data)
    if not found:
        raise ParameterError("expected data: a file, a folder or the name of a data set")
    return found


def _read(source: Source) -> Texts:
    return source if isinstance(source, Texts) else load(source)


def _masked(model: Any) -> MaskedContext | None:
    return model if model is None or isinstance(model, MaskedContext) else MaskedContext(model)


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Any]:
    """A function that takes what is begun next; a bar if a person is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(
        *(*columns, TimeElapsedColumn()),
        console=Console(stderr=True),
        disable=not shown or not sys.stderr.isatty(),
    )
    task = bar.add_task("evaluating", total=total)
    begun = 0

    def advance(what: str) -> None:
        nonlocal begun
        bar.update(task, description=what, completed=begun)
        begun += 1

    with bar:
        yield advance
        bar.update(task, description="done", completed=total)
