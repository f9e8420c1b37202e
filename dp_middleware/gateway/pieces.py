"""Answers in pieces: what was said until now, and what the client is shown of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dp_middleware.gateway.answers import reading
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.streaming import sse
from dp_middleware.gateway.turns import Turn
from dp_middleware.gateway.words import Said, ToolCall


@dataclass
class Growing:
    """A text in pieces: what was said, and what was shown of it until now."""

    restorer: Any = None
    said: str = ""
    shown: str = ""

    def feed(self, piece: str) -> str:
        """What is shown of a further piece."""
        self.said += piece
        out = piece if self.restorer is None else str(self.restorer.feed(piece))
        self.shown += out
        return out

    def close(self) -> str:
        """What was held back."""
        rest = "" if self.restorer is None else str(self.restorer.close())
        self.shown, self.restorer = self.shown + rest, None
        return rest


@dataclass
class _Choice:
    """One answer in pieces."""

    make: Callable[[bool], Growing]
    texts: dict[str, Growing] = field(default_factory=dict)
    calls: dict[int, tuple[str, str, Growing]] = field(default_factory=dict)

    def feed(self, delta: dict[str, Any]) -> dict[str, Any]:
        changed = dict(delta)
        for name in ("content", "refusal"):
            if isinstance(piece := delta.get(name), str):
                changed[name] = self.texts.setdefault(name, self.make(False)).feed(piece)
        if calls := delta.get("tool_calls"):
            changed["tool_calls"] = [self._call(call) for call in calls]
        return changed

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        function, place = call.get("function") or {}, int(call.get("index", 0))
        if place not in self.calls:
            self.calls[place] = (str(call["id"]), str(function["name"]), self.make(True))
        piece = function.get("arguments")
        if not isinstance(piece, str):
            return call
        shown = self.calls[place][2].feed(piece)
        return {**call, "function": {**function, "arguments": shown}}

    def close(self) -> dict[str, Any] | None:
        """A delta with what was held back."""
        delta: dict[str, Any] = {n: rest for n, t in self.texts.items() if (rest := t.close())}
        calls = sorted(self.calls.items())
        rests = {place: rest for place, (_, _, t) in calls if (rest := t.close())}
        if rests:
            delta["tool_calls"] = [
                {"index": place, "function": {"arguments": rest}} for place, rest in rests.items()
            ]
        return delta or None

    def words(self, which: str) -> str:
        """``"said"`` or ``"shown"``; calls in the order of their places, however they began."""
        calls = [
            ToolCall(id=name, name=tool, arguments=getattr(arguments, which))
            for _, (name, tool, arguments) in sorted(self.calls.items())
        ]
        texts = {name: getattr(text, which) for name, text in self.texts.items()}
        return Said(
            text=texts.get("content", ""), refusal=texts.get("refusal", ""), calls=calls
        ).words()


class ChatStream:
    """The events of a streamed answer as the client is shown them.

    Args:
        turn: What was asked.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._choices: dict[int, _Choice] = {}
        self._open: set[int] = set()

    def feed(self, event: dict[str, Any]) -> list[str]:
        """What is sent for one of the upstream's events.

        Raises:
            Failure: It is none of this protocol.
        """
        with reading():
            return self._fed(event)

    def _fed(self, event: dict[str, Any]) -> list[str]:
        before, choices = [], []
        for choice in event.get("choices") or ():
            place = int(choice.get("index", 0))
            if place not in self._choices:
                self._choices[place] = _Choice(self._growing)
                self._open.add(place)
            delta = self._choices[place].feed(choice.get("delta") or {})
            if choice.get("finish_reason"):
                self._open.discard(place)
                if (rest := self._choices[place].close()) is not None:
                    held = {"index": place, "delta": {**delta}, "finish_reason": None}
                    before += [held, {**held, "delta": rest}]
                    delta = {}
            choices.append({**choice, "delta": delta})
        head = {name: value for name, value in event.items() if name != "usage"}
        events = [{**head, "choices": [each]} for each in before]
        return [sse(each) for each in (*events, {**event, "choices": choices})]

    def complete(self) -> bool:
        """Whether all answers that began have ended."""
        return bool(self._choices) and not self._open

    def broken(self, failure: Failure) -> str:
        """As OpenAI's clients expect it."""
        return sse(failure.body())

    def note(self, *, left: bool = False) -> None:
        """Tell the session what was said."""
        for choice in self._choices.values():
            self._turn.note([(choice.words("said"), choice.words("shown"))], left=left)

    def _growing(self, json: bool) -> Growing:
        return Growing(self._turn.restorer(json=json))


class TextStream:
    """The events of streamed completions of prompts.

    Args:
        turn: What was asked.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._texts: dict[int, Growing] = {}
        self._open: set[int] = set()

    def feed(self, event: dict[str, Any]) -> list[str]:
        """What is sent for one of the upstream's events.

        Raises:
            Failure: It is none of this protocol.
        """
        with reading():
            choices = [self._choice(choice) for choice in event.get("choices") or ()]
        return [sse({**event, "choices": choices})]

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        place = int(choice.get("index", 0))
        if place not in self._texts:
            self._texts[place] = Growing(self._turn.restorer(json=False))
            self._open.add(place)
        text = self._texts[place].feed(choice.get("text") or "")
        if choice.get("finish_reason"):
            self._open.discard(place)
            text += self._texts[place].close()
        return {**choice, "text": text}

    def complete(self) -> bool:
        """Whether all that began have ended."""
        return bool(self._texts) and not self._open

    def broken(self, failure: Failure) -> str:
        """As OpenAI's clients expect it."""
        return sse(failure.body())

    def note(self, *, left: bool = False) -> None:
        """Nothing: a completion is no message."""
