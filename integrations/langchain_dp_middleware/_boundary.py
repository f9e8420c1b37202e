"""Where private text becomes released text: one plain function call, in no run of LangChain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.runnables import RunnableConfig, ensure_config

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.messages import Message
from dp_middleware.errors import ParameterError, UnknownAnswer
from langchain_dp_middleware._messages import MessageRules, Reading, read_messages, read_text

_EXPECTED = "expected text, a string or chat prompt value, or a list of messages"
NOTE_OR_DECLARE = (
    "tell the session with note_answer(session, message), or declare all AI messages public with "
    'ai="pass"'
)
_only = itemgetter(0)
USAGE = "the head goes first: PrivateHead(...) | prompt | model"


@dataclass(frozen=True, kw_only=True)
class Input:
    """What is private in an input, in one transcript, and how its copy is made.

    Attributes:
        readings: Of the transcript.
        build: From the copies of these, in their order, to the copy of the input.
    """

    readings: list[Reading]
    build: Callable[[list[Any]], Any]

    @property
    def transcript(self) -> list[Message]:
        """For a session."""
        return [reading.message for reading in self.readings]

    def copy(self, sent: Sequence[Message]) -> Any:
        """What goes out."""
        return self.build([r.build(each) for r, each in zip(self.readings, sent, strict=True)])


def cross(
    session: dp.Session,
    values: Sequence[Any],
    read: Callable[[Any], Input],
    rules: MessageRules,
    conversation: str | None = None,
    *,
    tools: Tools = (),
    remedy: str = NOTE_OR_DECLARE,
) -> list[tuple[Any, Exchange]]:
    """Charges and draws for every private text of some inputs.

    Args:
        session: Releases.
        values: The inputs. Private.
        read: Reads one, as :func:`read_transcript` or :func:`read_input`.
        rules: For messages.
        conversation: Its public name, if it has one.
        tools: Which are called with originals.
        remedy: What to do about an AI message that the session does not know.

    Returns:
        The copy that goes out for each, and the exchange that restores its answer.

    Raises:
        ParameterError: Something in an input cannot be released; nothing was charged.
        EventRefused: An AI message that the session does not know; nothing was charged.
        DPMiddlewareError: The release failed. Has no cause and no context: these may quote.
    """

    def work() -> list[tuple[Any, Exchange]]:
        inputs = [read(value) for value in values]
        transcripts = [each.transcript for each in inputs]
        with remedied(remedy):
            exchanges = session.exchanges(
                transcripts, conversation=conversation, unknown=rules.passes, tools=tools
            )
        return [
            (each.copy(exchange.sent), exchange)
            for each, exchange in zip(inputs, exchanges, strict=True)
        ]

    return guarded(work)


@contextmanager
def remedied(remedy: str = NOTE_OR_DECLARE) -> Iterator[None]:
    """Says of an AI message that the session does not know what to do about it.

    Raises:
        UnknownAnswer: There is one.
    """
    try:
        yield
    except UnknownAnswer:
        raise UnknownAnswer(
            "expected AI messages that the session knows as remote answers, got another, "
            f"which may hold private text; {remedy}"
        ) from None


def read_transcript(value: object, rules: MessageRules) -> Input:
    """Reads what chat models take."""
    return Input(readings=read_messages(messages_in(value), rules), build=list)


def read_input(value: object, keys: tuple[str, ...] | None, rules: MessageRules) -> Input:
    """Reads what is private in an input, which is never changed; lists of messages go first.

    Args:
        value: Text, a prompt value, a list of messages, or a dict. Private.
        keys: Keys of a dict whose values are private, the others being public; None: every value
            is private and must be text.
        rules: For messages.

    Raises:
        ParameterError: Something in ``value`` cannot be released. Names its place, never itself.
    """
    if not isinstance(value, dict):
        if keys is None:
            return _read_value(value, rules, "the input")
        raise ParameterError(f"expected a dict with the keys {keys}, got {type(value).__name__}")
    for key in keys or ():
        if key not in value:
            raise ParameterError(f"expected a dict with the keys {keys}, key {key!r} is missing")
    for key, part in value.items() if keys is None else ():
        if not isinstance(part, str):
            raise ParameterError(
                f"expected text under key {key!r}, got {type(part).__name__}; name the private "
                "keys with keys=, which declares the others public"
            )
    private = [key for key in value if keys is None or key in keys]
    inputs = {key: _read_value(value[key], rules, f"key {key!r}") for key in private}
    order = sorted(inputs, key=lambda key: isinstance(value[key], str | StringPromptValue))

    def build(copies: list[Any]) -> dict[Any, Any]:
        rest = iter(copies)
        built = {
            key: inputs[key].build(list(islice(rest, len(inputs[key].readings)))) for key in order
        }
        return {**value, **built}

    return Input(readings=[r for key in order for r in inputs[key].readings], build=build)


def _read_value(value: object, rules: MessageRules, where: str) -> Input:
    """One transcript, or one text."""
    if isinstance(value, str):
        return Input(readings=[read_text(value, rules)], build=_only)
    if isinstance(value, StringPromptValue):
        text = read_text(value.text, rules)
        return Input(readings=[text], build=lambda copies: StringPromptValue(text=_only(copies)))
    if isinstance(value, ChatPromptValue):
        messages = read_messages(value.messages, rules, where)
        return Input(readings=messages, build=lambda copies: ChatPromptValue(messages=copies))
    if isinstance(value, list):
        return Input(readings=read_messages(value, rules, where), build=list)
    raise ParameterError(f"{where}: {_EXPECTED}, got {type(value).__name__}")


def messages_in(value: object) -> list[Any]:
    """The messages, or texts that stand for one, in what chat models take.

    Raises:
        ParameterError: They take no such thing.
    """
    if isinstance(value, ChatPromptValue):
        return list(value.messages)
    if isinstance(value, StringPromptValue):
        return [value.text]
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return list(value)
    raise ParameterError(f"{_EXPECTED}, got {type(value).__name__}")


def names_of(keys: Collection[str] | None) -> tuple[str, ...] | None:
    """The private keys of a dict.

    Raises:
        ParameterError: A single str, or none at all.
    """
    if keys is None:
        return None
    if isinstance(keys, str) or not keys:
        raise ParameterError(f"expected keys=['question', ...], got keys={keys!r}")
    return tuple(keys)


def refuse_outer_run(config: RunnableConfig | None, name: str, remedy: str = USAGE) -> None:
    """Raise inside a sequence, graph node, tool or ``@traceable``: these recorded the input.

    Raises:
        ParameterError: There is an outer run, in ``config`` or around the call.
    """
    from langsmith.run_helpers import get_current_run_tree

    managers = [ensure_config(place).get("callbacks") for place in (config, None)]
    inside = any(getattr(manager, "parent_run_id", None) is not None for manager in managers)
    if inside or get_current_run_tree() is not None:
        raise ParameterError(f"{name} runs inside another run, which has its input; {remedy}")
