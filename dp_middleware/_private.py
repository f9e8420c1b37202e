"""What holds private text must not be written anywhere, so it cannot be pickled or copied."""

from __future__ import annotations

from typing import NoReturn


class StaysHere:
    """Objects of this class do not leave their process."""

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            f"expected {type(self).__name__} to stay in its process: it holds private text"
        )
