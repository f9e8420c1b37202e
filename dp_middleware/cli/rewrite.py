"""``dp-middleware rewrite``: PrivRewrite."""

from __future__ import annotations

import sys
from typing import Annotated

import rich.progress
import typer
from rich.console import Console

import dp_middleware as dp
from dp_middleware import _validate
from dp_middleware.cli import options, show
from dp_middleware.cli.inputs import read_text
from dp_middleware.cli.options import FallbackName, SensitivityName
from dp_middleware.cli.progress import announced, working
from dp_middleware.cli.settings import PrivacyOptions, with_settings
from dp_middleware.errors import ParameterError


@with_settings
def rewrite(
    settings: PrivacyOptions,
    generator: Annotated[
        str, typer.Option("--generator", help=f"Sees the sanitized text: {options.MODEL_FORMS}.")
    ],
    text: options.Words = None,
    file: options.File = None,
    k: Annotated[int, typer.Option("--k", help="Candidates.")] = 10,
    epsilon_select: Annotated[
        float | None,
        typer.Option(
            "--epsilon-select", help="Nats per token for the choice; default: as many again."
        ),
    ] = None,
    prune_above: Annotated[
        float,
        typer.Option("--prune-above", help="Drop a candidate this similar to another; 1: none."),
    ] = 0.8,
    fallback: Annotated[
        FallbackName, typer.Option("--fallback", help="If no candidate is left.")
    ] = FallbackName.abstain,
    sensitivity: Annotated[
        SensitivityName, typer.Option("--sensitivity", help="Bound used for the choice.")
    ] = SensitivityName.candidates,
    varied_prompts: Annotated[
        bool, typer.Option("--varied-prompts", help="Ask for each candidate in other words.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """PrivRewrite: perturb a text, let a chat model write candidates, choose one privately.

    --epsilon is for perturbing and --epsilon-select for choosing: the release has their sum.
    """
    private = read_text(text, file)
    _validate.at_least(1, k=k)  # here and below: before a ledger is created
    _validate.positive(prune_above=prune_above)
    if epsilon_select is not None:
        _validate.positive(epsilon_select=epsilon_select)
    if not private.strip():
        raise ParameterError("expected a text to rewrite, got an empty one")
    with working("opening the model"):
        from dp_middleware.frameworks import open_model, rewriting_prompts

        model = open_model(generator, private=False, varied=True)
    sanitizer = settings.sanitizer()
    rewriter = dp.PrivRewrite(
        sanitizer,
        generator=model,
        k=k,
        prompts=rewriting_prompts(k) if varied_prompts else (),
        epsilon_select=epsilon_select,
        prune_above=prune_above,
        fallback=fallback.value,
        sensitivity=sensitivity.value,
    )
    with working("certifying"):
        phases = {"sanitizer": sanitizer.certificate.epsilon, "choice": rewriter.selection.epsilon}
    release, counts = _watch(rewriter, private)
    if as_json:
        data = show.release_data(release, sanitizer, settings.asked_data)
        show.data({**data, "phases": phases, "candidates": {"asked": k, **counts}})
        return
    show.line(show.printable(release.text))
    parts = f"{show.nats(phases['sanitizer'])} to sanitize, {show.nats(phases['choice'])} to choose"
    candidates = f"{counts['answered']} of {k} came, {counts['failed']} failed"
    details = [("phases", f"{parts}; the model alone sees the first"), ("candidates", candidates)]
    show.summary(release, sanitizer, settings.asked, details)


def _watch(rewriter: dp.PrivRewrite, private: str) -> tuple[dp.Release, dict[str, int]]:
    """The release and how many candidates came and failed; a bar if a person is watching."""
    counts = {"answered": 0, "failed": 0}
    bar = rich.progress.Progress(
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )
    task = bar.add_task("candidates", total=rewriter.k)

    def listen(step: dp.Progress) -> None:
        if step.stage in counts:
            counts[step.stage] = step.done
            bar.advance(task)

    with bar, announced("asking for candidates"):
        return rewriter.rewrite(private, progress=listen), counts
