"""``dp-middleware pseudonymize``: names out, pseudonyms in; ``--restore`` turns an answer back."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import dp_middleware as dp
from dp_middleware.cli import budget, options, show
from dp_middleware.cli.inputs import read_text
from dp_middleware.cli.progress import working
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.pseudonyms.session import PseudonymSession

_KEY_BYTES = 32


def pseudonymize(
    text: options.Words = None,
    file: options.File = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="The text is an answer: put the originals back.")
    ] = False,
    mapping: Annotated[
        Path | None,
        typer.Option("--mapping", help="File that keeps the originals, encrypted; for --restore."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", help="File with its key; default: one in your data folder."),
    ] = None,
    conversation: Annotated[
        str, typer.Option("--conversation", help="Its name: each has pseudonyms of its own.")
    ] = "",
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Replace these kinds only, such as person; repeatable."),
    ] = None,
    perturb: Annotated[
        float | None,
        typer.Option("--perturb", metavar="EPSILON", help="Perturb the rest, nats per token."),
    ] = None,
    pass_empty: Annotated[
        bool, typer.Option("--pass-empty", help="Let a text out in which nothing is found.")
    ] = False,
    ledger: options.Ledger = None,
    limit: options.Budget = None,
    subject: options.Subject = None,
    as_json: options.AsJson = False,
) -> None:
    """Replace names, contacts, dates and amounts; **what is not found goes out as it is**.

    The text goes to standard output, what it is worth to standard error.
    """
    if restore and mapping is None:
        raise ParameterError("expected --mapping with --restore: where are the originals?")
    given = read_text(text, file)
    with working("loading lists and models"):
        terms: dict[str, Any] = {}
        if (ledger, limit, subject) != (None, None, None):
            terms["ledger"] = budget.open_ledger(ledger, limit, None)
            terms["subject"] = options.DEFAULT_SUBJECT if subject is None else subject
        session = _session(mapping, key, terms, kind, perturb, pass_empty=pass_empty)
    if restore:
        restored = session.restore(given, conversation=conversation)
        show.data({"text": restored}) if as_json else show.line(restored)
        return
    with working("finding and drawing"):
        release = session.release_once("user", given, conversation=conversation)
    if as_json:
        show.data({"text": release.text, "certificate": release.certificate.to_dict()})
        return
    show.line(release.text)
    _summary(release)


def _session(
    mapping: Path | None,
    key: Path | None,
    terms: dict[str, Any],
    kinds: list[str] | None,
    perturb: float | None,
    *,
    pass_empty: bool,
) -> PseudonymSession:
    sanitizer = None if perturb is None else dp.sanitizer(perturb)
    empty: Any = "pass" if pass_empty else "raise"
    pseudonyms = dp.Pseudonyms(kinds=kinds, sanitizer=sanitizer, on_empty=empty, **terms)
    if mapping is None:
        return pseudonyms.session()
    return pseudonyms.session(key=_read_key(key, create=not mapping.exists()), memo=mapping)


def _read_key(file: Path | None, *, create: bool) -> bytes:
    """The key in a file; for a new mapping the file is made, for its owner alone."""
    path = budget.data_folder(create=create) / "pseudonyms.key" if file is None else file
    if create:
        with suppress(FileExistsError):
            path.touch(mode=0o600, exist_ok=False)
            path.write_bytes(secrets.token_bytes(_KEY_BYTES))
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(
            f"expected the key that the mapping was written with, got {type(error).__name__}; "
            "say where it is with --key"
        ) from None


def _summary(release: dp.Release) -> None:
    certificate = release.certificate
    unit = show.UNITS[certificate.unit]
    show.pairs(
        Console(stderr=True),
        ("epsilon", f"{show.nats(certificate.epsilon)} per {unit} ({certificate.method})"),
        ("guarantee", f"{certificate.adjacency}"),
        ("as it is", f"{release.tokens_verbatim} of {release.tokens_total} words and signs"),
        *(("public", sentence) for sentence in certificate.assumptions),
    )
