"""``dp-middleware chat``: the InferDPT round trip."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import read_text, working
from dp_middleware.cli.settings import PrivacyOptions, with_settings
from dp_middleware.errors import ParameterError


@with_settings
def chat(
    settings: PrivacyOptions,
    remote: Annotated[str, typer.Option(help=f"Sees the release: {options.MODEL_FORMS}.")],
    extractor: Annotated[
        str, typer.Option(help="Sees the text, so local: same forms as --remote.")
    ],
    text: options.Words = None,
    file: options.File = None,
    instruction: Annotated[str | None, typer.Option(help="What the models do; public.")] = None,
    trusted_host: Annotated[
        list[str] | None,
        typer.Option("--trusted-host", help="May see the text though not local; repeatable."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """InferDPT: perturb a text, ask a remote model, extract the answer with a local one.

    The answer goes to standard output; release and remote answer to standard error.
    """
    private, trusted = read_text(text, file), tuple(trusted_host or ())
    if not private.strip():
        raise ParameterError("expected a text to ask about, got an empty one")
    with working("opening the models"):
        from dp_middleware.frameworks import open_model
        from dp_middleware.models.trust import require_trusted

        sees_release = open_model(remote, private=False)
        sees_text = open_model(extractor, private=True)
        require_trusted(sees_text, trusted)  # before anything long or private
    sanitizer = settings.sanitizer()
    inferdpt = dp.InferDPT(
        sanitizer, remote=sees_release, extractor=sees_text, trusted_hosts=trusted
    )
    with working("perturbing, asking and extracting"):
        answer = inferdpt.run(private, instruction=instruction)
    if as_json:
        release = show.release_data(answer.release, sanitizer, settings.asked_data)
        show.data({"answer": answer.text, "remote_answer": answer.remote_text, "release": release})
        return
    for title, shown in (("released", answer.release.text), ("remote answer", answer.remote_text)):
        frame = Panel(Text(show.printable(shown)), title=title, title_align="left")
        Console(stderr=True).print(frame)
    show.line(show.printable(answer.text))
    show.summary(answer.release, sanitizer, settings.asked)
