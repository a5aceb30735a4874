"""Builds the prompts with which a small model makes memory from turns, and reads the model's answers.

Turns are named by their number on the branch, so that an answer cannot name a turn of another session. All text sent is
escaped, except the rules. An answer is not trusted: only known turn numbers, plain words, and texts up to a maximum
length are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from filament import escape_attribute, escape_text, unescape
from filament.markup import open_tag
from jacquard.adapters.prompts.templates import render_prompt
from jacquard.core.errors import SummarizerError
from jacquard.core.model_answers import strip_thoughts
from jacquard.core.protocols import ConversationTurn, LlmRequest
from jacquard.memory.threads import KINDS
from jacquard.pipeline.truncation import keep_last_sentences
from mnemosyne.schema.memory import ATTRIBUTE, SUBJECT, VALUE
from mnemosyne.values import dataclass

SUMMARY_CHARS = 400
EVENT_CHARS = 240
EVENTS_A_TURN = 3
THREADS_A_TURN = 2
OPEN_SHOWN = 20
"""Maximum number of open threads shown to the model; the newest are shown."""
FACTS_SHOWN = 20
"""Maximum number of valid facts shown to the model; the newest are shown."""
NAMES = 8
NAME_CHARS = 60
TITLE_CHARS = 80
NARRATIVE_CHARS = 1600
LINE_CHARS = 2000
ANSWER_CHARS = 60_000
_STARTS = 400
_TYPE = re.compile(r"[a-z][a-z_]{0,31}")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnEvent:
    """Fact that a turn changed permanently, such as a death or a change of owner."""

    type: str
    text: str
    participants: tuple[str, ...] = ()
    location: str = ""
    subject: str = ""
    """Person or thing of which the event sets a lasting value, such as the holder of a key ('': of none)."""
    attribute: str = ""
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnThread:
    """Promise, debt or question that a turn leaves open."""

    kind: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnMemory:
    """Memory of one turn, read from the model's answer."""

    depth: int
    """Number of the turn on its branch."""
    summary: str
    events: tuple[TurnEvent, ...] = ()
    is_chapter_end: bool = False
    threads: tuple[TurnThread, ...] = ()
    kept: tuple[int, ...] = ()
    """Numbers of the open threads that this turn ends. The prompt of the call numbered the threads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrative:
    """Narrative over many turns."""

    title: str
    text: str


def turns_request(
    turns: Sequence[ConversationTurn],
    locale: str,
    timeout_seconds: float,
    threads: Sequence[str] = (),
    facts: Sequence[tuple[str, str, str]] = (),
) -> LlmRequest:
    """Return the model call that asks for the memory of `turns`.

    `threads` are the texts of the open threads; the call numbers them from 1. `facts` are the valid facts, each as
    (subject, attribute, value).
    """
    lines = "\n".join(
        f'<thread n="{number}">{escape_text(text)}</thread>' for number, text in enumerate(threads, start=1)
    )
    held = "\n".join(
        f"{open_tag('fact', (('subject', subject), ('attribute', attribute)))}{escape_text(value)}</fact>"
        for subject, attribute, value in facts
    )
    return LlmRequest(
        messages=render_prompt(
            "consolidation_turns",
            locale,
            events=EVENTS_A_TURN,
            threads=THREADS_A_TURN,
            open=f"<open>\n{lines}\n</open>\n" if lines else "",
            facts=f"<facts>\n{held}\n</facts>\n" if held else "",
            turns=_render_messages(turns),
        ),
        max_tokens=300 * len(turns) + 100,
        timeout_seconds=timeout_seconds,
        schema=_TURNS_SCHEMA,
    )


def macro_request(summaries: Sequence[tuple[int, str]], before: str, locale: str, timeout_seconds: float) -> LlmRequest:
    """Return the model call that asks for one narrative over many turns.

    `summaries` contains (number of the turn, summary) for each turn. `before` is the text of the previous narrative
    ('': there is none).
    """
    lines = "\n".join(f'<turn n="{depth}">{escape_text(text)}</turn>' for depth, text in summaries)
    earlier = f"<before>\n{escape_text(before)}\n</before>\n" if before else ""
    return LlmRequest(
        messages=render_prompt("consolidation_narrative", locale, before=earlier, turns=lines),
        max_tokens=800,
        timeout_seconds=timeout_seconds,
        schema=_MACRO_SCHEMA,
    )


def read_turns(answer: str, depths: Sequence[int]) -> tuple[TurnMemory, ...]:
    """Return the memories in `answer`, in the order of turns. Turns whose number is not in `depths`, and repeated
    turns, are skipped.

    If the answer was cut off, the complete turns in it are returned. Raises SummarizerError if the answer contains no
    memory.
    """
    found: dict[int, TurnMemory] = {}
    for item in _items(answer):
        depth, summary = item.get("n"), _line(item.get("summary"), SUMMARY_CHARS)
        if isinstance(depth, int) and depth in depths and depth not in found and summary:
            found[depth] = TurnMemory(
                depth=depth,
                summary=summary,
                events=_events(item.get("events")),
                is_chapter_end=item.get("chapter_end") is True,
                threads=_threads(item.get("threads")),
                kept=_numbers(item.get("kept")),
            )
    if not found:
        raise SummarizerError(f"The answer contains no memory of any of the {len(depths)} turns: {answer[:120]!r}.")
    return tuple(found[depth] for depth in sorted(found))


def read_narrative(answer: str) -> Narrative:
    """Return the narrative in an answer. Raises SummarizerError if the answer contains none."""
    for item in _find_objects(answer):
        text = item.get("text")
        if isinstance(text, str) and text.strip():
            kept, _ = keep_last_sentences(unescape(text), NARRATIVE_CHARS, len)
            return Narrative(title=_line(item.get("title"), TITLE_CHARS), text=kept)
    raise SummarizerError(f"The answer contains no narrative: {answer[:120]!r}.")


def _render_messages(turns: Sequence[ConversationTurn]) -> str:
    return "\n".join(
        "\n".join(
            [
                f'<turn n="{escape_attribute(str(turn.depth))}">',
                *(f"{escape_text(speaker)}: {escape_text(_clip(text, LINE_CHARS))}" for speaker, text in turn.lines),
                "</turn>",
            ]
        )
        for turn in turns
    )


def _items(answer: str) -> list[Mapping[str, Any]]:
    """Return the objects of an answer that describe a turn: those of its list, else each that can be read by itself."""
    objects = _find_objects(answer)
    for each in objects:
        if isinstance(turns := each.get("turns"), list):
            return [item for item in turns if isinstance(item, dict)]
    return [each for each in objects if "n" in each]


def _find_objects(answer: str) -> list[dict[str, Any]]:
    """Return the JSON objects in a text, outermost first; objects inside a readable one are skipped."""
    text = strip_thoughts(answer[:ANSWER_CHARS])
    found: list[dict[str, Any]] = []
    at, tries = text.find("{"), 0
    while at >= 0 and tries < _STARTS:
        tries += 1
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(value, dict):
                found.append(value)
        at = text.find("{", end)
    return found


def _events(value: Any) -> tuple[TurnEvent, ...]:
    events = []
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and (text := _line(item.get("summary") or item.get("text"), EVENT_CHARS)):
            kind = item.get("type")
            is_plain = isinstance(kind, str) and _TYPE.fullmatch(kind) is not None
            names = item.get("participants")
            events.append(
                TurnEvent(
                    type=kind if is_plain and isinstance(kind, str) else "event",
                    text=text,
                    participants=_names(names) if isinstance(names, list) else (),
                    location=_line(item.get("location"), NAME_CHARS),
                    **_fact(item),
                )
            )
    return tuple(events[:EVENTS_A_TURN])


def _fact(item: Mapping[str, Any]) -> dict[str, str]:
    """Return subject, attribute and value of an event; empty unless it has all three."""
    told = {name: _line(item.get(name), NAME_CHARS) for name in (SUBJECT, ATTRIBUTE, VALUE)}
    return told if all(told.values()) else {}


def _threads(value: Any) -> tuple[TurnThread, ...]:
    told = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    found = ((item.get("kind"), _line(item.get("text"), EVENT_CHARS)) for item in told)
    return tuple(TurnThread(kind=kind, text=text) for kind, text in found if kind in KINDS and text)[:THREADS_A_TURN]


def _numbers(value: Any) -> tuple[int, ...]:
    found = value if isinstance(value, list) else []
    return tuple(each for each in found if isinstance(each, int) and 0 < each <= OPEN_SHOWN)


def _names(value: Sequence[Any]) -> tuple[str, ...]:
    names = [_line(each, NAME_CHARS) for each in value]
    return tuple(dict.fromkeys(name for name in names if name))[:NAMES]


def _line(value: Any, limit_chars: int) -> str:
    return _clip(" ".join(unescape(value).split()), limit_chars) if isinstance(value, str) else ""


def _clip(text: str, limit_chars: int) -> str:
    return text if len(text) <= limit_chars else text[: limit_chars - 1] + "…"


_EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "maxLength": 32},
        "summary": {"type": "string", "maxLength": EVENT_CHARS},
        "participants": {"type": "array", "items": {"type": "string"}, "maxItems": NAMES},
        "location": {"type": "string"},
        SUBJECT: {"type": "string"},
        ATTRIBUTE: {"type": "string"},
        VALUE: {"type": "string"},
    },
    "required": ["type", "summary", "participants", "location", SUBJECT, ATTRIBUTE, VALUE],
    "additionalProperties": False,
}
_THREAD_SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": list(KINDS)},
        "text": {"type": "string", "maxLength": EVENT_CHARS},
    },
    "required": ["kind", "text"],
    "additionalProperties": False,
}
_TURN_SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "summary": {"type": "string", "maxLength": SUMMARY_CHARS},
        "events": {"type": "array", "items": _EVENT_SCHEMA, "maxItems": EVENTS_A_TURN},
        "threads": {"type": "array", "items": _THREAD_SCHEMA, "maxItems": THREADS_A_TURN},
        "kept": {"type": "array", "items": {"type": "integer"}},
        "chapter_end": {"type": "boolean"},
    },
    "required": ["n", "summary", "events", "threads", "kept", "chapter_end"],
    "additionalProperties": False,
}
_TURNS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"turns": {"type": "array", "items": _TURN_SCHEMA}},
    "required": ["turns"],
    "additionalProperties": False,
}
_MACRO_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": TITLE_CHARS},
        "text": {"type": "string", "maxLength": NARRATIVE_CHARS},
    },
    "required": ["title", "text"],
    "additionalProperties": False,
}
