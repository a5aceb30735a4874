"""Summarizes without a model: one line for each turn, and fewer lines of older turns. Deterministic and pure.

The line of a turn is its summary in the narrative chain (written by the pack's author or by consolidation) where it has
one. Otherwise it is the input and the last statement of the answer that is not quoted speech, because most answers end
with their point. This module must not import a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from anyio import to_thread

from jacquard.core.errors import SummarizerError
from jacquard.core.protocols import ConversationTurn, SummaryRequest, SummaryText

ASKED_CHARS = 40
TOLD_CHARS = 120
GIST_CHARS = 240
LEAST_SIGNS = 6
MARK = "- "
ARROW = " → "
"""Stands between input and answer in an extracted line."""

_SENTENCE = re.compile(r"[^.!?。！？…\n]+[.!?。！？…]*[\"'”’」』）)]*")
_SPOKEN = re.compile(r"[“「『\"][^”」』\"]*[”」』\"]")
_CLOSING = '”」』"'


class ExtractSummarizer:
    """Keeps one line for each turn, new ones at the end.

    When the list is too long, every other line of its older half is dropped, extracted lines before written ones.
    """

    name = "extract"

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the list with the lines of the new turns. Raises SummarizerError when not even its newest line fits."""
        return await to_thread.run_sync(self._extract_summary, request)

    def _extract_summary(self, request: SummaryRequest) -> SummaryText:
        lines = [line for line in request.previous.splitlines() if line.strip()]
        lines += [f"{MARK}{gist}" for turn in request.turns if (gist := summarize_turn(turn))]
        if not lines:
            raise SummarizerError("There is nothing to sum up: the conversation holds no words.")
        return SummaryText(content="\n".join(thin_lines(lines, request.limit_tokens, self._count)))


def summarize_turn(turn: ConversationTurn) -> str:
    """Return one line that says what happened in a turn; empty for a turn without text."""
    if turn.gist.strip():
        return _clip(turn.gist, GIST_CHARS)
    spoken = [text for _, text in turn.lines if text.strip()]
    if len(spoken) < 2:
        return _clip(spoken[0], TOLD_CHARS) if spoken else ""
    return f"{_clip(spoken[0], ASKED_CHARS)}{ARROW}{_clip(_find_last_statement(spoken[-1]), TOLD_CHARS)}"


def thin_lines(lines: Sequence[str], limit_tokens: int, count: Callable[[str], int]) -> list[str]:
    """Return lines of at most `limit_tokens` in all, without repeats: the older half loses every other line until they
    fit.

    Raises SummarizerError when not even the newest line fits.
    """
    kept = list(dict.fromkeys(lines))
    while len(kept) > 1 and count("\n".join(kept)) > limit_tokens:
        half = max(1, len(kept) // 2)
        older = [place for place in range(half) if ARROW in kept[place]] or list(range(half))
        gone = set(older[::2])
        kept = [line for place, line in enumerate(kept) if place not in gone]
    if count("\n".join(kept)) > limit_tokens:
        raise SummarizerError(f"Not even the newest line fits into {limit_tokens} tokens.")
    return kept


def _find_last_statement(text: str) -> str:
    """Return the last sentence outside of quoted speech that is no question, else the last sentence."""
    # No speech ends after the last closing mark; without this bound each opening mark would be followed to the end.
    last = max(map(text.rfind, _CLOSING)) + 1
    bare = _SPOKEN.sub("", text[:last]) + text[last:]
    sentences = [found.group().strip() for found in _SENTENCE.finditer(bare)]
    sentences = [sentence for sentence in sentences if sum(sign.isalnum() for sign in sentence) >= LEAST_SIGNS]
    telling = [sentence for sentence in sentences if not sentence.endswith(("?", "？"))]
    return (telling or sentences or [text])[-1]


def _clip(text: str, limit_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1].rstrip() + "…"
