"""Summarizes without a model: one line for each turn, and fewer lines of older turns. Deterministic and pure.

The line of a turn is its summary in the narrative chain (written by the pack's author or by consolidation) where it has
one. Otherwise it is made of whole sentences of the input and of the answer, quotations and all: a sentence without the words
that it quotes may say what is not true. What does not fit is left out whole. This module must not import a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyio import to_thread

from jacquard.core.errors import SummarizerError
from jacquard.core.protocols import ConversationTurn, SummaryRequest, SummaryText
from jacquard.memory.summarize.sentences import holds_facts, is_question, is_speech, join_sentences, split_sentences

ASKED_CHARS = 100
TOLD_CHARS = 160
GIST_CHARS = 240
MARK = "- "
ARROW = " → "
"""Stands between input and answer in an extracted line."""

_READ_CHARS = 20_000


class ExtractSummarizer:
    """Keeps one line for each turn, new ones at the end.

    When the list is too long, every other line of its older half is dropped, extracted lines before written ones.
    """

    name = "extract"

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the list with the lines of the new turns. Raises SummarizerError for a conversation without words."""
        return await to_thread.run_sync(self._extract_summary, request)

    def _extract_summary(self, request: SummaryRequest) -> SummaryText:
        lines = [line for line in request.previous.splitlines() if line.strip()]
        spoken = [turn for turn in request.turns if turn.gist.strip() or any(text.strip() for _, text in turn.lines)]
        made = [f"{MARK}{gist}" for turn in spoken if (gist := summarize_turn(turn))]
        lines = list(dict.fromkeys((*lines, *made)))
        if not lines and not spoken:
            raise SummarizerError("There is nothing to sum up: the conversation holds no words.")
        kept = thin_lines(lines, request.limit_tokens, self._count)
        dropped = len(lines) - len(kept) + len(spoken) - len(made)
        return SummaryText(content="\n".join(kept), dropped_lines=dropped)


def summarize_turn(turn: ConversationTurn) -> str:
    """Return one line of whole sentences that says what happened in a turn; empty where it has no text, or none that fits."""
    if turn.gist.strip():
        return join_sentences(_first(split_sentences(turn.gist), GIST_CHARS))
    spoken = [text[:_READ_CHARS] for _, text in turn.lines if text.strip()]
    if len(spoken) < 2:
        return join_sentences(_best(split_sentences(spoken[0]), TOLD_CHARS)) if spoken else ""
    asked = join_sentences(_first(split_sentences(spoken[0]), ASKED_CHARS))
    told = join_sentences(_best(split_sentences(spoken[-1]), TOLD_CHARS))
    return ARROW.join(part for part in (asked, told) if part)


def thin_lines(lines: Sequence[str], limit_tokens: int, count: Callable[[str], int]) -> list[str]:
    """Return lines of at most `limit_tokens` in all, without repeats: the older half loses every other line until they
    fit. A line that is too long by itself is left out.
    """
    kept = [line for line in dict.fromkeys(lines) if count(line) <= limit_tokens]
    while len(kept) > 1 and count("\n".join(kept)) > limit_tokens:
        half = max(1, len(kept) // 2)
        older = [place for place in range(half) if ARROW in kept[place]] or list(range(half))
        gone = set(older[::2])
        kept = [line for place, line in enumerate(kept) if place not in gone]
    return kept


def _first(sentences: Sequence[str], limit_chars: int) -> tuple[str, ...]:
    """Return the first sentences that fit together, passing over those that do not fit by themselves."""
    kept: list[str] = []
    for sentence in sentences:
        if len(sentence) > limit_chars:
            continue
        if sum(map(len, kept)) + len(sentence) > limit_chars:
            break
        kept.append(sentence)
    return tuple(kept)


def _best(sentences: Sequence[str], limit_chars: int) -> tuple[str, ...]:
    """Return the sentences of an answer that fit together, in order.

    First its point (most answers end with it): the last sentence that is neither speech nor a question, else the last. Then,
    from the end, those with names, numbers or quoted words, then the others.
    """
    fitting = [place for place, sentence in enumerate(sentences) if len(sentence) <= limit_chars]
    telling = [place for place in fitting if not is_speech(sentences[place]) and not is_question(sentences[place])]
    facts = [place for place in fitting if holds_facts(sentences[place])]
    kept: set[int] = set()
    room = limit_chars
    for place in dict.fromkeys((*(telling or fitting)[-1:], *reversed(facts), *reversed(fitting))):
        if len(sentences[place]) <= room:
            kept.add(place)
            room -= len(sentences[place])
    return tuple(sentences[place] for place in sorted(kept))
