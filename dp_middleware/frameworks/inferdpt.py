"""InferDPT: perturb a document, ask a remote model about it, extract the answer locally."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from string import Template
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from dp_middleware._forks import LeavesWithout
from dp_middleware.conversation.messages import ONCE, Message
from dp_middleware.conversation.session import Session
from dp_middleware.errors import ParameterError, RemoteError
from dp_middleware.models.chat import chat_model, local_model
from dp_middleware.privacy.certificate import Unit
from dp_middleware.privacy.releases import Release

Messages = list[dict[str, str]]

PERTURBED: dict[Unit, str] = {
    "occurrence": "Words of the text were replaced at random; go by its overall sense.",
    "sentence": "Each line has key words and phrases of a sentence, some of them drawn at random; "
    "go by what they have in common.",
    "text": "These are key words and phrases of a text, one or two of them drawn at random; go by "
    "what they have in common.",
    "value": "Its names, dates and numbers are stand-ins for others; write them as they are here.",
}
"""What a remote model is told about a release, by what its guarantee protects."""

_EXTRACTION = (
    "Write an Extended Text that continues the Prefix Text. Take your material from the Perturbed "
    "Generation: keep what is coherent and fits the Prefix Text, leave out or correct what does "
    "not, and follow on without a break. Answer with the Extended Text only.\n\n"
    "Prefix Text:\n$text\n\nPerturbed Generation:\n$generation\n\nExtended Text:"
)

PAPER_PROMPTS: Mapping[str, str] = MappingProxyType(
    {
        "perturbation": "Continue the Prefix Text below. Answer with the continuation only.\n\n"
        "Prefix Text:\n$text",
        "extraction": _EXTRACTION,
    }
)
"""For ``InferDPT(prompts=)``: what the paper asks for a text to continue, in our words (App. A).

