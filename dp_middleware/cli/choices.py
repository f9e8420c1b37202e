"""What the words of an option stand for: mechanisms, spaces, contexts, classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import dp_middleware as dp
from dp_middleware import _validate
from dp_middleware.cli.failures import expected
from dp_middleware.cli.options import Keep, SpaceName, UnitName
from dp_middleware.cli.progress import working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.contexts import Context
    from dp_middleware.mechanisms import Mechanism


def require(what: str, typed: Iterable[str], names: Iterable[str]) -> None:
    """Refuses a name that is not there, without repeating it: it may be a text."""
    for word in typed:
        if word not in names:
            raise ParameterError(expected(what, word, names))


def mechanism_of(
    name: str | None, *epsilons: float, unit: UnitName = UnitName.occurrence
) -> type[Mechanism]:
    """Returns the mechanism of this name, ``None`` for the library's default for the unit."""
    with working("loading the library"):
        from dp_middleware.mechanisms.text_mechanisms import TextMechanism
        from dp_middleware.sanitizers.calibrated import DEFAULT_MECHANISM
    if name is None:
        name = DEFAULT_MECHANISM if unit is UnitName.occurrence else dp.WeightedResponse.name
    require("a mechanism", [name], dp.MECHANISMS)
    if unit is not UnitName.occurrence and not issubclass(dp.MECHANISMS[name], TextMechanism):
        raise ParameterError(
            f"expected a mechanism of whole texts for --unit {unit}: none of tokens"
        )
    for epsilon in epsilons:
        _validate.positive(epsilon=epsilon)
    return dp.MECHANISMS[name]


def law_of(
    kind: type[Mechanism], epsilon: float, space: dp.EmbeddingSpace, list_size: float | None
) -> Mechanism:
    """Makes the mechanism with public defaults, RANTEXT with the lists that were asked for."""
    if list_size is None:
        with working(f"choosing the parameters of {kind.name}"):
            return kind.with_defaults(epsilon, space)
    if not issubclass(kind, dp.RanText):
        raise ParameterError(f"expected rantext or rantext-strict for --list-size, got {kind.name}")
    with working("fitting the radius"):
        return kind.with_list_size(space, epsilon=epsilon, size=list_size)


def policy_of(lists: Iterable[Keep] | None) -> dp.KeepPolicy:
    """The policy that keeps the tokens of these lists."""
    policy = dp.KeepPolicy()
    for keep in dict.fromkeys(lists or ()):
        policy |= getattr(dp.KeepPolicy, keep.name)()
    return policy


def context_of(spec: str | None) -> Context | None:
    """Returns the language model of ``masked:NAME`` or ``causal:NAME``."""
    if spec is None:
        return None
    kind, _, name = spec.partition(":")
    if kind not in ("masked", "causal") or not name:
        raise ParameterError("expected --context as masked:NAME or causal:NAME")
    return dp.MaskedContext(name) if kind == "masked" else dp.CausalContext(name)


def classes_of(mechanism: Mechanism, space: dp.EmbeddingSpace) -> dp.Adjacency:
    """Returns substitution within the mechanism's public classes, or raises ParameterError."""
    classes = getattr(mechanism, "classes", None)
    if classes is None:
        raise ParameterError(
            f"expected a mechanism with public classes (custext) for --within-classes, "
            f"got {mechanism.name}"
        )
    with working("partitioning the vocabulary"):
        return dp.Adjacency.within(classes(space))


def space_of(name: SpaceName) -> dp.EmbeddingSpace:
    """The vocabulary with its vectors."""
    with working(f"loading the {name} space"):
        from dp_middleware import embedding

        if name is SpaceName.default:
            return embedding.default_space()
        if name is SpaceName.wordpieces:
            from dp_middleware.lab.evaluation import running

            return running.default_space()
        if name is SpaceName.glove:
            return embedding.glove_space()
        return embedding.EmbeddingService().space(
            dp.Vocabulary.from_tiktoken(f"{name}_base"), "input"
        )


def calibrating(mechanism: type[Mechanism], epsilon: float) -> str:
    """What a person reads meanwhile."""
    return (
        f"calibrating {mechanism.name} to exact epsilon {epsilon:g} (about a minute the first time)"
    )
