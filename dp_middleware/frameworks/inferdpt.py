"""InferDPT: perturb a document, ask a remote model about it, extract the answer locally."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dp_middleware._private import LeavesWithout
from dp_middleware.errors import ParameterError, RemoteError
from dp_middleware.frameworks import prompts
from dp_middleware.frameworks.chat import chat_model
from dp_middleware.frameworks.local import local_model

if TYPE_CHECKING:
    from dp_middleware.releases import Release


class Releases(Protocol):
    """What InferDPT needs of a sanitizer."""

    def release(self, text: str, /) -> Release:
        """Charge, then draw a release of a private text."""


@dataclass(frozen=True, kw_only=True)
class Answer(LeavesWithout):
    """The answer to a private document.

    ``text`` was written from the raw document: it has **no** privacy guarantee and must not
    leave again unsanitized, for instance as the history of the next remote call. ``repr`` hides
    it and pickling drops it: unpickled, it is a fixed placeholder.

    Attributes:
        text: The extracted answer. Private.
        remote_text: What the remote model wrote about the released text; as public as that.
        release: What the remote model was sent, and its certificate.
    """

    _instead: ClassVar[Mapping[str, Any]] = {
        "text": "(private text, dropped when the answer was pickled)"
    }

    text: str = field(repr=False)
    remote_text: str
    release: Release


class InferDPT:
    """Perturb, ask the remote model, extract with a local model.

    The remote model sees the released text and the instruction. The extractor sees the raw
    document and the remote model's text; its calls leave no trace, log or cache entry.

    Reference:
        Tong et al. (2023), InferDPT: Privacy-preserving Inference for Black-box Large Language
        Models.

    Guarantee:
        What the remote model sees of the document has the release's guarantee and no more. The
        extracted answer has none.

    Args:
        sanitizer: Has ``release(text)``; charges and draws.
        remote: What :func:`chat_model` takes.
        extractor: What :func:`chat_model` takes; in process, on loopback or on a trusted host.
            A function must be declared: ``chat_model(function, local=True)``.
        trusted_hosts: Names of further hosts that may see raw text.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
        ParameterError: Not a chat model.
    """

    def __init__(
        self,
        sanitizer: Releases,
        *,
        remote: Any,
        extractor: Any,
        trusted_hosts: Iterable[str] = (),
    ) -> None:
        self._extractor = local_model(extractor, trusted_hosts)
        self._sanitizer = sanitizer
        self._remote = replace(chat_model(remote), error=RemoteError)

    def __repr__(self) -> str:
        remote, extractor = self._remote.location, self._extractor.location
        return f"InferDPT({self._sanitizer!r}, remote: {remote}, extractor: {extractor})"

    def run(self, document: str, instruction: str | None = None) -> Answer:
        """Answer an instruction about a document.

        Args:
            document: Private.
            instruction: Public: **sent as it is**, so it must hold nothing private. ``None``
                asks to continue the document.

        Raises:
            ParameterError: The document has no tokens; nothing was charged or sent.
            RemoteError: The remote model failed. What was charged stays spent.
            ExtractorError: The extractor failed. What was charged stays spent.
            DPMiddlewareError: From the sanitizer; nothing was sent.
        """
        release = self._sanitizer.release(document)
        remote_text = self._remote(_question(release, instruction))
        text = self._extractor(prompts.for_extractor(document, remote_text, instruction))
        return Answer(text=text, remote_text=remote_text, release=release)

    async def arun(self, document: str, instruction: str | None = None) -> Answer:
        """As :meth:`run`, without blocking the event loop."""
        release = await asyncio.to_thread(self._sanitizer.release, document)
        remote_text = await self._remote.acall(_question(release, instruction))
        question = prompts.for_extractor(document, remote_text, instruction)
        text = await self._extractor.acall(question)
        return Answer(text=text, remote_text=remote_text, release=release)

    def stream(self, document: str, instruction: str | None = None) -> Generator[str, None, None]:
        """As :meth:`run`, giving the extracted answer in pieces. Private, as ``Answer.text`` is.

        Nothing is charged before the first piece is asked for; the remote model's answer is
        waited for whole.
        """
        release = self._sanitizer.release(document)
        remote_text = self._remote(_question(release, instruction))
        question = prompts.for_extractor(document, remote_text, instruction)
        yield from self._extractor.stream(question)


def _question(release: Release, instruction: str | None) -> prompts.Messages:
    if release.tokens_total == 0:
        raise ParameterError("expected a document with at least one token, got one without")
    return prompts.for_remote(release.text, instruction)
