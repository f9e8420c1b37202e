"""``dp-middleware sanitize``: a text in, a release out; or a dry run that draws nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dp_middleware.cli import options, show
from dp_middleware.cli.inputs import read_text
from dp_middleware.cli.progress import working
from dp_middleware.cli.settings import PrivacyOptions, with_settings
from dp_middleware.errors import ParameterError

if TYPE_CHECKING:
    from dp_middleware.sanitizers.explanation import Explanation

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


@with_settings
def sanitize(
    settings: PrivacyOptions,
    text: options.Words = None,
    file: options.File = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="A local dry run instead of a release. Private.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Perturb a text: the release on standard output, what it is worth on standard error."""
    if file is not None and file.suffix.lower() in _TABLES:
        raise ParameterError(
            "expected a text with --file, got a table by its name, whose delimiters would be "
            "perturbed; on the command line: dp-middleware sanitize-file IN OUT --column NAME"
        )
    private = read_text(text, file)
    if explain:
        sanitizer = settings.uncharged().sanitizer()
        with working("computing the laws of these tokens"):
            explanation = sanitizer.explain(private)
        if as_json:
            epsilon = show.json_number(explanation.epsilon)
            show.data({**asdict(explanation), "epsilon": epsilon})
        else:
            _show(explanation)
        return
    sanitizer = settings.sanitizer()
    with working("certifying and drawing"):
        release = sanitizer.release(private)
    if as_json:
        show.data(show.release_data(release, sanitizer, settings.asked_data))
        return
    show.line(release.text)
    show.summary(release, sanitizer, settings.asked)


def _show(explanation: Explanation) -> None:
    """Private: it names tokens of the input."""
    table = Table("token", "count", "stays", "likeliest outputs", header_style="bold")
    for row in explanation.alternatives:
        likely = ", ".join(f"{token} {show.percent(share)}" for token, share in row.likely)
        cells = (row.token, str(row.count), show.percent(row.retention), likely)
        table.add_row(*(Text(show.printable(cell)) for cell in cells))
    console = Console()
    console.print(table)
    console.print(
        f"{explanation.tokens_total} tokens: {explanation.tokens_verbatim} kept by policy, "
        f"{explanation.tokens_unknown} unknown; expected retention "
        f"{show.percent(explanation.expected_retention)}; a release spends "
        f"{show.nats(explanation.epsilon)} nats on this text. "
        "Local and private: nothing was drawn."
    )
    console.print(Text(explanation.warning, style="yellow"))
