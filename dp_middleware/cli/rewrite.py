"""The PrivRewrite of ``dp-middleware rewrite``."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import rich.progress
from rich.console import Console

from dp_middleware import _validate
from dp_middleware.cli import show
from dp_middleware.cli.settings import Settings, working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.frameworks import PrivRewrite, Progress
    from dp_middleware.privacy.releases import Release
    from dp_middleware.sanitizers.sanitizer import Sanitizer


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who writes candidates and how one is chosen; public. See ``PrivRewrite``.

    Attributes:
        generator: Spec of the model that sees the sanitized text.
        k: Number of candidates.
        epsilon_select: Nats per token for the choice; ``None``: as many as for the sanitizer.
        prune_above: Similarity from which on a candidate is dropped.
        fallback: If no candidate is left.
        sensitivity: Which bound the choice uses.

    Raises:
        ParameterError: A number out of range, before a ledger is created for it.
    """

    generator: str
    k: int
    epsilon_select: float | None
    prune_above: float
    fallback: Literal["abstain", "sanitized"]
    sensitivity: Literal["candidates", "paper", "naive"]

    def __post_init__(self) -> None:
        _validate.at_least(1, k=self.k)
        _validate.positive(prune_above=self.prune_above)
        if self.epsilon_select is not None:
            _validate.positive(epsilon_select=self.epsilon_select)

    def rewriter(self, sanitizer: Sanitizer, generator: Any) -> PrivRewrite:
        """The framework, with the model that was opened."""
        from dp_middleware.frameworks import PrivRewrite

        return PrivRewrite(sanitizer, **{**asdict(self), "generator": generator})


def run(private: str, chosen: Settings, plan: Plan, *, as_json: bool) -> None:
    """Sanitize, ask for candidates, choose, show. The model is opened before anything long."""
    if not private.strip():
        raise ParameterError("expected a text to rewrite, got an empty one")
    from dp_middleware.frameworks import open_model

    generator = open_model(plan.generator, private=False, varied=True)
    sanitizer = chosen.sanitizer()
    rewriter = plan.rewriter(sanitizer, generator)
    with working("certifying"):
        phases = {"sanitizer": sanitizer.certificate.epsilon, "choice": rewriter.selection.epsilon}
    release, counts = _watched(rewriter, private)
    if as_json:
        found = show.release_data(release, sanitizer, chosen.asked_data)
        show.data({**found, "phases": phases, "candidates": {"asked": plan.k, **counts}})
        return
    show.line(show.printable(release.text))
    parts = f"{show.nats(phases['sanitizer'])} to sanitize, {show.nats(phases['choice'])} to choose"
    candidates = f"{counts['answered']} of {plan.k} came, {counts['failed']} failed"
    details = [("phases", f"{parts}; the model alone sees the first"), ("candidates", candidates)]
    show.summary(release, sanitizer, chosen.asked, details)


def _watched(rewriter: PrivRewrite, private: str) -> tuple[Release, dict[str, int]]:
    """The release and how many candidates came and failed; a bar if a person is watching."""
    counts = {"answered": 0, "failed": 0}
    bar = rich.progress.Progress(
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )
    task = bar.add_task("candidates", total=rewriter.k)

    def heard(step: Progress) -> None:
        if step.stage in counts:
            counts[step.stage] = step.done
            bar.advance(task)

    with bar:
        return rewriter.rewrite(private, progress=heard), counts
