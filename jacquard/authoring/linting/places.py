"""Finds the column of an expression in its line: the engine's tree has lines, its tokens have columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.templating.syntax import Syntax, Token


class Places:
    """Finds the words of an expression in its line; a repeated search for the same words finds their next place."""

    def __init__(self, syntax: Syntax) -> None:
        self._lines: dict[int, list[Token]] = {}
        self._asked: dict[tuple[int, tuple[str, ...]], int] = {}
        for token in syntax.tokens:
            if token.kind not in ("whitespace", "data", "comment"):
                self._lines.setdefault(token.line, []).append(token)

    def column(self, line: int, words: Sequence[str]) -> int | None:
        """Return the 1-based column at which these words begin in a line, or None if the line does not have them."""
        if not words:
            return None
        key = (line, tuple(words))
        starts = self._find_starts(self._lines.get(line, []), words)
        if not starts:
            return self.column(line, words[-1:]) if len(words) > 1 else None
        place = self._asked.get(key, 0)
        self._asked[key] = place + 1
        return starts[min(place, len(starts) - 1)]

    def _find_starts(self, tokens: Sequence[Token], words: Sequence[str]) -> list[int]:
        found = []
        for at in range(len(tokens) - len(words) + 1):
            before = tokens[at - 1].value if at else ""
            named = words[0].isidentifier() and before in (".", "|")
            if not named and [token.value for token in tokens[at : at + len(words)]] == list(words):
                found.append(tokens[at].column)
        return found
