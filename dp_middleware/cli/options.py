"""Arguments and options that commands share, and what they stand for: above all a sanitizer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import dp_middleware as dp
from dp_middleware import _validate
from dp_middleware.cli import show
from dp_middleware.cli.console import require, working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.contexts import Context as LanguageModel
    from dp_middleware.mechanisms import Mechanism

DEFAULT_SUBJECT = "default"
SPACES = ("default", "wordpieces", "glove", "cl100k", "o200k")
UNITS = ("occurrence", "text", "sentence")
KEEPS = ("stop-words", "nltk-stop-words", "punctuation")
ON_LANGUAGE = ("refuse", "warn", "pass")
MODEL_FORMS = "openai:MODEL, openai:MODEL@URL or ollama:MODEL"

Text = str | None
Texts = list[str] | None

Words = Annotated[Texts, Argument(metavar="TEXT", help="The text; - or nothing: standard input.")]
File = Annotated[Path | None, Option("--file", "-f", help="Read the text from a file.")]
OnLanguage = Annotated[str, Option(metavar="|".join(ON_LANGUAGE), help="For an unknown language.")]
Nominal = Annotated[bool, Option("--nominal", help="Take epsilon as the mechanism's own number.")]
Space = Annotated[str, Option(metavar="|".join(SPACES), help="Vocabulary and vectors.")]
ListSize = Annotated[float | None, Option(metavar="SHARE", help="Of rantext's lists, on average.")]
Keeps = Annotated[Texts, Option(metavar="|".join(KEEPS), help="Tokens that stay; repeatable.")]
WithinClasses = Annotated[bool, Option("--within-classes", help="Certify in public classes only.")]
Context = Annotated[Text, Option(help="Reads texts: masked:NAME or causal:NAME.")]
Ledger = Annotated[
    Text,
    Option(
        metavar="URL",
        envvar="DP_MIDDLEWARE_LEDGER",
        help="sqlite:///FILE or postgresql+psycopg://HOST/NAME, passwords in the variable alone; "
        "with --budget or --subject, and in `ledger`, by default a file in your data folder.",
    ),
]
Budget = Annotated[
    float | None,
    Option("--budget", metavar="NATS", help="Per subject. Set once; later runs must repeat it."),
]
Subject = Annotated[Text, Option(metavar="NAME", help="Pays; a pseudonym; default: 'default'.")]
Payer = Annotated[Text, Option(metavar="NAME", help="Pays for, and has, all rows.")]
Mapping = Annotated[Path | None, Option(help="Keeps originals, encrypted; of files: FILE.mapping.")]
Key = Annotated[Path | None, Option(help="File with its key; default: one in your data folder.")]
Keyed = Annotated[bool, Option("--keyed", help="The same pseudonyms wherever --key is the same.")]
Conversation = Annotated[str, Option(metavar="NAME", help="Each has its own pseudonyms.")]
Column = Annotated[
    Texts, Option("--column", "-c", metavar="NAME[=KIND]", help="Release this; repeatable.")
]
AsJson = Annotated[bool, Option("--json", help="For machines.")]


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions:
    """Holds the privacy options of one run, which several commands have; all public.

    A command gets them by :func:`with_settings`: their names, help and defaults are these. If
    ``ledger``, both budgets and ``subject`` are ``None``, nothing is charged.
    """

    epsilon: Annotated[float, Option("--epsilon", "-e", help="Certified nats per unit.")] = 10.0
    unit: Annotated[
        str, Option(metavar="|".join(UNITS), help="Protected: a token, the text, a sentence.")
    ] = "occurrence"
    nominal: Nominal = False
    mechanism: Annotated[Text, Option("--mechanism", "-m", help="See `mechanisms`.")] = None
    space: Space = "default"
    keep: Keeps = None
    within_classes: WithinClasses = False
    accept_infinite: Annotated[
        bool, Option("--accept-infinite", help="With --nominal: release without a guarantee.")
    ] = False
    context: Context = None
    ledger: Ledger = None
    budget: Budget = None
    metric_budget: Annotated[
        float | None, Option(metavar="NATS", help="Per unit of distance; default: as --budget.")
    ] = None
    subject: Subject = None

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
            terms["subject"] = DEFAULT_SUBJECT if self.subject is None else self.subject
        if self.nominal:
            mechanism = law_of(kind, self.epsilon, space)
            return dp.Sanitizer(mechanism, space, accept_infinite=self.accept_infinite, **terms)
        with calibrating(kind, self.epsilon):
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


def mechanism_of(name: str | None, *epsilons: float, unit: str = "occurrence") -> type[Mechanism]:
    """Returns the mechanism of this name, ``None`` for the library's default for the unit."""
    require("what --unit protects", [unit], UNITS)
    with working("loading the library"):
        from dp_middleware.mechanisms.text_mechanisms import TextMechanism
        from dp_middleware.sanitizers.calibrated import DEFAULT_MECHANISM
    if name is None:
        name = DEFAULT_MECHANISM if unit == "occurrence" else dp.WeightedResponse.name
    require("a mechanism", [name], dp.MECHANISMS)
    kind = dp.MECHANISMS[name]
    if unit != "occurrence" and not issubclass(kind, TextMechanism):
        raise ParameterError(f"expected a mechanism of whole texts for --unit {unit}")
    for epsilon in epsilons:
        _validate.positive(epsilon=epsilon)
    return kind


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
    require("a list to --keep", lists or (), KEEPS)
    policy = dp.KeepPolicy()
    for name in dict.fromkeys(lists or ()):
        policy |= getattr(dp.KeepPolicy, name.replace("-", "_"))()
    return policy


def context_of(spec: str | None) -> LanguageModel | None:
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
        raise ParameterError(f"expected public classes, as custext has them, got {kind.name}")
    with working("partitioning the vocabulary"):
        return dp.Adjacency.within(classes(space))


def space_of(name: str) -> dp.EmbeddingSpace:
    """Loads the vocabulary with its vectors."""
    require("a vocabulary with --space", [name], SPACES)
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


def calibrating(mechanism: type[Mechanism], epsilon: float) -> Any:
    """Says what a person waits for."""
    what = f"calibrating {mechanism.name} to exact epsilon {epsilon:g}"
    return working(f"{what} (about a minute the first time)")
