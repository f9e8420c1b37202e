"""The InferDPT round trip of ``dp-middleware chat``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from dp_middleware.cli import show
from dp_middleware.cli.settings import Settings, working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.frameworks import Answer


@dataclass(frozen=True, kw_only=True)
class Models:
    """Who is asked; public.

    Attributes:
        remote: Spec of the model that sees the release.
        extractor: Spec of the model that sees the text.
        trusted_hosts: Hosts that may see the text though they are not local.
    """

    remote: str
    extractor: str
    trusted_hosts: tuple[str, ...]


def run(
    private: str,
    chosen: Settings,
    models: Models,
    *,
    instruction: str | None,
    as_json: bool,
) -> None:
    """Perturb, ask, extract, show. The models are checked before anything long or private."""
    if not private.strip():
        raise ParameterError("expected a text to ask about, got an empty one")
    from dp_middleware.frameworks import InferDPT, open_model
    from dp_middleware.models.trust import require_trusted

    remote = open_model(models.remote, private=False)
    extractor = open_model(models.extractor, private=True)
    require_trusted(extractor, models.trusted_hosts)
    sanitizer = chosen.sanitizer()
    inferdpt = InferDPT(
        sanitizer, remote=remote, extractor=extractor, trusted_hosts=models.trusted_hosts
    )
    with working("perturbing, asking and extracting"):
        answer = inferdpt.run(private, instruction=instruction)
    if not as_json:
        _show(answer)
        show.summary(answer.release, sanitizer, chosen.asked)
        return
    release = show.release_data(answer.release, sanitizer, chosen.asked_data)
    show.data({"answer": answer.text, "remote_answer": answer.remote_text, "release": release})


def _show(answer: Answer) -> None:
    console = Console(stderr=True)
    for title, text in (("released", answer.release.text), ("remote answer", answer.remote_text)):
        console.print(Panel(Text(show.printable(text)), title=title, title_align="left"))
    show.line(show.printable(answer.text))
