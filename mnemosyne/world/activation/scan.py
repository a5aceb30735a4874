"""Finds the entries of world info that a chat activates, in the same passes as SillyTavern. This module does no I/O.

World info is a book of entries; an entry's text is put into the prompt when one of its keys is found. The first pass searches
the newest messages. A recursion pass also searches the texts of activated entries. If fewer than `min_activations` entries are
active, a further pass searches more messages. Entries with `delay_until_recursion` can be activated only in recursion passes,
one level after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum, auto

from mnemosyne.values import dataclass
from mnemosyne.world.activation.entries import ACTIVATE, DONT_ACTIVATE, name_of
from mnemosyne.world.activation.groups import filter_groups
from mnemosyne.world.activation.keys import find_key
from mnemosyne.world.activation.order import LastingEffects, sort_entries
from mnemosyne.world.activation.values import (
    ActivatedEntry,
    Activation,
    CountTokens,
    RejectedEntry,
    Roll,
    ScanContext,
    SelectiveLogic,
    WorldInfoEntry,
    WorldInfoSettings,
)

MAX_DEPTH = 1000
MAX_PASSES = 10_000
_MARK = "\x01"
"""First character of each part of the scanned text. A regular expression with `^` therefore does not match at the start
of a message.
"""


class _Pass(Enum):
    FIRST = auto()
    RECURSION = auto()
    MORE_MESSAGES = auto()


def scan(
    entries: Sequence[WorldInfoEntry],
    context: ScanContext,
    settings: WorldInfoSettings,
    *,
    count_tokens: CountTokens,
    roll: Roll,
) -> Activation:
    """Return which of `entries` are activated by the chat in `context`, and which are rejected.

    `entries` are in the order of their books. `count_tokens` returns the number of tokens of a text, and `roll` gives the random
    numbers. The same arguments give the same result.
    """
    return _Scan(entries, context, settings, count_tokens, roll).run()


@dataclass(frozen=True, kw_only=True, slots=True)
class _FoundKey:
    why: str
    key: str = ""
    woken_by: str = ""


@dataclass(kw_only=True, slots=True)
class _Buffer:
    """The scanned texts: messages, newest first, and the texts of entries that activate others, one text per pass.

    `woken` has the texts of these entries again, each with the name of its entry.
    """

    messages: list[str]
    depth: int
    woken: list[tuple[str, str]] = field(default_factory=list)
    pass_texts: list[str] = field(default_factory=list)
    _texts: dict[tuple[object, ...], tuple[str, str]] = field(default_factory=dict)

    def text(self, depth: int | None, extra: tuple[str, ...], *, with_woken: bool) -> tuple[str, str]:
        """Return (text, text in lower case): the text that is scanned for an entry."""
        depth = self.depth if depth is None else min(depth, MAX_DEPTH)
        if depth <= 0:
            return "", ""
        key = (depth, extra, with_woken, len(self.pass_texts))
        if key not in self._texts:
            parts = [*self.messages[:depth], *extra, *(self.pass_texts if with_woken else [])]
            text = _MARK + f"\n{_MARK}".join(parts)
            self._texts[key] = (text, text.lower())
        return self._texts[key]


class _Scan:
    def __init__(
        self,
        entries: Sequence[WorldInfoEntry],
        context: ScanContext,
        settings: WorldInfoSettings,
        count_tokens: CountTokens,
        roll: Roll,
    ) -> None:
        self._entries = sort_entries(entries, settings.insertion_strategy)
        self._context, self._settings, self._count, self._roll = context, settings, count_tokens, roll
        length = len(context.messages) if context.chat_length is None else context.chat_length
        self._effects = LastingEffects(context.effects, self._entries, length)
        told = [
            (f"{each.name}: {each.text}" if each.name and settings.include_names else each.text).strip()
            for each in context.messages[:MAX_DEPTH]
        ]
        self._buffer = _Buffer(messages=told, depth=settings.scan_depth)
        # JavaScript rounds halves up, Python to the even number.
        budget = int(settings.budget_percent * settings.context_tokens / 100 + 0.5) or 1
        self._budget = min(budget, settings.budget_cap) if settings.budget_cap > 0 else budget
        self._active: dict[str, ActivatedEntry] = {}
        self._rejected: dict[str, RejectedEntry] = {}
        self._failed: set[str] = set()
        self._woken_tokens = 0
        self._is_full = False
        levels = sorted({entry.delay_until_recursion for entry in self._entries if entry.delay_until_recursion > 0})
        self._level, self._levels = (levels[0], levels[1:]) if levels else (0, [])
        self._passes = 0

    def run(self) -> Activation:
        state: _Pass | None = _Pass.FIRST if self._entries else None
        while state is not None and self._passes < (self._settings.max_recursion_steps or MAX_PASSES):
            self._passes += 1
            state = self._run_pass(state)
        shown = [each.entry for each in self._active.values()]
        return Activation(
            active=tuple(self._active.values()),
            rejected=tuple(each for name, each in self._rejected.items() if name not in self._active),
            effects=self._effects.after(shown),
            tokens=sum(self._count(entry.content) for entry in shown),
            passes=self._passes,
        )

    def _run_pass(self, state: _Pass) -> _Pass | None:
        """Examine every entry once. Return the kind of the next pass, or None if the scan is complete."""
        found: dict[str, tuple[WorldInfoEntry, _FoundKey]] = {}
        for entry in self._entries:
            name = name_of(entry)
            if name not in self._active and name not in self._failed and (hit := self._find(entry, state)) is not None:
                found[name] = (entry, hit)
        new = sorted((entry for entry, _ in found.values()), key=lambda entry: not self._effects.is_sticky(entry))
        kept = filter_groups(
            new,
            [each.entry for each in self._active.values()],
            self._effects,
            score=lambda entry: self._score(entry, state),
            scores_all=self._settings.use_group_scoring,
            roll=self._roll,
        )
        for entry in new:
            if entry not in kept:
                self._reject(entry, "group", f"another entry of group {entry.group!r} is shown")
        passed = self._admit(kept, {name: hit for name, (_, hit) in found.items()})
        return self._choose_next(state, [entry for entry in passed if not entry.prevent_recursion])

    def _find(self, entry: WorldInfoEntry, state: _Pass) -> _FoundKey | None:
        """Return the reason for which an entry is activated in this pass, or None if it is not activated."""
        if entry.disable or not self._is_meant(entry):
            return None
        is_sticky = self._effects.is_sticky(entry)
        if self._effects.is_delayed(entry):
            self._reject_hit(entry, state, "delay", f"the chat has fewer than {entry.delay} messages")
            return None
        if self._effects.is_cooling(entry) and not is_sticky:
            self._reject_hit(entry, state, "cooldown", "it was shown a short while ago")
            return None
        is_recursion = state is _Pass.RECURSION
        if not is_sticky and (
            (entry.delay_until_recursion and (not is_recursion or entry.delay_until_recursion > self._level))
            or (is_recursion and self._settings.recursive and entry.exclude_recursion)
        ):
            return None
        if ACTIVATE in entry.decorators:
            return _FoundKey(why="decorator")
        if DONT_ACTIVATE in entry.decorators:
            return None
        if entry.constant:
            return _FoundKey(why="constant")
        return _FoundKey(why="sticky") if is_sticky else self._find_keys(entry, state)

    def _is_meant(self, entry: WorldInfoEntry) -> bool:
        """Return whether an entry is for the trigger and the character of this scan."""
        context, wanted_by = self._context, entry.character_filter
        if entry.triggers and context.trigger not in entry.triggers:
            self._reject(entry, "trigger", f"it is for {', '.join(entry.triggers)}")
            return False
        if wanted_by is None:
            return True
        for wanted, own in (
            (wanted_by.names, {context.character_file}),
            (wanted_by.tags, set(context.character_tags)),
        ):
            if wanted and (not own.isdisjoint(wanted)) is wanted_by.is_exclude:
                self._reject(entry, "filter", "it is for other characters")
                return False
        return True

    def _find_keys(self, entry: WorldInfoEntry, state: _Pass) -> _FoundKey | None:
        text, lowered = self._text(entry, state)
        key = next((key for key in entry.key if self._has(key.strip(), text, lowered, entry)), None)
        if key is None:
            return None
        if entry.selective and entry.key_secondary and not self._has_secondary(entry, text, lowered):
            return None
        return _FoundKey(why="key", key=key, woken_by=self._find_waker(key, entry, state))

    def _text(self, entry: WorldInfoEntry, state: _Pass) -> tuple[str, str]:
        extra = tuple(text for name in entry.match_fields if (text := self._context.fields.get(name, "").strip()))
        return self._buffer.text(entry.scan_depth, extra, with_woken=state is not _Pass.MORE_MESSAGES)

    def _has(self, key: str, text: str, lowered: str, entry: WorldInfoEntry) -> bool:
        settings = self._settings
        is_case = settings.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
        is_whole = settings.match_whole_words if entry.match_whole_words is None else entry.match_whole_words
        return bool(key) and find_key(key, text, lowered, case_sensitive=is_case, whole_words=is_whole)

    def _has_secondary(self, entry: WorldInfoEntry, text: str, lowered: str) -> bool:
        hits = (self._has(key.strip(), text, lowered, entry) for key in entry.key_secondary)
        match entry.selective_logic:
            case SelectiveLogic.AND_ANY:
                return any(hits)
            case SelectiveLogic.NOT_ALL:
                return not all(hits)
            case SelectiveLogic.NOT_ANY:
                return not any(hits)
            case SelectiveLogic.AND_ALL:
                return all(hits)

    def _find_waker(self, key: str, entry: WorldInfoEntry, state: _Pass) -> str:
        """Return the name of the entry whose text contains a key. It is empty if the key is in a message or a field."""
        if state is _Pass.MORE_MESSAGES or not self._buffer.woken:
            return ""
        extra = tuple(text for name in entry.match_fields if (text := self._context.fields.get(name, "").strip()))
        text, lowered = self._buffer.text(entry.scan_depth, extra, with_woken=False)
        if self._has(key.strip(), text, lowered, entry):
            return ""
        for name, woken in self._buffer.woken:
            if self._has(key.strip(), _MARK + woken, _MARK + woken.lower(), entry):
                return name
        return ""

    def _score(self, entry: WorldInfoEntry, state: _Pass) -> int:
        """Return the number of found keys of an entry. Secondary keys count only if the logic needs them."""
        text, lowered = self._text(entry, state)
        first = sum(self._has(key, text, lowered, entry) for key in entry.key)
        second = sum(self._has(key, text, lowered, entry) for key in entry.key_secondary)
        if not entry.key:
            return 0
        if entry.selective_logic is SelectiveLogic.AND_ANY:
            return first + second
        if entry.selective_logic is SelectiveLogic.AND_ALL and second == len(entry.key_secondary):
            return first + second
        return first

    def _admit(self, new: Sequence[WorldInfoEntry], hits: dict[str, _FoundKey]) -> list[WorldInfoEntry]:
        """Activate the entries that pass chance and budget. Return the entries that passed chance; they may activate
        others.

        The result includes entries that exceed the budget.
        """
        tokens = 0
        for entry in new:
            name = name_of(entry)
            if self._is_full and not entry.ignore_budget:
                self._reject(entry, "budget", f"the budget of {self._budget} tokens was used up")
                continue
            if not self._passes_chance(entry):
                self._failed.add(name)
                self._reject(entry, "probability", f"it is shown in {entry.probability:g} % of cases")
                continue
            tokens += self._count(f"{entry.content}\n")
            if not entry.ignore_budget and self._woken_tokens + tokens >= self._budget:
                self._is_full = True
                self._reject(entry, "budget", f"with it the entries have {self._budget} tokens or more")
                continue
            hit = hits[name]
            self._active[name] = ActivatedEntry(
                entry=entry, pass_number=self._passes, reason=hit.why, key=hit.key, woken_by=hit.woken_by
            )
        return [entry for entry in new if name_of(entry) not in self._failed]

    def _passes_chance(self, entry: WorldInfoEntry) -> bool:
        if not entry.use_probability or entry.probability == 100 or self._effects.is_sticky(entry):
            return True
        return self._roll("probability", name_of(entry)) * 100 <= entry.probability

    def _choose_next(self, state: _Pass, waking: Sequence[WorldInfoEntry]) -> _Pass | None:
        settings, buffer = self._settings, self._buffer
        following: _Pass | None = None
        can_recur = settings.recursive and not self._is_full
        if can_recur and (waking or (state is _Pass.MORE_MESSAGES and buffer.pass_texts)):
            following = _Pass.RECURSION
        is_short = settings.min_activations > 0 and len(self._active) < settings.min_activations
        if following is None and not self._is_full and is_short:
            most = settings.min_activations_depth_max
            if not (0 < most < buffer.depth) and buffer.depth <= len(self._context.messages):
                following = _Pass.MORE_MESSAGES
                buffer.depth += 1
        if following is None and self._levels:
            following = _Pass.RECURSION
            self._level, self._levels = self._levels[0], self._levels[1:]
        if following is not None:
            buffer.woken += [(name_of(entry), entry.content) for entry in waking]
            if text := "\n".join(entry.content for entry in waking):
                buffer.pass_texts.append(text)
            self._woken_tokens += sum(self._count(f"{entry.content}\n") for entry in waking)
        return following

    def _reject_hit(self, entry: WorldInfoEntry, state: _Pass, reason: str, detail: str) -> None:
        """Record an entry that would be activated if no effect prevented it."""
        if entry.constant or (entry.key and self._find_keys(entry, state) is not None):
            self._reject(entry, reason, detail)

    def _reject(self, entry: WorldInfoEntry, reason: str, detail: str) -> None:
        self._rejected.setdefault(name_of(entry), RejectedEntry(entry=entry, reason=reason, detail=detail))
