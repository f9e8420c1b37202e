"""The commands. Each reads, calls the library once and shows; nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dp_middleware.cli import ledger, options, settings
from dp_middleware.cli.failures import Commands
from dp_middleware.cli.inputs import read_text
from dp_middleware.cli.options import FallbackName, SensitivityName, SpaceName
from dp_middleware.cli.settings import Settings, with_settings, working

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(ledger.app, name="ledger")


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Differentially private text, with certificates of the law that is really drawn from.

    Exit codes: 0 done, 1 unexpected error, 2 bad option or text, 3 refused for privacy,
    4 a model failed, 5 a package is missing.
    """
    if version:
        from dp_middleware import __version__

        typer.echo(__version__)
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
@with_settings
def sanitize(
    chosen: Settings,
    text: options.Words = None,
    file: options.File = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="A local dry run instead of a release. Private.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Perturb a text: the release on standard output, what it is worth on standard error."""
    private = read_text(text, file)
    _explain(private, chosen, as_json) if explain else _sanitize(private, chosen, as_json)


def _sanitize(private: str, chosen: Settings, as_json: bool) -> None:
    from dp_middleware.cli import show

    sanitizer = chosen.sanitizer()
    with working("certifying and drawing"):
        release = sanitizer.release(private)
    if as_json:
        show.data(show.release_data(release, sanitizer, chosen.asked_data))
        return
    show.line(release.text)
    show.summary(release, sanitizer, chosen.asked)


def _explain(private: str, chosen: Settings, as_json: bool) -> None:
    from dp_middleware.cli import show

    sanitizer = chosen.uncharged().sanitizer()
    with working("computing the laws of these tokens"):
        found = sanitizer.explain(private)
    show.data(show.explanation_data(found)) if as_json else show.explanation(found)


@app.command()
def certify(
    mechanism: Annotated[
        str | None, typer.Argument(help="See `dp-middleware mechanisms`.", show_default=False)
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option("--epsilon", "-e", help="Nats per token, certified exactly; repeatable."),
    ] = None,
    nominal: options.Nominal = False,
    space: options.SpaceOption = SpaceName.default,
    within_classes: options.WithinClasses = False,
    length: Annotated[
        int | None,
        typer.Option("--length", help="Tokens of the text, where a token moves other positions."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """What a mechanism claims, and what it really guarantees on a space."""
    from dp_middleware.certification import certify as certificate_of
    from dp_middleware.cli import show

    wanted = epsilon or [10.0]
    kind, where = settings.kind_of(mechanism, *wanted), settings.load_space(space)
    relation = None
    if within_classes:
        relation = settings.classes_of(kind.with_defaults(wanted[0], where), where)
    chosen = [
        kind.with_defaults(value, where)
        if nominal
        else settings.mechanism_at(kind, value, where, relation, length)
        for value in wanted
    ]
    found = []
    for each in chosen:
        with working(f"certifying {show.described(each)}"):
            found.append(certificate_of(each, where, adjacency=relation, length=length))
    if as_json:
        show.data(
            [show.certificate_data(m, c) for m, c in zip(chosen, found, strict=True)],
        )
        return
    show.certificates(found, [show.described(each) for each in chosen])


@app.command()
@with_settings
def prepare(
    chosen: Settings,
    first: Annotated[
        int | None,
        typer.Option("--first", help="Only the first tokens of the vocabulary, this many."),
    ] = None,
) -> None:
    """Compute certificate and rows before any text is there; keep them in the cache folder.

    For the image of a server: other processes with the same options draw from the file.
    """
    from dp_middleware import _validate
    from dp_middleware.cli import show

    if first is not None:
        _validate.at_least(1, first=first)
    sanitizer = chosen.uncharged().sanitizer()
    with working("certifying, computing rows and writing them"):
        path = sanitizer.prepare(sanitizer.space.vocabulary.tokens[:first])
    size = sum(file.stat().st_size for file in path.iterdir())
    show.line(f"{path} ({size / 1e6:,.1f} MB)")


@app.command()
def mechanisms(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="A Markdown table: claimed beside guaranteed.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Every mechanism: its name, what its paper claims, what it does, where it is from."""
    from dp_middleware.cli import show
    from dp_middleware.errors import ParameterError
    from dp_middleware.mechanisms import MECHANISMS

    if as_markdown and as_json:
        raise ParameterError("expected --markdown or --json, got both")
    if as_markdown:
        show.line(show.mechanism_table())
        return
    rows = [show.mechanism_data(each) for each in MECHANISMS.values()]
    show.data(rows) if as_json else show.mechanisms(rows)


@app.command()
@with_settings
def rewrite(
    chosen: Settings,
    generator: Annotated[
        str,
        typer.Option("--generator", help=f"Sees the sanitized text: {options.MODEL_FORMS}."),
    ],
    text: options.Words = None,
    file: options.File = None,
    k: Annotated[int, typer.Option("--k", help="Candidates.")] = 10,
    epsilon_select: Annotated[
        float | None,
        typer.Option(
            "--epsilon-select", help="Nats per token for the choice; default: as many again."
        ),
    ] = None,
    prune_above: Annotated[
        float,
        typer.Option("--prune-above", help="Drop a candidate this similar to another; 1: none."),
    ] = 0.8,
    fallback: Annotated[
        FallbackName, typer.Option("--fallback", help="If no candidate is left.")
    ] = FallbackName.abstain,
    sensitivity: Annotated[
        SensitivityName, typer.Option("--sensitivity", help="Bound used for the choice.")
    ] = SensitivityName.candidates,
    as_json: options.AsJson = False,
) -> None:
    """PrivRewrite: perturb a text, let a chat model write candidates, choose one privately.

    --epsilon is for perturbing and --epsilon-select for choosing: the release has their sum.
    """
    from dp_middleware.cli import rewrite as rewriting

    rewriting.run(
        read_text(text, file),
        chosen,
        rewriting.Plan(
            generator=generator,
            k=k,
            epsilon_select=epsilon_select,
            prune_above=prune_above,
            fallback=fallback.value,
            sensitivity=sensitivity.value,
        ),
        as_json=as_json,
    )


@app.command()
@with_settings
def chat(
    chosen: Settings,
    remote: Annotated[
        str, typer.Option("--remote", help=f"Sees the release: {options.MODEL_FORMS}.")
    ],
    extractor: Annotated[
        str, typer.Option("--extractor", help="Sees the text, so local: same forms as --remote.")
    ],
    text: options.Words = None,
    file: options.File = None,
    instruction: Annotated[
        str | None, typer.Option("--instruction", help="What the models do; public.")
    ] = None,
    trusted_host: Annotated[
        list[str] | None,
        typer.Option("--trusted-host", help="May see the text though not local; repeatable."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """InferDPT: perturb a text, ask a remote model, extract the answer with a local one.

    The answer goes to standard output; release and remote answer to standard error.
    """
    from dp_middleware.cli import chat as conversation

    conversation.run(
        read_text(text, file),
        chosen,
        conversation.Models(
            remote=remote, extractor=extractor, trusted_hosts=tuple(trusted_host or ())
        ),
        instruction=instruction,
        as_json=as_json,
    )


@app.command()
@with_settings
def attack(
    chosen: Settings,
    name: Annotated[
        str,
        typer.Argument(
            metavar="ATTACK",
            help="bayes, bayes-uniform, bayes-on-text, bayes-language-model, embedding-inversion, "
            "masked-token, llm-inference or ngram-leakage.",
        ),
    ],
    text: options.Words = None,
    file: options.File = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help=f"Of the attacker: for masked-token a name or folder, else {options.MODEL_FORMS}. "
            "Sees the release.",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option("--prior", help="For bayes-language-model: masked:NAME or causal:NAME."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Release a text and attack the release: how much is recovered, and what that rests on.

    Each line is a text of its own. `bayes` without a text is exact, for any text.
    """
    from dp_middleware.cli import attack as attacking

    plan = attacking.Plan(name=name, model=model, prior=prior)
    attacking.run(text, file, chosen, plan, as_json=as_json)


@app.command()
def evaluate(
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Files, folders or names of data sets; public texts."),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", "-m", help="Repeatable; default: all."),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option("--epsilon", "-e", help="Nats per token; repeatable; default: 1, 3, 6, 10."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Calibrate: --epsilon is certified, not nominal.")
    ] = False,
    space: options.SpaceOption = SpaceName.cl100k,
    attack: Annotated[
        list[str] | None,
        typer.Option("--attack", help="Repeatable; default: those without a language model."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Repeatable; default: those without a language model."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Texts of each data set.")] = 200,
    tokens: Annotated[int, typer.Option("--tokens", help="Tokens of each text.")] = 64,
    sample: Annotated[
        int, typer.Option("--sample", help="Texts that the slow measures take; rows say so.")
    ] = 32,
    context: options.ContextOption = None,
    masked_model: Annotated[
        str | None, typer.Option("--masked-model", help="For masked-token: a name or folder.")
    ] = None,
    chat_model: Annotated[
        str | None,
        typer.Option("--chat-model", help=f"Is sent every release: {options.MODEL_FORMS}."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of table and report; a run that ended early goes on."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Mechanisms x epsilons x data x attacks and metrics: a table and a report."""
    from dp_middleware.cli import evaluate as evaluating

    plan = evaluating.Plan(
        data=data or [],
        mechanisms=mechanism,
        epsilons=epsilon,
        exact=exact,
        space=space,
        attacks=attack,
        metrics=metric,
        limit=limit,
        tokens=tokens,
        sample=sample,
        context=context,
        masked=masked_model,
        chat=chat_model,
        out=evaluating.checked_out(out),
    )
    evaluating.run(plan, as_json=as_json)


@app.command()
def demo() -> None:
    """The main job on a medical paragraph at exact epsilon 10 and 3, with certificates."""
    from dp_middleware.cli.demo import run

    run()
