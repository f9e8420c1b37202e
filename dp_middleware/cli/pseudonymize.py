"""``dp-middleware pseudonymize``: names out, pseudonyms in; ``--restore`` turns an answer back."""

from __future__ import annotations

import math
import secrets
import sqlite3
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer import Option

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import read_text, require, working
from dp_middleware.cli.options import Texts
from dp_middleware.errors import ParameterError, withheld

if TYPE_CHECKING:
    from dp_middleware.pseudonyms import PseudonymSession

_KEY_BYTES = 32


def pseudonymize(
    text: options.Words = None,
    file: options.File = None,
    restore: Annotated[bool, Option("--restore", help="Put originals into an answer.")] = False,
    mapping: options.Mapping = None,
    key: options.Key = None,
    keyed: options.Keyed = False,
    conversation: options.Conversation = "",
    kind: Annotated[Texts, Option(metavar="KIND", help="Replace these only; repeatable.")] = None,
    perturb: Annotated[float | None, Option(help="Of the rest, nats per token.")] = None,
    common_words: Annotated[
        bool, Option("--common-words", help="Of the rest only words of a public list go out.")
    ] = False,
    allow: Annotated[Texts, Option(metavar="TEXT", help="Never replace this; repeatable.")] = None,
    pass_empty: Annotated[bool, Option("--pass-empty", help="Let out what has nothing.")] = False,
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
    payer = options.DEFAULT_SUBJECT if subject is None else subject
    if restore and mapping is not None:
        restored = _restored(given, mapping, key, conversation, payer)
        if as_json:
            show.data({"text": restored})
        else:
            show.line(restored.removesuffix("\n"))
        return
    with working("loading lists and models"):
        terms: dict[str, Any] = {"kinds": _known(kind), "allow": allow or (), "subject": payer}
        terms |= {"rest": "common" if common_words else None, **law_of(key, keyed, on_language)}
        terms["sanitizer"] = None if perturb is None else dp.sanitizer(perturb)
        terms["on_empty"] = "pass" if pass_empty else "raise"
        if (ledger, limit, subject) != (None, None, None):
            terms["ledger"] = show.open_ledger(ledger, limit)
        pseudonyms = dp.Pseudonyms(**terms)
        session = opened(pseudonyms, mapping, key)
    with working("loading names, 1 s; finding and drawing"), readable_mapping():
        release = session.release_once("user", given, conversation=conversation)
    if as_json:
        show.data(show.release_data(release, pseudonyms))
        return
    show.line(release.text.removesuffix("\n"))
    _summary(release, pseudonyms, kept=mapping is not None)


def _restored(answer: str, mapping: Path, key: Path | None, conversation: str, payer: str) -> str:
    with working("reading the mapping"), readable_mapping():
        session = reopened(mapping, key, payer)
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


def law_of(key: Path | None, keyed: bool, on_language: str) -> dict[str, Any]:
    """Returns what pseudonyms are told of these options."""
    require("what --on-language does", [on_language], options.ON_LANGUAGE)
    if not keyed:
        return {"on_language": on_language}
    if key is None:
        raise ParameterError("expected --key FILE with --keyed: from what do pseudonyms follow?")
    return {"on_language": on_language, "law": "keyed", "key": _key(key, make=True)}


def readable_mapping() -> AbstractContextManager[None]:
    """Withholds what a database says of a mapping."""
    return withheld(
        "expected a file with --mapping that this command wrote, or a place for a new one, got {}",
        *(OSError, sqlite3.Error),
    )


def opened(pseudonyms: dp.Pseudonyms, mapping: Path | None, key: Path | None) -> PseudonymSession:
    """Opens a session with a mapping that never expires, or a new one and, if need be, its key."""
    if mapping is None:
        return pseudonyms.session()
    is_new = not mapping.exists()
    secret = _key(key or show.data_folder(create=is_new) / "pseudonyms.key", make=is_new)
    with readable_mapping():
        return pseudonyms.session(key=secret, memo=mapping, expires=math.inf)


def reopened(mapping: Path, key: Path | None, payer: str) -> PseudonymSession:
    """Opens a session that only restores, with a mapping that must be there."""
    if not mapping.exists():
        raise ParameterError("expected a file with --mapping that is there, got none")
    return opened(dp.Pseudonyms(lambda _: [], subject=payer), mapping, key)


def _key(path: Path, *, make: bool) -> bytes:
    """Reads a key; a new one is for its owner alone, one that is there is never replaced."""
    if make:
        failed = "expected a place for a new key with --key, got {}"
        with withheld(failed, OSError), suppress(FileExistsError):
            path.touch(mode=0o600, exist_ok=False)
            path.write_bytes(secrets.token_bytes(_KEY_BYTES))
    failed = (
        "expected a key, of a mapping that with which it was written, "
        f"{_KEY_BYTES} bytes or more, got {{}}; say where it is with --key"
    )
    with withheld(failed, OSError):
        key = path.read_bytes()
    if len(key) < _KEY_BYTES:
        raise ParameterError(failed.format(f"{len(key)} bytes"))
    return key


def _summary(release: dp.Release, pseudonyms: dp.Pseudonyms, *, kept: bool) -> None:
    certificate, perturbed = release.certificate, pseudonyms.sanitizer is not None
    epsilon = f"{show.nats(certificate.epsilon)} per value"
    epsilon += ", or token of the rest" * perturbed + f" ({certificate.method})"
    near = [name for name in certificate.adjacency.kinds if pseudonyms.kinds[name].loss]
    if 0 < certificate.epsilon < math.inf and near:
        epsilon += f"; 0 per value of all kinds but {', '.join(near)}"
    signs = "tokens" if perturbed else "words and signs"
    show.pairs(
        Console(stderr=True),
        ("epsilon", epsilon),
        ("guarantee", str(certificate.adjacency)),
        ("as it was", f"{release.tokens_verbatim} of {release.tokens_total} {signs}"),
        show.cost(release, pseudonyms),
        *(("public", sentence) for sentence in certificate.assumptions),
        ("originals", "--restore puts them back into an answer" if kept else "not kept"),
        *show.standing(pseudonyms),
    )
