"""``dp-middleware sanitize``: a text in, a release out; ``chat``: the InferDPT round trip."""

from __future__ import annotations

from typing import Annotated, Any

from rich.console import Console
from typer import Option

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import read_text, working
from dp_middleware.errors import ParameterError

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


@options.with_settings
def sanitize(
    settings: options.PrivacyOptions,
    text: options.Words = None,
    file: options.File = None,
    as_json: options.AsJson = False,
) -> None:
    """Perturb a text: the release on standard output, what it is worth on standard error."""
    if file is not None and file.suffix.lower() in _TABLES:
        raise ParameterError(
            "expected a text with --file, got a table by its name, whose delimiters would be "
            "perturbed; on the command line: dp-middleware sanitize-file IN OUT --column NAME"
        )
    private = read_text(text, file)
    sanitizer = settings.sanitizer()
    with working("certifying and drawing"):
        release = sanitizer.release(private)
    if as_json:
        show.data(show.release_data(release, sanitizer, asked=settings.asked_data))
        return
    show.line(release.text)
    show.summary(release, sanitizer, settings.asked)


@options.with_settings
def chat(
    settings: options.PrivacyOptions,
    remote: Annotated[str, Option(help=f"Sees the release: {options.MODEL_FORMS}.")],
    extractor: Annotated[str, Option(help="Sees the text, so local: same forms as --remote.")],
    text: options.Words = None,
    file: options.File = None,
    instruction: Annotated[options.Text, Option(help="What the models do; public.")] = None,
    trusted_host: Annotated[options.Texts, Option(help="May see the text too; repeatable.")] = None,
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

        models: dict[str, Any] = {"remote": open_model(remote, private=False)}
        models["extractor"] = open_model(extractor, private=True)
        require_trusted(models["extractor"], trusted)  # before anything long or private
    sanitizer = settings.sanitizer()
    inferdpt = dp.InferDPT(sanitizer, **models, trusted_hosts=trusted)
    with working("perturbing, asking and extracting"):
        answer = inferdpt.run(private, instruction=instruction)
    if as_json:
        release = show.release_data(answer.release, sanitizer, asked=settings.asked_data)
        show.data({"answer": answer.text, "remote_answer": answer.remote_text, "release": release})
        return
    show.pairs(
        Console(stderr=True),
        ("released", answer.release.text),
        ("remote answer", show.printable(answer.remote_text)),
    )
    show.line(show.printable(answer.text))
    show.summary(answer.release, sanitizer, settings.asked)
