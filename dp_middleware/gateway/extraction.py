"""InferDPT in the gateway: a local model fits the remote answer to the private message."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dp_middleware.conversation.session import Item
from dp_middleware.frameworks.inferdpt import for_extractor
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.words import Said
from dp_middleware.models.endpoints import open_model
from dp_middleware.models.local import local_model

_THREADS = 8  # requests to the local model at once
_INSTRUCTION = "Answer the message that is the Original Text."


class Extraction:
    """Asks the local model; its calls leave no trace, log or cache entry.

    Args:
        policy: Names the model.

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

    def fitted(self, said: Said, transcript: Sequence[Item]) -> Said:
        """What the client is shown; calls of tools, refusals and silence stay as they are.

        Args:
            said: The remote answer, with originals where there were pseudonyms.
            transcript: Private: its last message of the user, and what tools found for it, is read.

        Raises:
            ExtractorError: The local model failed.
        """
        if said.calls or not said.text.strip():
            return said
        return Said(text=self._model(for_extractor(_turn(transcript), said.text, _INSTRUCTION)))


def _turn(transcript: Sequence[Item]) -> str:
    last = max((k for k, item in enumerate(transcript) if item[1] == "user"), default=0)
    texts = [text for _, role, text in transcript[last:] if role in ("user", "tool")]
    return "\n\n".join(texts)
