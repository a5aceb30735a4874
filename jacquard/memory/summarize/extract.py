"""Summarizes without a model: keeps the most informative sentences of the conversation unchanged, one line for each
turn.

A line has the form `- [turn] the user's sentences → the reply's sentences [changes of the state]`. Sentences are kept
whole, with their quotations, because a part of a sentence may be false. If a turn has a written summary (by the pack's
author or by consolidation), this summary is used in place of the turn's sentences. If not all sentences fit, those of
least worth are left out (`jacquard.memory.summarize.worth`), whatever their age. This module must not import a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import field
from functools import lru_cache

from anyio import to_thread

from jacquard.core.errors import SummarizerError
from jacquard.core.protocols import ConversationTurn, SummaryRequest, SummaryText
from jacquard.memory.summarize.sentences import is_question, join_sentences, split_sentences
from jacquard.memory.summarize.worth import is_idle, is_outside, is_protocol, names_in, worth
from jacquard.pipeline.truncation import keep_last_sentences
from mnemosyne.values import dataclass

SENTENCE_CHARS = 240
"""Longer sentences are left out."""
TURN_CHARS = 400
"""Maximum number of characters that one turn contributes."""
MARK = "- "
"""Beginning of each line."""
ARROW = " → "
"""Separates the user's sentences from the reply's sentences in a line."""

_READ_CHARS = 20_000
_KEPT_CHARS = 2_000
_LINE = re.compile(r"- (?:\[(\d+)\] )?(.*?)(?: \[([^\[\]]*)\])?", re.DOTALL)
_HEADS = {
    "en": 'By turn, as written. {player} speaks before → ("I"), the narrator after it (to {player}, "you").',
    "zh": "逐轮摘录原文：→ 之前是{player}说的（“我”即{player}），→ 之后是叙述（“你”即{player}）。",
}
_BEGINNINGS = tuple(head.partition("{player}")[0] for head in _HEADS.values())
_NOTHING = {"en": "Nothing of note happened.", "zh": "没有发生要紧的事。"}
_GENERIC = frozenset({"", "user", "player", "assistant", "agent", "narrator", "model", "tool"})
_CHANGE_WORTH = 1.5
_STATUS_WORTH = 3.0
_QUESTION_SHARE = 0.3
_SAME_SHARE = 0.8
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """Sentences of a turn."""

    turn: str = ""
    """Number of the turn."""
    asked: tuple[str, ...] = ()
    """Sentences of the user."""
    told: tuple[str, ...] = ()
    """Sentences of the answer; the only ones of a written line."""
    changes: str = ""
    is_written: bool = False
    """True for a line that was written by an author, a model or consolidation."""
    is_foreign: bool = False
    """True for a line that came with a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """Sentence with its place: the line, and whether it belongs to the answer.

    `needs_asked`: it names nobody, so that it cannot be understood without the question.
    """

    line: int
    place: int
    is_told: bool
    text: str
    worth: float
    needs_asked: bool = False


@dataclass(slots=True)
class _ChosenSentences:
    """Places of chosen sentences of one line."""

    asked: set[int] = field(default_factory=set)
    told: set[int] = field(default_factory=set)


