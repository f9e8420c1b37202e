"""What remote models answered in the conversations of a session: public, and known again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dp_middleware.conversation.events import ReleaseMemo
from dp_middleware.conversation.names import AnyItem, Digests, checked
from dp_middleware.conversation.transcript import name_of_last_answer
from dp_middleware.sanitizers.sanitizer import Sanitizer


class Answers:
    """Notes answers, and says what the user is shown of them.

    Attributes:
        sanitizer: In whose subject's name.
    """

    sanitizer: Sanitizer
    _memo: ReleaseMemo
    _digests: Digests

    @property
    def restores(self) -> bool:
        """Whether what the user is shown of a remote answer differs from it."""
        return False

    def restore(self, text: str, *, conversation: str = "") -> str:
        """What the user is shown of a remote answer: here just that.

        A session with pseudonyms puts the originals in their place; see :class:`Pseudonyms`.
        """
        return text

    def restore_stream(self, pieces: Iterable[str], *, conversation: str = "") -> Iterator[str]:
        """As :meth:`restore`, for an answer in pieces."""
        return iter(pieces)

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """As :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        return value

    def note_remote(
        self,
        event_id: str | None,
        text: str,
        *,
        conversation: str = "",
        transcript: Iterable[AnyItem] | None = None,
    ) -> None:
        """Tell the session what the remote model answered; it may then go out again.

        Args:
            event_id: The id that the answer will have in the transcript, by which alone it is
                known. ``None``: it has none and is known by its public text, or by what
                :meth:`restore` makes of that. Then any assistant's message without an id that has
                just these words goes out, also one that was extracted locally: where both may say
                "yes", give ids or ``transcript``.
            text: The remote model's own words: ``Answer.remote_text``, never ``Answer.text``.
            conversation: As for :meth:`release`.
            transcript: Private, as of :meth:`release_many`: the messages up to and with the one
                that stands for this answer, such as an extracted one, and that has no id. It is
                then known by its place behind these messages.

        Raises:
            EventRefused: The event was released as a private one, or the memo is full.
            ParameterError: A transcript that does not end with an assistant's message without id.
        """
        checked((event_id, "assistant", text))
        within = self._conversation(conversation)
        if transcript is not None:
            name = name_of_last_answer(self._digests, within, transcript)
        elif event_id is not None:
            name = self._digests.of_id(within, event_id)
        else:
            for words in dict.fromkeys((text, self.restore(text, conversation=conversation))):
                self._memo.note(self._digests.answer(within, words), text, None)
            return
        self._memo.note(self._digests.note(name), text, self._digests.private(name))

    def digest(self, *parts: str) -> str:
        """A mark by which texts are known again, for what is kept outside of the memo.

        It is keyed: without the session's key it tells nothing, and another process has the same
        only with the same ``key=``, another subject never.

        Args:
            parts: Private or public; their lengths count.

        Returns:
            64 hexadecimal digits.
        """
        return self._digests.of("mark", self.sanitizer.subject or "", *parts).hex()

    def _conversation(self, name: str) -> bytes:
        return self._digests.of("conversation", self.sanitizer.subject or "", name)
