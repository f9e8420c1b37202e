"""InferDPT in the gateway: a local model fits the remote answer to the private message."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dp_middleware.conversation.messages import Message
from dp_middleware.frameworks.inferdpt import for_extractor
from dp_middleware.gateway.settings import Policy
from dp_middleware.models.chat import local_model
from dp_middleware.models.endpoints import open_model

_THREADS = 8  # requests to the local model at once
_INSTRUCTION = "Answer the message that is the Original Text."


class Extraction:
    """Asks the local model; its calls leave no trace, log or cache entry.

    Attributes:
        threads: Of its own, in which it waits for the model: a slow one keeps no release waiting.

    Raises:
        UntrustedHost: It is neither on loopback nor on a trusted host.
        ParameterError: No such model.
    """

    def __init__(self, policy: Policy) -> None:
        model = open_model(policy.extractor or "", private=True)
        self._model = local_model(model, policy.trusted_hosts)
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dp-extractor")

    def fitted(self, said: Message, transcript: Sequence[Message]) -> Message:
        """Returns what the client is shown; calls of tools, refusals and silence stay as they are.

        Args:
            said: The remote answer, with originals where there were pseudonyms.
            transcript: Private: its last message of the user, and what tools found for it, is read.

        Raises:
            ExtractorError: The local model failed.
        """
        if said.calls or not said.text.strip():
            return said
        asked = for_extractor(_turn(transcript), said.text, _INSTRUCTION)
        return Message(role="assistant", texts=(self._model(asked),))


def _turn(transcript: Sequence[Message]) -> str:
    last = max((k for k, m in enumerate(transcript) if m.role == "user"), default=0)
    asked = (message for message in transcript[last:] if message.role in ("user", "tool"))
    return "\n\n".join(text for message in asked for text in message.texts)
