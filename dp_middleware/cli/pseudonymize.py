"""``dp-middleware pseudonymize``: names out, pseudonyms in; ``--restore`` turns an answer back."""

from __future__ import annotations

import math
import secrets
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import read_text, working
from dp_middleware.cli.settings import require
from dp_middleware.errors import ParameterError, withheld

if TYPE_CHECKING:
    from dp_middleware.pseudonyms import PseudonymSession

_KEY_BYTES = 32
UNREADABLE = (
    "expected a file with --mapping that this command wrote, or a place for a new one, got {}"
)


def pseudonymize(
    text: options.Words = None,
    file: options.File = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="The text is an answer: put the originals back.")
    ] = False,
    mapping: options.Mapping = None,
    key: options.Key = None,
    keyed: options.Keyed = False,
    conversation: options.Conversation = "",
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Replace these only, such as person; repeatable."),
    ] = None,
    perturb: Annotated[
        float | None, typer.Option(metavar="EPSILON", help="Perturb the rest, nats per token.")
    ] = None,
    common_words: Annotated[
        bool, typer.Option("--common-words", help="Of the rest only words of a public list go out.")
    ] = False,
    allow: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Never replace this; repeatable.")
    ] = None,
    pass_empty: Annotated[
        bool, typer.Option("--pass-empty", help="Let a text out in which nothing is found.")
    ] = False,
    on_language: options.OnLanguage = "refuse",
    ledger: options.Ledger = None,
    limit: options.Budget = None,
    subject: options.Subject = None,
    as_json: options.AsJson = False,
) -> None:
    """Replace names, contacts, dates, amounts and secrets; what is not found goes out as it is.

    The text goes to standard output, what it is worth to standard error. With --mapping the same
    value has the same pseudonym in later texts, and --restore turns an answer back.
    """
    if mapping is None and (restore or (key is not None and not keyed)):
        raise ParameterError("expected --mapping with --restore or --key: where are the originals?")
    given = read_text(text, file)
    terms: dict[str, Any] = {"subject": options.DEFAULT_SUBJECT if subject is None else subject}
    if restore and mapping is not None:
        restored = _restored(given, mapping, key, conversation, **terms)
        if as_json:
            show.data({"text": restored})
        else:
            _line(restored)
        return
    require("what --on-language does", [on_language], options.ON_LANGUAGE)
    with working("loading lists and models"):
        terms |= {"kinds": _known(kind), "allow": allow or (), **law_of(key, keyed)}
        terms |= {"rest": "common" if common_words else None, "on_language": on_language}
        terms["sanitizer"] = None if perturb is None else dp.sanitizer(perturb)
        terms["on_empty"] = "pass" if pass_empty else "raise"
        if (ledger, limit, subject) != (None, None, None):
            terms["ledger"] = show.open_ledger(ledger, limit)
        pseudonyms = dp.Pseudonyms(**terms)
        session = opened(pseudonyms, mapping, key)
    loading = working("loading names, 1 s; finding and drawing")
    with loading, withheld(UNREADABLE, OSError, sqlite3.Error):
        release = session.release_once("user", given, conversation=conversation)
    if as_json:
        show.data(show.release_data(release, pseudonyms))
        return
    _line(release.text)
    _summary(release, pseudonyms, kept=mapping is not None)


def _restored(
    answer: str, mapping: Path, key: Path | None, conversation: str, *, subject: str
) -> str:
    with working("reading the mapping"), withheld(UNREADABLE, OSError, sqlite3.Error):
        session = reopened(mapping, key, subject)
        restored = session.restore(answer, conversation=conversation)
        empty = not session.mapping(conversation)
    if empty:
        typer.echo("note: nothing is kept for this conversation, the text is as it was", err=True)
    return restored


def _known(kinds: list[str] | None) -> list[str] | None:
    from dp_middleware.pseudonyms.detectors.ours import KINDS
    from dp_middleware.pseudonyms.labels import kind_of

    known = [kind_of(kind) if kind.strip() else "" for kind in kinds or ()]
    require("a kind with --kind", known, sorted(KINDS))
    return kinds or None


def law_of(key: Path | None, keyed: bool) -> dict[str, Any]:
    """What pseudonyms are told of the key in a file, which is made where there is none."""
    if not keyed:
        return {}
    if key is None:
        raise ParameterError("expected --key FILE with --keyed: from what do pseudonyms follow?")
    _make_key(key)
    return {"law": "keyed", "key": _read_key(key)}


def opened(pseudonyms: dp.Pseudonyms, mapping: Path | None, key: Path | None) -> PseudonymSession:
    """Opens a session with a mapping that never expires, or a new one and, if need be, its key."""
    if mapping is None:
        return pseudonyms.session()
    path = key or show.data_folder(create=not mapping.exists()) / "pseudonyms.key"
    if not mapping.exists():
        _make_key(path)
    with withheld(UNREADABLE, OSError, sqlite3.Error):
        return pseudonyms.session(key=_read_key(path), memo=mapping, expires=math.inf)


def reopened(mapping: Path, key: Path | None, subject: str) -> PseudonymSession:
    """Opens a session that only restores, with a mapping that must be there."""
    if not mapping.exists():
        raise ParameterError("expected a file with --mapping that is there, got none")
    return opened(dp.Pseudonyms(lambda _: [], subject=subject), mapping, key)


def _make_key(path: Path) -> None:
    """For its owner alone; one that is there stays, it may be of other mappings too."""
    failed = "expected a place for a new key with --key, got {}"
    with withheld(failed, OSError), suppress(FileExistsError):
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(secrets.token_bytes(_KEY_BYTES))


def _read_key(path: Path) -> bytes:
    failed = (
        "expected a key, of a mapping that with which it was written, "
        f"{_KEY_BYTES} bytes or more, got {{}}; say where it is with --key"
    )
    with withheld(failed, OSError):
        key = path.read_bytes()
    if len(key) < _KEY_BYTES:
        raise ParameterError(failed.format(f"{len(key)} bytes"))
    return key


def _line(text: str) -> None:
    """As it is; with a line feed at its end, unless it has one."""
    show.line(text.removesuffix("\n"))


def _summary(release: dp.Release, pseudonyms: dp.Pseudonyms, *, kept: bool) -> None:
    certificate, perturbed = release.certificate, pseudonyms.sanitizer is not None
    near = [name for name in certificate.adjacency.kinds if pseudonyms.kinds[name].loss]
    epsilon = f"{show.nats(certificate.epsilon)} per value"
    epsilon += ", or token of the rest" * perturbed + f" ({certificate.method})"
    if 0 < certificate.epsilon < math.inf and near:
        epsilon += f"; 0 per value of all kinds but {', '.join(near)}"
    signs = "tokens" if perturbed else "words and signs"
    originals = "with --mapping FILE they could be put back into an answer"
    if kept:
        originals = "encrypted in the file of --mapping; --restore puts them back into an answer"
    show.pairs(
        Console(stderr=True),
        ("epsilon", epsilon),
        ("guarantee", str(certificate.adjacency)),
        ("as it was", f"{release.tokens_verbatim} of {release.tokens_total} {signs}"),
        show.cost(release, pseudonyms),
        *(("public", sentence) for sentence in certificate.assumptions),
        ("originals", originals),
        *show.standing(pseudonyms),
    )
