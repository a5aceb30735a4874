"""Sorts entries of world info into the order in which they are examined, and tracks effects that last for several messages.

World info is a book of entries whose texts are put into the prompt. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mnemosyne.world.activation.entries import hash_entry, name_of
from mnemosyne.world.activation.values import (
    BookSource,
    InsertionStrategy,
    TimedEffect,
    TimedEffects,
    WorldInfoEntry,
)


def sort_entries(entries: Iterable[WorldInfoEntry], strategy: InsertionStrategy) -> list[WorldInfoEntry]:
    """Return entries in the order in which they are examined.

    Entries of the chat come first, then entries of the persona. `strategy` orders the remaining entries, which are global or
    belong to a character. In each of these lists the highest `order` comes first. Entries with the same `order` stay in
    the order of `entries`.
    """
    by_source: dict[BookSource, list[WorldInfoEntry]] = {source: [] for source in BookSource}
    for entry in entries:
        by_source[entry.source].append(entry)
    lists = [by_source[BookSource.CHAT], by_source[BookSource.PERSONA]]
    of_all, of_character = by_source[BookSource.GLOBAL], by_source[BookSource.CHARACTER]
    if strategy is InsertionStrategy.EVENLY:
        lists.append([*of_all, *of_character])
    elif strategy is InsertionStrategy.CHARACTER_FIRST:
        lists += [of_character, of_all]
    else:
        lists += [of_all, of_character]
    return [entry for each in lists for entry in sorted(each, key=lambda entry: -entry.order)]


class LastingEffects:
    """The timed effects on `entries` in a chat of `length` messages. `effects` are the effects after the last reply.

    A sticky entry stays active for several messages. An entry in cooldown cannot be activated for several messages.
    """

    def __init__(self, effects: TimedEffects, entries: Sequence[WorldInfoEntry], length: int) -> None:
        self._length = length
        self._hashes = {name_of(entry): hash_entry(entry) for entry in entries}
        self._by_hash = {self._hashes[name_of(entry)]: entry for entry in entries}
        self._left: dict[str, dict[str, TimedEffect]] = {"sticky": {}, "cooldown": {}}
        self._active: dict[str, set[str]] = {"sticky": set(), "cooldown": set()}
        ended = self._check("sticky", effects.sticky, {})
        self._check("cooldown", effects.cooldown, ended)

    def is_sticky(self, entry: WorldInfoEntry) -> bool:
        """Return whether an entry is sticky, so that it stays active without a key."""
        return self._hashes[name_of(entry)] in self._active["sticky"]

    def is_cooling(self, entry: WorldInfoEntry) -> bool:
        """Return whether an entry is in cooldown, so that it cannot be activated."""
        return self._hashes[name_of(entry)] in self._active["cooldown"]

    def is_delayed(self, entry: WorldInfoEntry) -> bool:
        """Return whether the chat has fewer messages than the `delay` of an entry."""
        return bool(entry.delay) and self._length < entry.delay

    def after(self, active: Iterable[WorldInfoEntry]) -> TimedEffects:
        """Return the effects for the next messages, if the entries `active` are shown now. A running effect is not extended."""
        for entry in active:
            for kind, messages in (("sticky", entry.sticky), ("cooldown", entry.cooldown)):
                if messages:
                    self._left[kind].setdefault(name_of(entry), self._begin(entry, messages))
        return TimedEffects(sticky=dict(self._left["sticky"]), cooldown=dict(self._left["cooldown"]))

    def _begin(self, entry: WorldInfoEntry, messages: int, *, is_protected: bool = False) -> TimedEffect:
        return TimedEffect(
            entry_hash=self._hashes[name_of(entry)],
            start=self._length,
            end=self._length + messages,
            is_protected=is_protected,
        )

    def _check(
        self, kind: str, effects: Mapping[str, TimedEffect], begun: Mapping[str, TimedEffect]
    ) -> dict[str, TimedEffect]:
        """Keep the effects of a kind that have not ended. Return the cooldowns that begin because a sticky effect ended."""
        cooldowns: dict[str, TimedEffect] = {}
        for name, effect in {**effects, **begun}.items():
            entry = self._by_hash.get(effect.entry_hash)
            if self._length <= effect.start and not effect.is_protected:
                continue  # The chat has not grown: the message that began the effect was taken back.
            if entry is None:
                if self._length < effect.end:
                    self._left[kind][name] = effect
                continue
            if not (entry.sticky if kind == "sticky" else entry.cooldown):
                continue
            if self._length < effect.end:
                self._left[kind][name] = effect
                self._active[kind].add(effect.entry_hash)
            elif kind == "sticky" and entry.cooldown:
                cooldowns[name_of(entry)] = self._begin(entry, entry.cooldown, is_protected=True)
        return cooldowns
