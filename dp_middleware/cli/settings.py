"""Options that commands share, and the sanitizer that they describe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.contexts import Context
    from dp_middleware.embedding import EmbeddingSpace
    from dp_middleware.mechanisms import Mechanism
    from dp_middleware.policies import KeepPolicy
    from dp_middleware.privacy import Adjacency
    from dp_middleware.sanitizers import Sanitizer


class SpaceName(StrEnum):
    """Vocabularies with vectors that the command line offers."""

    default = "default"
    cl100k = "cl100k"
    o200k = "o200k"


class Keep(StrEnum):
    """Public lists of tokens that may be released unchanged."""

    stop_words = "stop-words"
    punctuation = "punctuation"


Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="The text; - or nothing: standard input."),
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a file.")]
Epsilon = Annotated[
    float, typer.Option("--epsilon", "-e", help="Nats per token, certified exactly.")
]
Nominal = Annotated[
    bool,
    typer.Option("--nominal", help="Take --epsilon as the mechanism's own parameter instead."),
]
MechanismName = Annotated[
    str | None,
    typer.Option("--mechanism", "-m", help="See `dp-middleware mechanisms`; default: the first."),
]
SpaceOption = Annotated[SpaceName, typer.Option("--space", help="Vocabulary and vectors.")]
Keeps = Annotated[
    list[Keep] | None,
    typer.Option("--keep", help="Release these tokens unchanged; repeatable. Certified as such."),
]
WithinClasses = Annotated[
    bool,
    typer.Option("--within-classes", help="Certify within the mechanism's public classes only."),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="For cape, cape-strict: a local model, masked:NAME or causal:NAME. Reads the text.",
    ),
]
AcceptInfinite = Annotated[
    bool,
    typer.Option("--accept-infinite", help="With --nominal: release though nothing is guaranteed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The privacy options of one run; all public.

    Attributes:
        epsilon: Nats per token, see ``nominal``.
        nominal: Whether ``epsilon`` is the mechanism's parameter; else it is the certified one.
        mechanism: A name of ``MECHANISMS``; ``None`` for the library's default.
        space: Vocabulary and vectors.
        keep: Lists of tokens released unchanged.
        within_classes: Certify within the mechanism's public classes.
        accept_infinite: Release even if nothing is guaranteed.
        context: A language model for a contextual mechanism, ``masked:NAME`` or ``causal:NAME``.
    """

    epsilon: float
    nominal: bool
    mechanism: str | None
    space: SpaceName
    keep: tuple[Keep, ...]
    within_classes: bool
    accept_infinite: bool
    context: str | None = None

    @property
    def asked(self) -> str:
        """What ``epsilon`` meant, in words."""
        if self.nominal:
            return f"asked for nominal epsilon {self.epsilon:g}, the mechanism's own parameter"
        return f"asked for exact epsilon {self.epsilon:g}, calibrated"

    def sanitizer(self) -> Sanitizer:
        """Load the space and calibrate or certify, with spinners on a terminal."""
        from dp_middleware.sanitizers import Sanitizer, sanitizer

        if self.accept_infinite and not self.nominal:
            raise ParameterError("expected --nominal with --accept-infinite: infinity has no exact")
        kind, context = kind_of(self.mechanism, self.epsilon), context_of(self.context)
        space, policy = load_space(self.space), self._policy()
        adjacency = None
        if self.within_classes:
            adjacency = classes_of(kind.with_defaults(self.epsilon, space), space)
        if self.nominal:
            return Sanitizer(
                kind.with_defaults(self.epsilon, space),
                space,
                context=context,
                policy=policy,
                adjacency=adjacency,
                accept_infinite=self.accept_infinite,
            )
        with working(f"calibrating {kind.name} to exact epsilon {self.epsilon:g}"):
            return sanitizer(
                self.epsilon,
                kind.name,
                space,
                context=context,
                policy=policy,
                adjacency=adjacency,
            )

    def _policy(self) -> KeepPolicy:
        from dp_middleware.policies import KeepPolicy

        lists = {Keep.stop_words: KeepPolicy.stop_words, Keep.punctuation: KeepPolicy.punctuation}
        return reduce(or_, (lists[name]() for name in dict.fromkeys(self.keep)), KeepPolicy())


def kind_of(name: str | None, *epsilons: float) -> type[Mechanism]:
    """The mechanism of this name.

    Raises:
        ParameterError: No such mechanism, or an epsilon is not positive.
    """
    from dp_middleware import _validate
    from dp_middleware.mechanisms import MECHANISMS
    from dp_middleware.sanitizers import DEFAULT_MECHANISM

    chosen = name if name is not None else DEFAULT_MECHANISM
    _validate.one_of(tuple(MECHANISMS), mechanism=chosen)
    for epsilon in epsilons:
        _validate.positive(epsilon=epsilon)
    return MECHANISMS[chosen]


def mechanism_at(
    kind: type[Mechanism],
    epsilon: float,
    space: EmbeddingSpace,
    adjacency: Adjacency | None,
    length: int | None,
) -> Mechanism:
    """The mechanism whose certified epsilon is the one that was asked for."""
    from dp_middleware.certification import calibrate

    with working(f"calibrating {kind.name} to exact epsilon {epsilon:g}"):
        mechanism = kind.with_defaults(epsilon, space)
        return calibrate(mechanism, space, epsilon, adjacency=adjacency, length=length)


def context_of(spec: str | None) -> Context | None:
    """The language model behind ``masked:NAME`` or ``causal:NAME``.

    Raises:
        ParameterError: Another form.
    """
    if spec is None:
        return None
    from dp_middleware.contexts import CausalContext, MaskedContext

    kind, _, name = spec.partition(":")
    if kind not in ("masked", "causal") or not name:
        raise ParameterError("expected --context as masked:NAME or causal:NAME")
    return MaskedContext(name) if kind == "masked" else CausalContext(name)


def classes_of(mechanism: Mechanism, space: EmbeddingSpace) -> Adjacency:
    """Substitution within the mechanism's public classes.

    Raises:
        ParameterError: The mechanism has no classes.
    """
    from dp_middleware.privacy import Adjacency

    classes = getattr(mechanism, "classes", None)
    if classes is None:
        raise ParameterError(
            f"expected a mechanism with public classes (custext) for --within-classes, "
            f"got {mechanism.name}"
        )
    with working("partitioning the vocabulary"):
        return Adjacency.within(classes(space))


def load_space(name: SpaceName) -> EmbeddingSpace:
    """The vocabulary with its vectors."""
    with working(f"loading the {name} space"):
        from dp_middleware.embedding import EmbeddingService, default_space
        from dp_middleware.vocabulary import Vocabulary

        if name is SpaceName.default:
            return default_space()
        return EmbeddingService().space(Vocabulary.from_tiktoken(f"{name}_base"), "input")


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on standard error while something long runs, if a person is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield
