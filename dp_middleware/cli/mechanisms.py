"""``dp-middleware mechanisms``, ``certify`` and ``prepare``: what they are and guarantee."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from typer import Argument, Option

import dp_middleware as dp
from dp_middleware.cli import options, show
from dp_middleware.cli.console import working

if TYPE_CHECKING:
    from dp_middleware.mechanisms import Mechanism


def mechanisms(as_json: options.AsJson = False) -> None:
    """Every mechanism, its claim beside what is guaranteed: a Markdown table."""
    with working("loading the library"):
        rows = [_describe(mechanism) for mechanism in dp.MECHANISMS.values()]
    if as_json:
        show.data(rows)
    else:
        show.line(markdown_table())


def markdown_table() -> str:
    """Makes one Markdown table of all mechanisms, from their own documentation."""
    lines = ["| name | what it does | claimed | guaranteed | reference |", "|---|---|---|---|---|"]
    for row in map(_describe, dp.MECHANISMS.values()):
        year = re.match(r".*?\(\d{4}\)", row["reference"])
        source = year.group() if year else _first_sentence(row["reference"])
        does = _first_sentence(row["summary"])
        cells = (f"`{row['name']}`", does, row["claim"], row["truth"], source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _describe(mechanism: type[Mechanism]) -> dict[str, str]:
    text = inspect.getdoc(mechanism) or ""
    summary, *sections = (" ".join(part.split()) for part in text.split("\n\n"))

    def section(title: str) -> str:
        return next((s.removeprefix(title) for s in sections if s.startswith(title)), "")

    return {
        "name": mechanism.name,
        "claim": mechanism.claim,
        "truth": mechanism.truth,
        "summary": summary,
        "reference": section("Reference: "),
        "guarantee": section("Guarantee: "),
    }


def _first_sentence(text: str) -> str:
    """Up to the first full stop before a capital letter, which is left out."""
    return re.split(r"\.(?:\s+(?=[A-Z])|$)", text, maxsplit=1)[0]


def certify(
    mechanism: Annotated[options.Text, Argument(help="See `dp-middleware mechanisms`.")] = None,
    epsilon: Annotated[
        list[float] | None, Option("--epsilon", "-e", help="Certified nats; repeatable.")
    ] = None,
    nominal: options.Nominal = False,
    space: options.Space = "default",
    within_classes: options.WithinClasses = False,
    list_size: options.ListSize = None,
    length: Annotated[int | None, Option(help="Of the text, for a raw context.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """What a mechanism claims, and what it really guarantees on a space."""
    epsilons = epsilon or [10.0]
    kind, where = options.mechanism_of(mechanism, *epsilons), options.space_of(space)
    adjacency = options.classes_of(kind, epsilons[0], where) if within_classes else None
    terms: dict[str, Any] = {"adjacency": adjacency, "length": length}
    found = []
    for value in epsilons:
        law: Mechanism = options.law_of(kind, value, where, list_size)
        if not nominal:
            with options.calibrating(kind, value):
                law = dp.calibrate(law, where, value, **terms)
        with working(f"certifying {show.description(law)}"):
            certificate = dp.certify(law, where, **terms)
        of_law = {"epsilon_nominal": None if law.scale is None else law.nominal, "name": law.name}
        found.append({**of_law, **certificate.to_dict()})
        if not as_json:
            _show(certificate, law, f"{'nominal' if nominal else 'exact'} epsilon {value:g}")
    if as_json:
        show.data(found)


@options.with_settings
def prepare(settings: options.PrivacyOptions) -> None:
    """Compute the certificate, and what tokens are drawn by, before any text is there.

    For the image of a server: other processes with the same options find both in the cache folder.
    """
    sanitizer = settings.uncharged().sanitizer()
    with working("certifying, and writing what tokens are drawn by"):
        path = sanitizer.prepare()
    if path is None:
        name = sanitizer.mechanism.name
        show.line(f"the certificate is kept; rows of {name} are computed when they are used")
    else:
        show.line(f"{path} ({path.stat().st_size / 1e6:,.1f} MB)")


def _show(certificate: dp.Certificate, law: Mechanism, asked: str) -> None:
    rows = show.certified(certificate, law, f"asked for {asked}")
    if witness := certificate.witness:
        pair = (witness.token, witness.other)
        token, other = ("(unknown)" if name is None else repr(name) for name in pair)
        rows.append(("witness", f"output {witness.output!r} for {token} against {other}"))
    assumed = (("assumes", sentence) for sentence in certificate.assumptions)
    show.pairs(Console(), *rows, *assumed, ("", ""))
