"""The attack of ``dp-middleware attack``: release texts, attack the release, show the rate."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dp_middleware.cli import show
from dp_middleware.cli.inputs import read_text
from dp_middleware.cli.settings import Settings, context_of, working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.attacks import AttackResult
    from dp_middleware.evaluation import Models
    from dp_middleware.sanitizers.sanitizer import Sanitizer

_WITHOUT_TEXT = "bayes"
_NEED_MODEL = ("masked-token", "llm-inference", "ngram-leakage")
_NEED_PRIOR = "bayes-language-model"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which attack; public.

    Attributes:
        name: As ``dp-middleware attack --help`` lists them.
        model: Of the attacker: a masked language model's name or folder, or a chat model's spec.
        prior: A language model as ``masked:NAME`` or ``causal:NAME``.

    Raises:
        ParameterError: No such attack, or its model is missing: before anything is charged.
    """

    name: str
    model: str | None
    prior: str | None

    def __post_init__(self) -> None:
        from dp_middleware.evaluation.measures import named

        if self.name not in named("attack"):  # a text in its place is not repeated
            raise ParameterError(f"expected an attack, one of {', '.join(named('attack'))}")
        if self.name in _NEED_MODEL and self.model is None:
            raise ParameterError(f"expected --model, the attacker's own, for {self.name}")
        if self.name == _NEED_PRIOR and self.prior is None:
            raise ParameterError(f"expected --prior, a language model, for {self.name}")


def run(
    words: list[str] | None, file: Path | None, chosen: Settings, plan: Plan, *, as_json: bool
) -> None:
    """Attack. ``bayes`` is exact, for tokens uniform over the vocabulary: it needs no text."""
    if plan.name == _WITHOUT_TEXT:
        sanitizer = chosen.uncharged().sanitizer()
        found = _exact(sanitizer)
    else:
        lines = [line for line in read_text(words, file).splitlines() if line.strip()]
        if not lines:
            raise ParameterError("expected a text to attack, got an empty one")
        models = _models(plan)
        sanitizer = chosen.sanitizer()
        found = _on_texts(lines, sanitizer, plan, models)
    show.data(_data(found, sanitizer)) if as_json else _show(found, sanitizer, chosen)


def _exact(sanitizer: Sanitizer) -> AttackResult:
    from dp_middleware import attacks
    from dp_middleware.evaluation.measures import TOP

    with working("attacking every row"):
        return attacks.bayes(sanitizer.mechanism, sanitizer.space, top=TOP)


def _models(plan: Plan) -> Models:
    """Opened before anything long or private."""
    from dp_middleware.contexts import MaskedContext
    from dp_middleware.evaluation import Models
    from dp_middleware.frameworks import open_model

    if plan.name == "masked-token":
        masked = None if plan.model is None else MaskedContext(plan.model)
        return Models(context=context_of(plan.prior), masked=masked)
    chat = None if plan.model is None else open_model(plan.model, private=False)
    return Models(context=context_of(plan.prior), chat=chat)


def _on_texts(lines: list[str], sanitizer: Sanitizer, plan: Plan, models: Models) -> AttackResult:
    from dp_middleware.evaluation import attack

    with working(f"releasing and attacking with {plan.name}"):
        return attack(plan.name, lines, sanitizer, models=models)


def _without_looking(found: AttackResult) -> str:
    """What one guess from the prior alone recovers."""
    from dp_middleware.evaluation.measures import TOP

    blind = found.details.get(f"blind {TOP[0]}")
    return "" if blind is None else f"; {show.percent(blind)} by guessing without looking"


def _data(found: AttackResult, sanitizer: Sanitizer) -> dict[str, Any]:
    return {**asdict(found), "certificate": sanitizer.certificate.to_dict()}


def _show(found: AttackResult, sanitizer: Sanitizer, chosen: Settings) -> None:
    epsilon = f"{show.nats(sanitizer.certificate.epsilon)} per token; {chosen.asked}"
    interval = "exact"
    if found.trials:
        share = f"{100 * found.confidence:g} %"
        ends = f"{show.percent(found.low)} to {show.percent(found.high)}"
        interval = f"{ends}, {share}, over {found.trials} texts"
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("attack", found.attack),
        ("recovered", f"{show.percent(found.rate)}{_without_looking(found)}"),
        ("interval", interval),
        ("mechanism", show.described(sanitizer.mechanism)),
        ("epsilon", epsilon),
        *((name, f"{value:.4g}") for name, value in found.details.items()),
        *(("assumes", sentence) for sentence in found.assumptions),
    ):
        table.add_row(Text(name, style="bold"), Text(value))
    Console().print(table)
