"""Objects with private text: it is never written anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Self


class StaysHere:
    """Objects of this class do not leave their process: they cannot be pickled or copied."""

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            f"expected {type(self).__name__} to stay in its process: it holds private text"
        )


class LeavesWithout:
    """Objects of this class, which do not change, leave what is private behind when pickled.

    A copy is the object itself.
    """

    _instead: ClassVar[Mapping[str, Any]]
    """Private fields, and what a pickle has in their place."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **self._instead}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