class ExtractSummarizer:
    """Summarizer that keeps the most informative sentences, in the order of the conversation."""

    name = "extract"

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the summary that `extract_summary` makes of `request`.

        Raises SummarizerError if the conversation has no words.
        """
        return await to_thread.run_sync(extract_summary, request, self._count)


def extract_summary(request: SummaryRequest, count: Callable[[str], int]) -> SummaryText:
    """Return a summary of at most `request.limit_tokens`: the lines of the previous summary and a line for each new
    turn, reduced to the best sentences. `count` returns the tokens of a text.

    Raises SummarizerError if the conversation has no words.
    """
    spoken = [turn for turn in request.turns if turn.gist.strip() or any(text.strip() for _, text in turn.lines)]
    before = read_lines(request.previous)
    if not request.previous.strip() and not spoken:
        raise SummarizerError("There is nothing to sum up: the conversation has no words.")
    lines = [*before, *(line_of_turn(turn, request) for turn in spoken)]
    language = "zh" if request.locale.lower().startswith("zh") else "en"
    head = _HEADS[language].format(player=request.player) if request.player else ""
    said = "\n".join(text for line in lines for text in (*line.asked, *line.told))
    names = [name for name in request.names if len(name) > 1 and name in said]
    kept, dropped = _choose(lines, names, request.limit_tokens - count(head), count)
    if not kept and not spoken:
        text, left_out = keep_last_sentences(request.previous, request.limit_tokens, count)
        return SummaryText(content=text, dropped_lines=left_out)
    kept = kept or [f"{MARK}[{spoken[-1].depth}] {_NOTHING[language]}"]
    has_speakers = any(ARROW.rstrip() in line for line in kept)
    return SummaryText(content="\n".join((head, *kept) if head and has_speakers else kept), dropped_lines=dropped)


def _choose(
    lines: Sequence[_Line], names: Sequence[str], limit_tokens: int, count: Callable[[str], int]
) -> tuple[list[str], int]:
    """Return (lines, dropped): lines of the most valuable sentences that fit, and the number of sentences that did not
    fit.
    """
    chosen: dict[int, _ChosenSentences] = {}
    room, dropped = limit_tokens, 0
    said: list[frozenset[str]] = []
    for piece in sorted(_pieces(lines, names), key=lambda piece: (-piece.worth, -piece.line, piece.place)):
        before = chosen.get(piece.line, _ChosenSentences())
        after = _add(before, piece, lines[piece.line])
        cost = count(_show(lines[piece.line], after)) + 1
        cost -= count(_show(lines[piece.line], before)) + 1 if piece.line in chosen else 0
        if cost > room:
            dropped += 1
            continue
        features = _features(piece.text)
        if _says_nothing_new(features, said):
            continue
        said.append(features)
        chosen[piece.line] = after
        room -= cost
    shown = [_show(lines[place], chosen[place]) for place in sorted(chosen)]
    while shown and count("\n".join(shown)) > limit_tokens:
        shown, dropped = shown[1:], dropped + 1
    return shown, dropped


def read_lines(summary: str) -> list[_Line]:
    """Return the lines of a stored summary. Lines that this module did not write are returned unchanged as foreign
    lines.
    """
    read = [(read_line if len(text) <= _KEPT_CHARS else read_line.__wrapped__)(text) for text in summary.splitlines()]
    return [line for line in read if line is not None]


@lru_cache(maxsize=1 << 12)
def read_line(line: str) -> _Line | None:
    """Return the parsed line of a stored summary. Return None if the line has no sentences of the conversation.

    Results are cached, because a rolling summary reads the same lines again each time. An erasure empties the cache.
    """
    text = line.strip()
    found = _LINE.fullmatch(text)
    if not text or text.startswith(_BEGINNINGS) or (found is not None and found.group(2).strip() in _NOTHING.values()):
        return None
    if found is None:
        return _Line(told=(text,), is_foreign=True, is_written=True)
    asked, arrow, told = f" {found.group(2)} ".partition(ARROW)
    return _Line(
        turn=found.group(1) or "",
        asked=() if not arrow or is_outside(asked) else _sentences(asked),
        told=_sentences(told if arrow else asked),
        changes=found.group(3) or "",
        is_written=not arrow,
    )


def line_of_turn(turn: ConversationTurn, request: SummaryRequest) -> _Line:
    """Return the line of a turn with all sentences that a summary may contain."""
    number, changes = str(turn.depth), "; ".join(turn.changes).replace("[", "(").replace("]", ")")
    if turn.gist.strip():
        return _Line(turn=number, told=_sentences(turn.gist), changes=changes, is_written=True)
    spoken = [(speaker, text[:_READ_CHARS]) for speaker, text in turn.lines if text.strip()]
    asked, told = (spoken[:1], spoken[1:]) if len(spoken) > 1 else ([], spoken)
    if any(is_outside(text) for _, text in asked):
        # The answer does not belong to the story either, unless it changed something.
        asked, told = [], told if changes else []
    known = {request.player, request.narrator, *_GENERIC}
    return _Line(
        turn=number,
        asked=tuple(each for speaker, text in asked for each in _named(speaker, _sentences(text), known)),
        told=tuple(each for speaker, text in told for each in _named(speaker, _sentences(text), known)),
        changes=changes,
    )


def _sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text that are short enough and belong to the story."""
    found = (join_sentences((each,)) for each in split_sentences(text))
    return tuple(each for each in found if len(each) <= SENTENCE_CHARS and not is_protocol(each) and not is_idle(each))


def _named(speaker: str, sentences: tuple[str, ...], known: Container[str]) -> tuple[str, ...]:
    """Return sentences with their speaker before the first, unless the head of the summary names the speaker."""
    return sentences if not sentences or speaker in known else (f"{speaker}: {sentences[0]}", *sentences[1:])


def _pieces(lines: Sequence[_Line], names: Sequence[str]) -> Iterable[_Piece]:
    for number, line in enumerate(lines):
        extra = bool(line.changes) * _CHANGE_WORTH + ("status" in line.changes) * _STATUS_WORTH
        pieces = [
            _Piece(
                line=number,
                place=place,
                is_told=is_told,
                text=text,
                worth=(worth(text, names) + extra) * (_QUESTION_SHARE if is_question(text) else 1.0),
                needs_asked=is_told and not names_in(text, names),
            )
            for is_told, sentences in ((False, line.asked), (True, line.told))
            for place, text in enumerate(sentences)
            # A user's question is only shown with its answer.
            if is_told or not is_question(text)
        ]
        room = TURN_CHARS
        for piece in sorted(pieces, key=lambda piece: -piece.worth):
            room -= len(piece.text)
            if room >= 0:
                yield piece


def _add(chosen: _ChosenSentences, piece: _Piece, line: _Line) -> _ChosenSentences:
    """Return the chosen sentences of a line with one more, and the user's words if it needs them."""
    if not piece.is_told:
        return _ChosenSentences(asked=chosen.asked | {piece.place}, told=chosen.told)
    asked = {0} if piece.needs_asked and line.asked and not chosen.asked and not line.is_written else set()
    return _ChosenSentences(asked=chosen.asked | asked, told=chosen.told | {piece.place})


def _show(line: _Line, chosen: _ChosenSentences) -> str:
    asked, told = (
        join_sentences([text for place, text in enumerate(sentences) if place in places])
        for sentences, places in ((line.asked, chosen.asked), (line.told, chosen.told))
    )
    if line.is_foreign:
        return told
    number, changes = f"[{line.turn}] " if line.turn else "", f" [{line.changes}]" if line.changes else ""
    said = told if line.is_written else f"{asked}{ARROW}{told}".strip()
    return f"{MARK}{number}{said}{changes}"


def _features(sentence: str) -> frozenset[str]:
    """Return the words of a sentence, and the character pairs of Chinese."""
    words = _WORD.findall(sentence.casefold())
    pairs = (word[place : place + 2] for word in words if not word.isascii() for place in range(max(1, len(word) - 1)))
    return frozenset((*(word for word in words if word.isascii()), *pairs))


def _says_nothing_new(features: frozenset[str], before: Iterable[frozenset[str]]) -> bool:
    return any(len(features & each) >= _SAME_SHARE * len(features) for each in before)