Unlike by default, the remote model is not told that words of the text were replaced.
"""


def for_remote(released: str, instruction: str | None, unit: Unit = "occurrence") -> Messages:
    """What the remote model is sent, public text only; ``None`` asks for a continuation."""
    if instruction is None:
        task = (
            "Continue the Prefix Text below with a passage of similar topic and style. "
            f"{PERTURBED[unit]} Answer with the continuation only."
        )
        return _user(f"{task}\n\nPrefix Text:\n{released}")
    return _user(f"{instruction}\n\n{PERTURBED[unit]}\n\nText:\n{released}")


def for_extractor(document: str, remote_text: str, instruction: str | None) -> Messages:
    """What the local model is sent, as in the paper, in our words. Private: holds the document."""
    if instruction is None:
        return _filled(_EXTRACTION, document, remote_text)
    task = (
        "Carry out the Instruction on the Original Text. The Draft Answer was written for a "
        "version of the text that was changed at random: keep what holds for the "
        "Original Text and correct the rest. Answer with the Final Answer only."
    )
    return _user(
        f"{task}\n\nInstruction:\n{instruction}\n\nOriginal Text:\n{document}\n\n"
        f"Draft Answer:\n{remote_text}\n\nFinal Answer:"
    )


def _filled(template: str, text: str, generation: str = "", instruction: str = "") -> Messages:
    """The one message that a template makes; a dollar sign in what is filled in stays one."""
    parts = {"text": text, "generation": generation, "instruction": instruction}
    return _user(Template(template).substitute(parts))


def _user(content: str) -> Messages:
    return [{"role": "user", "content": content}]


class PromptReleaser(Protocol):
    """What InferDPT needs of a sanitizer."""

    def release(self, text: str, /) -> Release:
        """Charges, then draws a release of a private text."""


@dataclass(frozen=True, kw_only=True)
class Answer(LeavesWithout):
    """Holds the answer to a private document.

    Attributes:
        text: The extracted answer, written from the raw document: it has **no** guarantee and must
            not leave again unsanitized. ``repr`` hides it and pickling drops it.
        remote_text: What the remote model wrote about the released text; as public as that.
        release: What the remote model was sent, and its certificate.
    """

    _instead: ClassVar[dict[str, Any]] = {"text": "(private text, dropped when it was pickled)"}

    text: str = field(repr=False)
    remote_text: str
    release: Release


class InferDPT:
    """Perturbs, asks the remote model, extracts with a local model (Tong et al. 2023).

    The remote model sees the released text and the instruction; the extractor the raw document and
    the remote model's text, in calls that leave no trace, log or cache entry. With a session of
    pseudonyms originals are put back into the remote model's text first, and an extractor may be
    left out.

    Guarantee:
        What the remote model sees of the document has the release's guarantee and no more. The
        extracted answer has none.

    Args:
        sanitizer: Has ``release(text)``; charges and draws. Or a session of
            :class:`~dp_middleware.Pseudonyms`, of which every document is a conversation.
        remote: What :func:`chat_model` takes.
        extractor: What :func:`chat_model` takes; in process, on loopback or on a trusted host; a
            function declared so by ``chat_model(function, local=True)``.
        trusted_hosts: Names of further hosts that may see raw text.
        prompts: Public templates (:class:`string.Template`) in place of ours: ``"perturbation"``
            for the remote model, with ``$text`` for the released text, and ``"extraction"`` for the
            local one, with ``$text`` for the document and ``$generation`` for the remote model's
            text; both may have ``$instruction``. :data:`PAPER_PROMPTS` has the paper's.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
        ParameterError: Not a chat model, or a template without its parts.
    """

    def __init__(
        self,
        sanitizer: PromptReleaser | Session,
        *,
        remote: Any,
        extractor: Any = None,
        trusted_hosts: Iterable[str] = (),
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self._prompts = _checked(prompts or {})
        if extractor is None and not getattr(sanitizer, "restores", False):
            raise ParameterError("expected extractor=, a local model, or a session of pseudonyms")
        self._extractor = None if extractor is None else local_model(extractor, trusted_hosts)
        self._sanitizer = sanitizer
        self._remote = replace(chat_model(remote), error=RemoteError)

    def __repr__(self) -> str:
        local = "none" if self._extractor is None else self._extractor.location
        remote = self._remote.location
        return f"InferDPT({self._sanitizer!r}, remote: {remote}, extractor: {local})"

    def run(self, document: str, instruction: str | None = None) -> Answer:
        """Answers an instruction about a private document.

        The instruction is public: **sent as it is**. ``None`` asks to continue the document.

        Raises:
            ParameterError: The document has no tokens, or ``prompts`` have no place for the
                instruction, or one that stays empty; nothing was charged or sent.
            RemoteError: The remote model failed. What was charged stays spent.
            ExtractorError: The extractor failed. What was charged stays spent.
        """
        release, question, restore = self._prepared(document, instruction)
        remote_text = self._remote(question)
        text = restore(remote_text)
        if self._extractor is not None:
            text = self._extractor(self._extraction(document, text, instruction))
        return Answer(text=text, remote_text=remote_text, release=release)

    async def arun(self, document: str, instruction: str | None = None) -> Answer:
        """Does as :meth:`run`, without blocking the event loop."""
        prepared = await asyncio.to_thread(self._prepared, document, instruction)
        release, question, restore = prepared
        remote_text = await self._remote.acall(question)
        text = await asyncio.to_thread(restore, remote_text)
        if self._extractor is not None:
            text = await self._extractor.acall(self._extraction(document, text, instruction))
        return Answer(text=text, remote_text=remote_text, release=release)

    def stream(self, document: str, instruction: str | None = None) -> Generator[str, None, None]:
        """Yields the extracted answer of :meth:`run` in pieces. Private, as ``Answer.text`` is.

        Nothing is charged before the first is asked for; the remote answer is waited for whole.
        """
        _, question, restore = self._prepared(document, instruction)
        text = restore(self._remote(question))
        if self._extractor is None:
            yield text
        else:
            yield from self._extractor.stream(self._extraction(document, text, instruction))

    def _prepared(
        self, document: str, instruction: str | None
    ) -> tuple[Release, Messages, Callable[[str], str]]:
        """The release, what the remote model is asked, and what restores its answer."""
        for name, template in self._prompts.items():
            has_place = "instruction" in Template(template).get_identifiers()
            if has_place and instruction is None:
                raise ParameterError(f"expected instruction= for the {name} template, got none")
            if name == "perturbation" and not has_place and instruction is not None:
                raise ParameterError("expected $instruction in the perturbation template, got none")
        restore: Callable[[str], str] = str
        if isinstance(self._sanitizer, Session):
            exchange = self._sanitizer.exchange([Message(role="user", texts=(document,), id=ONCE)])
            release, restore = exchange.releases[0], exchange.restore
        else:
            release = self._sanitizer.release(document)
        if release.tokens_total == 0:
            raise ParameterError("expected a document with at least one token, got one without")
        question = for_remote(release.text, instruction, release.certificate.unit)
        if template := self._prompts.get("perturbation", ""):
            question = _filled(template, release.text, instruction=instruction or "")
        return release, question, restore

    def _extraction(self, document: str, text: str, instruction: str | None) -> Messages:
        if (template := self._prompts.get("extraction")) is not None:
            return _filled(template, document, text, instruction or "")
        return for_extractor(document, text, instruction)


_PLACES = {"perturbation": {"text"}, "extraction": {"text", "generation"}}
"""What a template must have; it may have ``$instruction``, too."""


def _checked(prompts: Mapping[str, str]) -> dict[str, str]:
    for name, template in prompts.items():
        needed = _PLACES.get(name)
        if needed is None:
            raise ParameterError(f"expected prompts= of {sorted(_PLACES)}, got one of another name")
        made = Template(template)
        places = set(made.get_identifiers())
        if not made.is_valid() or not needed <= places <= needed | {"instruction"}:
            raise ParameterError(
                f"expected the {name} template with {sorted(needed)} and at most instruction after "
                f"a dollar sign, got {sorted(places)}; write $$ for a dollar sign"
            )
    return dict(prompts)
