"""``dp-middleware sanitize``: a text in, a release out."""

from __future__ import annotations

from dp_middleware.cli import options, show
from dp_middleware.cli.console import read_text, working
from dp_middleware.cli.settings import PrivacyOptions, with_settings
from dp_middleware.errors import ParameterError

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


@with_settings
def sanitize(
    settings: PrivacyOptions,
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
        show.data(show.release_data(release, sanitizer, settings.asked_data))
        return
    show.line(release.text)
    show.summary(release, sanitizer, settings.asked)
