"""Raw documents by what was released for them, so that a local model reads them as they are."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection
from threading import Lock

from dp_middleware import _forks, _validate
from dp_middleware.errors import ParameterError


def public_keys(metadata: Collection[str]) -> tuple[str, ...]:
    """Returns the keys of documents' metadata that are public and kept.

    Raises:
        ParameterError: One string, or not strings.
    """
    if isinstance(metadata, str) or not all(isinstance(key, str) for key in metadata):
        raise ParameterError("expected metadata=['source', ...], names of public keys")
    return tuple(metadata)


class Passages(_forks.StaysHere):
    """Puts raw documents back where a text has their released copies, for an extractor.

    Give the same one to what retrieves and to what extracts. It holds raw text, in memory only,
    is never pickled or copied, and shows none of it. Safe for threads.

    A subject gets back what was released in its own name. Those who share one, or have none, must
    all be allowed to read what they retrieve for each other.

    Args:
        capacity: Largest number of documents; behind it the oldest is dropped, and then the
            extractor reads the released copy.

    Raises:
        ParameterError: Not a positive whole number.
    """

    def __init__(self, *, capacity: int = 1000) -> None:
        _validate.at_least(1, capacity=capacity)
        self._capacity = capacity
        self._documents: OrderedDict[tuple[str | None, str, str], None] = OrderedDict()
        self.after_fork()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """A forked child begins with a lock that no thread holds."""
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Passages(capacity={self._capacity})"

    def keep(self, subject: str | None, released: str, raw: str) -> None:
        """Remember a document.

        Args:
            subject: In whose name it was released.
            released: Public. Documents with one and the same copy come back together.
            raw: Private.
        """
        document = (subject, released.strip(), raw)
        if not document[1]:
            return
        with self._lock:
            self._documents[document] = None
            self._documents.move_to_end(document)
            if len(self._documents) > self._capacity:
                self._documents.popitem(last=False)

    def restore(self, subject: str | None, text: str) -> str:
        """A text with the raw documents in the places of their released copies. Private.

        Args:
            subject: Who reads it.
            text: Public: a prompt, or the result of a tool.
        """
        raw: dict[str, str] = {}
        with self._lock:
            for owner, released, document in self._documents:
                if owner == subject and released in text:
                    raw[released] = (
                        f"{raw[released]}\n\n{document}" if released in raw else document
                    )
        if not raw:
            return text
        longest_first = "|".join(map(re.escape, sorted(raw, key=len, reverse=True)))
        return re.sub(rf"(?<!\w)(?:{longest_first})(?!\w)", lambda found: raw[found[0]], text)
