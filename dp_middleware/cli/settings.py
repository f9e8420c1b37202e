"""The privacy options of a command, and what they stand for: above all a sanitizer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dp_middleware as dp
from dp_middleware import _validate
from dp_middleware.cli import options, show
from dp_middleware.cli.console import expected, working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.contexts import Context
    from dp_middleware.mechanisms import Mechanism


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions:
    """Holds the privacy options of one run, which several commands have; all public.

    A command gets them by :func:`with_settings`: their names, help and defaults are these. If
    ``ledger``, both budgets and ``subject`` are ``None``, nothing is charged.
    """

    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="Certified nats per token, sentence or text.")
    ] = 10.0
    unit: Annotated[
        str,
        typer.Option(
            metavar="|".join(options.UNITS),
            help="What epsilon protects: a token, the text, or a sentence (key words come out).",
        ),
    ] = "occurrence"
    nominal: options.Nominal = False
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", "-m", help="See `mechanisms`; default: the first.")
    ] = None
    space: options.Space = "default"
    keep: options.Keeps = None
    within_classes: options.WithinClasses = False
    accept_infinite: Annotated[
        bool, typer.Option("--accept-infinite", help="With --nominal: release without a guarantee.")
    ] = False
    context: options.Context = None
    ledger: options.Ledger = None
    budget: options.Budget = None
    metric_budget: Annotated[
        float | None,
        typer.Option(metavar="NATS", help="Per unit of distance; default: as --budget."),
    ] = None
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

    def uncharged(self) -> PrivacyOptions:
        """Returns the same without a ledger, for what draws nothing."""
        return replace(self, ledger=None, budget=None, metric_budget=None, subject=None)

    def sanitizer(self) -> dp.Sanitizer:
        """Loads the space and calibrates or certifies; a ledger is opened or created last."""
        if self.accept_infinite and not self.nominal:
            raise ParameterError("expected --nominal with --accept-infinite: infinity has no exact")
        kind = mechanism_of(self.mechanism, self.epsilon, unit=self.unit)
        context = context_of(self.context)
        from dp_middleware.mechanisms.drawing import check_context

        check_context(kind, context)
        policy, space = policy_of(self.keep), space_of(self.space)
        adjacency = dp.Adjacency.sentences() if self.unit == "sentence" else None
        if self.within_classes:
            adjacency = classes_of(kind, self.epsilon, space)
        terms: dict[str, Any] = {"context": context, "policy": policy, "adjacency": adjacency}
        if self != self.uncharged():
            terms["ledger"] = show.open_ledger(self.ledger, self.budget, self.metric_budget)
            terms["subject"] = options.DEFAULT_SUBJECT if self.subject is None else self.subject
        if self.nominal:
            mechanism = law_of(kind, self.epsilon, space)
            return dp.Sanitizer(mechanism, space, accept_infinite=self.accept_infinite, **terms)
        with working(calibrating(kind, self.epsilon)):
            return dp.sanitizer(self.epsilon, kind.name, space, **terms)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command :class:`PrivacyOptions` in place of its parameter ``settings``.

    Typer reads options from a signature; one of the command's own comes before one with its name.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    own = [parameter for name, parameter in parameters.items() if name != "settings"]
    everywhere = inspect.signature(PrivacyOptions, eval_str=True).parameters
    shared = [option for name, option in everywhere.items() if name not in parameters]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        settings = PrivacyOptions(**{option.name: values.pop(option.name) for option in shared})
        command(settings=settings, **values)

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in (*own, *shared)}
    return run


def require(what: str, typed: Iterable[str], names: Iterable[str]) -> None:
    """Refuses a name that is not there, without repeating it: it may be a text."""
    for word in typed:
        if word not in names:
            raise ParameterError(expected(what, word, names))


def mechanism_of(name: str | None, *epsilons: float, unit: str = "occurrence") -> type[Mechanism]:
    """Returns the mechanism of this name, ``None`` for the library's default for the unit."""
    require("what --unit protects", [unit], options.UNITS)
    with working("loading the library"):
        from dp_middleware.mechanisms.text_mechanisms import TextMechanism
        from dp_middleware.sanitizers.calibrated import DEFAULT_MECHANISM
    if name is None:
        name = DEFAULT_MECHANISM if unit == "occurrence" else dp.WeightedResponse.name
    require("a mechanism", [name], dp.MECHANISMS)
    if unit != "occurrence" and not issubclass(dp.MECHANISMS[name], TextMechanism):
        raise ParameterError(
            f"expected a mechanism of whole texts for --unit {unit}: none of tokens"
        )
    for epsilon in epsilons:
        _validate.positive(epsilon=epsilon)
    return dp.MECHANISMS[name]


def law_of(
    kind: type[Mechanism], epsilon: float, space: dp.EmbeddingSpace, list_size: float | None = None
) -> Mechanism:
    """Makes the mechanism with public defaults, RANTEXT with the lists that were asked for."""
    with working(f"choosing the parameters of {kind.name}"):
        if list_size is None:
            return kind.with_defaults(epsilon, space)
        if issubclass(kind, dp.RanText):
            return kind.with_list_size(space, epsilon=epsilon, size=list_size)
    raise ParameterError(f"expected rantext or rantext-strict for --list-size, got {kind.name}")


def policy_of(lists: Iterable[str] | None) -> dp.KeepPolicy:
    """Makes the policy that keeps the tokens of these lists."""
    require("a list to --keep", lists or (), options.KEEPS)
    policy = dp.KeepPolicy()
    for name in dict.fromkeys(lists or ()):
        policy |= getattr(dp.KeepPolicy, name.replace("-", "_"))()
    return policy


def context_of(spec: str | None) -> Context | None:
    """Returns the language model of ``masked:NAME`` or ``causal:NAME``."""
    if spec is None:
        return None
    kind, _, name = spec.partition(":")
    if kind not in ("masked", "causal") or not name:
        raise ParameterError("expected --context as masked:NAME or causal:NAME")
    return dp.MaskedContext(name) if kind == "masked" else dp.CausalContext(name)


def classes_of(kind: type[Mechanism], epsilon: float, space: dp.EmbeddingSpace) -> dp.Adjacency:
    """Returns substitution within the mechanism's public classes, or raises ParameterError."""
    classes = getattr(kind.with_defaults(epsilon, space), "classes", None)
    if classes is None:
        raise ParameterError(
            f"expected a mechanism with public classes (custext) for --within-classes, "
            f"got {kind.name}"
        )
    with working("partitioning the vocabulary"):
        return dp.Adjacency.within(classes(space))


def space_of(name: str) -> dp.EmbeddingSpace:
    """Loads the vocabulary with its vectors."""
    require("a vocabulary with --space", [name], options.SPACES)
    with working(f"loading the {name} space"):
        from dp_middleware import embedding

        if name == "default":
            return embedding.default_space()
        if name == "wordpieces":
            from dp_middleware.lab.evaluation import running

            return running.default_space()
        if name == "glove":
            return embedding.glove_space()
        vocabulary = dp.Vocabulary.from_tiktoken(f"{name}_base")
        return embedding.EmbeddingService().space(vocabulary, "input")


def calibrating(mechanism: type[Mechanism], epsilon: float) -> str:
    """Says what a person waits for."""
    return (
        f"calibrating {mechanism.name} to exact epsilon {epsilon:g} (about a minute the first time)"
    )
