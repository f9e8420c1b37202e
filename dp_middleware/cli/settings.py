"""The privacy options of a command, and the sanitizer that they describe."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, get_type_hints

from dp_middleware.cli import budget, options
from dp_middleware.cli.options import Keep, SpaceName
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.contexts import Context
    from dp_middleware.embedding import EmbeddingSpace
    from dp_middleware.mechanisms import Mechanism
    from dp_middleware.privacy import Adjacency
    from dp_middleware.privacy.ledger.ledger import PrivacyLedger
    from dp_middleware.sanitizers.policies import KeepPolicy
    from dp_middleware.sanitizers.sanitizer import Sanitizer


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The privacy options of one run, which several commands have; all public.

    A command gets them by :func:`with_settings`: their names, help and defaults are these.

    Attributes:
        epsilon: Nats per token, see ``nominal``.
        nominal: Whether ``epsilon`` is the mechanism's parameter; else it is the certified one.
        mechanism: A name of ``MECHANISMS``; ``None`` for the library's default.
        space: Vocabulary and vectors.
        keep: Lists of tokens released unchanged.
        within_classes: Certify within the mechanism's public classes.
        accept_infinite: Release even if nothing is guaranteed.
        context: A language model for a contextual mechanism, ``masked:NAME`` or ``causal:NAME``.
        ledger: URL of the ledger that is charged. If this, both budgets and ``subject`` are
            ``None``, nothing is charged.
        budget: Nats per subject, of a ledger that is created or is there.
        metric_budget: Nats per unit of distance, of the same; ``None``: as many as ``budget``.
        subject: Whose budget is charged.
    """

    epsilon: options.Epsilon = 10.0
    nominal: options.Nominal = False
    mechanism: options.MechanismName = None
    space: options.SpaceOption = SpaceName.default
    keep: options.Keeps = None
    within_classes: options.WithinClasses = False
    accept_infinite: options.AcceptInfinite = False
    context: options.ContextOption = None
    ledger: options.Ledger = None
    budget: options.Budget = None
    metric_budget: options.MetricBudget = None
    subject: options.Subject = None

    @property
    def asked(self) -> str:
        """What ``epsilon`` meant, in words."""
        if self.nominal:
            return f"asked for nominal epsilon {self.epsilon:g}, the mechanism's own parameter"
        return f"asked for exact epsilon {self.epsilon:g}, calibrated"

    @property
    def asked_data(self) -> dict[str, Any]:
        """The same, JSON-ready."""
        return {"epsilon": self.epsilon, "kind": "nominal" if self.nominal else "exact"}

    def uncharged(self) -> Settings:
        """The same without a ledger, for what draws nothing."""
        return replace(self, ledger=None, budget=None, metric_budget=None, subject=None)

    def sanitizer(self) -> Sanitizer:
        """Load the space and calibrate or certify, with spinners on a terminal."""
        from dp_middleware.mechanisms.drawing import check_context
        from dp_middleware.sanitizers.sanitizer import Sanitizer, sanitizer

        if self.accept_infinite and not self.nominal:
            raise ParameterError("expected --nominal with --accept-infinite: infinity has no exact")
        kind, context = kind_of(self.mechanism, self.epsilon), context_of(self.context)
        check_context(kind, context)
        space, policy = load_space(self.space), self._policy()
        adjacency = None
        if self.within_classes:
            adjacency = classes_of(kind.with_defaults(self.epsilon, space), space)
        ledger, subject = self._charged()  # may create one: not for options that are refused
        if self.nominal:
            return Sanitizer(
                kind.with_defaults(self.epsilon, space),
                space,
                context=context,
                policy=policy,
                adjacency=adjacency,
                accept_infinite=self.accept_infinite,
                ledger=ledger,
                subject=subject,
            )
        with working(f"calibrating {kind.name} to exact epsilon {self.epsilon:g}"):
            return sanitizer(
                self.epsilon,
                kind.name,
                space,
                context=context,
                policy=policy,
                adjacency=adjacency,
                ledger=ledger,
                subject=subject,
            )

    def _charged(self) -> tuple[PrivacyLedger | None, str | None]:
        """The ledger and whose budget, if any of its options is given."""
        given = (self.ledger, self.budget, self.metric_budget, self.subject)
        if given == (None, None, None, None):
            return None, None
        subject = options.DEFAULT_SUBJECT if self.subject is None else self.subject
        return budget.opened(self.ledger, self.budget, self.metric_budget), subject

    def _policy(self) -> KeepPolicy:
        from dp_middleware.sanitizers.policies import KeepPolicy

        lists = {Keep.stop_words: KeepPolicy.stop_words, Keep.punctuation: KeepPolicy.punctuation}
        return reduce(or_, (lists[name]() for name in dict.fromkeys(self.keep or ())), KeepPolicy())


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :class:`Settings` in place of its parameter ``chosen``."""
    hints = get_type_hints(Settings, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(each.name, kind, default=each.default, annotation=hints[each.name])
        for each in fields(Settings)
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        chosen = Settings(**{each.name: given.pop(each.name) for each in shared})
        command(**given, chosen=chosen)

    signature = inspect.signature(command, eval_str=True)
    own = [each for name, each in signature.parameters.items() if name != "chosen"]
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
    return run


def kind_of(name: str | None, *epsilons: float) -> type[Mechanism]:
    """The mechanism of this name.

    Raises:
        ParameterError: No such mechanism, or an epsilon is not positive.
    """
    from dp_middleware import _validate
    from dp_middleware.mechanisms import MECHANISMS
    from dp_middleware.sanitizers.sanitizer import DEFAULT_MECHANISM

    chosen = name if name is not None else DEFAULT_MECHANISM
    if chosen not in MECHANISMS:  # a text in its place, such as "-my knee", is not repeated
        raise ParameterError(f"expected a mechanism, one of {', '.join(MECHANISMS)}")
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
        from dp_middleware.vocabulary.vocabulary import Vocabulary

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
