"""Which tokens a sanitizer releases unchanged: public lists, never a look at the data."""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import lists as _lists
from dp_middleware.vocabulary import frequencies


@dataclass(frozen=True, kw_only=True)
class KeepPolicy:
    """Says which tokens are released unchanged: a public list that does not depend on the data.

    Under such a policy it is public at which positions a kept token stood, so the certificate
    speaks of tokens that are not kept (``Adjacency.within``).

    Attributes:
        kept: Words and signs, compared without case and surrounding blanks, token by token: a
            piece of a longer word is kept too if it is on the list.
        label: Names the lists in the certificate.
    """

    kept: frozenset[str] = field(default=frozenset(), repr=False)
    label: str = "nothing"

    def __post_init__(self) -> None:
        if isinstance(self.kept, str):
            raise ParameterError("expected a collection of words to keep, got one str")
        object.__setattr__(self, "kept", frozenset(word.strip().lower() for word in self.kept))

    @classmethod
    def nothing(cls) -> KeepPolicy:
        """Keeps nothing: every token is perturbed."""
        return cls()

    @classmethod
    def stop_words(cls) -> KeepPolicy:
        """Keeps English function words, scikit-learn's list."""
        return cls(kept=frequencies.stop_words(), label="stop words (scikit-learn)")

    @classmethod
    def nltk_stop_words(cls) -> KeepPolicy:
        """NLTK's English stop words, which papers keep; from an installed package.

        Raises:
            MissingExtra: Neither NLTK's data nor llama-index-core is installed.
        """
        return cls(kept=frequencies.nltk_stop_words(), label="stop words (NLTK)")

    @classmethod
    def punctuation(cls) -> KeepPolicy:
        """Keeps the ASCII punctuation signs."""
        return cls(kept=frozenset(string.punctuation), label="punctuation (ASCII)")

    @classmethod
    def words(cls, words: Iterable[str], *, label: str) -> KeepPolicy:
        """Keeps a list of your own. It must be public and not made from private text."""
        if isinstance(words, str):
            raise ParameterError("expected a collection of words to keep, got one str")
        return cls(kept=frozenset(words), label=label)

    def __or__(self, other: KeepPolicy) -> KeepPolicy:
        labels = [p.label for p in (self, other) if p.kept]
        return KeepPolicy(kept=self.kept | other.kept, label=" and ".join(labels) or "nothing")

    def kept_tokens(self, space: EmbeddingSpace) -> NDArray[np.bool_]:
        """Tells which tokens of the space are kept, bool (V,)."""
        return _lists.on_list(space, self.kept)
