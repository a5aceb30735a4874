"""The token estimator `sample` or `sample:CHARACTERS`: so many characters are a token."""

from __future__ import annotations


class CharacterEstimator:
    """A token estimator that counts characters."""

    def __init__(self, argument: str, *, model: str | None) -> None:
        self._chars = int(argument or 4)
        self.name = f"sample:{self._chars}"

    def estimate(self, text: str) -> int:
        """Return the tokens of `text` (0 for the empty text)."""
        return -(-len(text) // self._chars)
