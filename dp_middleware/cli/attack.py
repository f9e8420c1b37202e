"""``dp-middleware attack``: release texts, attack the release, show the rate."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import read_text, working
from dp_middleware.cli.settings import PrivacyOptions, context_of, require, with_settings
from dp_middleware.errors import ParameterError

_NEED_MODEL = ("masked-token", "llm-inference", "ngram-leakage")


@with_settings
def attack(
    settings: PrivacyOptions,
    name: Annotated[
        str,
        typer.Argument(
            metavar="ATTACK",
            help="bayes, bayes-uniform, bayes-on-text, bayes-language-model, embedding-inversion, "
            "masked-token, llm-inference or ngram-leakage.",
        ),
    ],
    text: options.Words = None,
    file: options.File = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"Of the attacker: for masked-token a name or folder, else {options.MODEL_FORMS}. "
            "Sees the release."
        ),
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="For bayes-language-model: masked:NAME or causal:NAME.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Release a text and attack the release: how much is recovered, and what that rests on.

    Each line is a text of its own. `bayes` without a text is exact, for any text.
    """
    with working("loading the library"):
        from dp_middleware.frameworks import open_model
        from dp_middleware.lab import evaluation
        from dp_middleware.lab.evaluation.measures import TOP, named

    require("an attack", [name], named("attack"))
    if name in _NEED_MODEL and model is None:
        raise ParameterError(f"expected --model, the attacker's own, for {name}")
    if name == "bayes-language-model" and prior is None:
        raise ParameterError(f"expected --prior, a language model, for {name}")
    if name == "bayes":  # exact, for tokens uniform over the vocabulary
        sanitizer = settings.uncharged().sanitizer()
        with working("attacking every row"):
            result = dp.attacks.bayes(sanitizer.mechanism, sanitizer.space, top=TOP)
    else:
        lines = [line for line in read_text(text, file).splitlines() if line.strip()]
        if not lines:
            raise ParameterError("expected a text to attack, got an empty one")
        opened: dict[str, Any] = {}
        with working("opening the models"):  # before anything long or private
            opened["context"] = context_of(prior)
            if model is not None and name == "masked-token":
                opened["masked"] = dp.MaskedContext(model)
            elif model is not None:
                opened["chat"] = open_model(model, private=False)
        models = evaluation.Models(**opened)
        sanitizer = settings.sanitizer()
        with working(f"releasing and attacking with {name}"):
            result = evaluation.attack(name, lines, sanitizer, models=models)
    if as_json:
        show.data({**asdict(result), "certificate": sanitizer.certificate.to_dict()})
        return
    certificate, blind = sanitizer.certificate, result.details.get(f"blind {TOP[0]}")
    guess = "" if blind is None else f"; {show.percent(blind)} by guessing without looking"
    interval = "exact"
    if result.trials:
        ends = f"{show.percent(result.low)} to {show.percent(result.high)}"
        interval = f"{ends}, {100 * result.confidence:g} %, over {result.trials} texts"
    epsilon = f"{show.nats(certificate.epsilon)} per {show.UNITS[certificate.unit]}"
    show.pairs(
        Console(),
        ("attack", result.attack),
        ("recovered", f"{show.percent(result.rate)}{guess}"),
        *(() if result.by_id is None else (("by id", show.percent(result.by_id)),)),
        ("interval", interval),
        ("mechanism", show.description(sanitizer.mechanism)),
        ("epsilon", f"{epsilon}; {settings.asked}"),
        *((label, f"{value:.4g}") for label, value in result.details.items()),
        *(("assumes", sentence) for sentence in result.assumptions),
    )
