"""Activates the world info of a turn by the rules of SillyTavern (`mnemosyne.world.activation`). Pure.

World info is lore from a book of SillyTavern. An entry enters the prompt if its keywords occur in the conversation. The
conversation is searched as the prompt shows it. Entries that are hidden from the viewer are left out.

Random numbers depend only on the ids of session and turn. Lasting effects (such as cooldowns) come from the plan of the
previous turn. A turn that is prepared again therefore gets the same result. This module must not import a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from jacquard.config.sections import RuntimeConfig, WorldInfoConfig
from jacquard.core.plan import Triage, WorldInfoState
from jacquard.pipeline.skeleton.messages import default_parties
from jacquard.pipeline.turn import Turn, TurnLore
from jacquard.pipeline.worlds import is_account_id, party_names
from mnemosyne.core import codec
from mnemosyne.core.errors import CodecError, CorpusError, DamagedRecordError
from mnemosyne.schema.memory import EMPTY, MemoryEntry
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, Role
from mnemosyne.schema.world import SILLYTAVERN, WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.activation.entries import read_entry
from mnemosyne.world.activation.macros import fill_names
from mnemosyne.world.activation.scan import scan
from mnemosyne.world.activation.values import (
    BookSource,
    InsertionStrategy,
    Roll,
    ScanContext,
    ScannedMessage,
    TimedEffects,
    WorldInfoEntry,
    WorldInfoSettings,
)

WORLD_INFO = "world_info"
"""Key in `MemoryEntry.metadata`. Its value is the origin of the entry: `world` (the book), `uid`, and the book's own `fields`."""
_SAID = frozenset({Role.USER, Role.ASSISTANT})
_SCANNED = frozenset({Role.USER, Role.ASSISTANT, Role.SYSTEM})
_STRATEGIES = {
    "evenly": InsertionStrategy.EVENLY,
    "character_first": InsertionStrategy.CHARACTER_FIRST,
    "global_first": InsertionStrategy.GLOBAL_FIRST,
}
_MOST_HELD = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfo:
    """World info of one pack, in a form that can be activated."""

    entries: tuple[tuple[MemoryEntry, WorldInfoEntry], ...] = ()
    """(lore entry, its world info) for each entry; the entries of one book are in the order of their uids."""
    unreadable: tuple[tuple[MemoryEntry, str], ...] = ()
    """(lore entry, fault) for each entry whose fields cannot be read."""


class WorldInfoReader:
    """Reads the world info of packs, and caches it for each version of a pack."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], WorldInfo] = {}

    def read(self, world: WorldPack) -> WorldInfo:
        """Return the world info of a pack. This is slow for a large pack, so call the method off the event loop."""
        name = (world.world_id, world.digest)
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = read_world_info(world)
            for old in list(self._held)[:-_MOST_HELD]:
                self._held.pop(old, None)
        return held


def uses_world_info(world: WorldPack, config: RuntimeConfig) -> bool:
    """Return whether the rules of SillyTavern decide which lore of `world` a prompt shows. Return False if the world
    has no world info.
    """
    mode = world.activation if config.activation == "auto" else config.activation
    return mode == SILLYTAVERN and any(WORLD_INFO in entry.metadata for entry in world.lore)


def list_world_info(world: WorldPack) -> tuple[MemoryEntry, ...]:
    """Return the lore entries that came from world info, in the order of the pack."""
    return tuple(entry for entry in world.lore if WORLD_INFO in entry.metadata)


def read_world_info(world: WorldPack) -> WorldInfo:
    """Return the world info of a pack. An entry that has the same book and uid as an earlier entry counts as
    unreadable.
    """
    names = _names_of(world)
    of_cards = _books_of_cards(world)
    books: dict[str, int] = {}
    found: dict[tuple[str, str], tuple[tuple[int, int, int], MemoryEntry, WorldInfoEntry]] = {}
    unreadable: list[tuple[MemoryEntry, str]] = []
    for number, entry in enumerate(list_world_info(world)):
        held = entry.metadata[WORLD_INFO]
        if not isinstance(held, Mapping) or not isinstance(held.get("fields"), Mapping):
            unreadable.append((entry, "world_info.fields is not a mapping"))
            continue
        book, uid = str(held.get("world", "")), str(held.get("uid", ""))
        if (book, uid) in found:
            unreadable.append((entry, f"{found[book, uid][1].entry_id} has its world and uid"))
            continue
        source = BookSource.CHARACTER if book in of_cards else BookSource.GLOBAL
        try:
            read = _read(entry, held["fields"], book, uid, source, names)
        except CorpusError as error:
            unreadable.append((entry, str(error)))
            continue
        # SillyTavern orders a book by numeric uids.
        is_number = uid.isascii() and uid.isdecimal() and len(uid) < 16
        place = (books.setdefault(book, len(books)), 0 if is_number else 1, int(uid) if is_number else number)
        found[book, uid] = (place, entry, read)
    ordered = sorted(found.values(), key=lambda each: each[0])
    return WorldInfo(entries=tuple((entry, read) for _, entry, read in ordered), unreadable=tuple(unreadable))


def activate_world_info(
    turn: Turn,
    info: WorldInfo,
    before: WorldInfoState | None,
    count: Callable[[str], int],
    trigger: str = "normal",
) -> Turn:
    """Return `turn` with its activated lore, and with the lasting effects in its plan. This is slow, so call the
    function off the event loop.

    Args:
        turn: the turn whose conversation is searched for keywords.
        info: world info of the pack.
        before: state of world info after the previous turn (None: there is none).
        count: returns the tokens of a text.
        trigger: reason for making a reply (`ScanContext`).
    """
    effects = TimedEffects() if before is None else before.effects
    length = _count_messages(turn, before)
    known = [(entry, read) for entry, read in info.entries if entry.entry_id not in turn.lore.hidden]
    activation = scan(
        [read for _, read in known],
        _build_context(turn, length, effects, trigger),
        _settings_of(turn.config),
        count_tokens=count,
        roll=_roll_of(turn.session_id, turn.turn_id),
    )
    entries = {(read.world, read.uid): entry for entry, read in info.entries}
    set_off = (*(each.entry for each in activation.active), *(each.entry for each in activation.rejected))
    lore = TurnLore(
        hidden=turn.lore.hidden,
        activation=activation,
        entries=entries,
        withheld=find_withheld(info, {entries[each.world, each.uid].entry_id for each in set_off}),
        unreadable=info.unreadable,
    )
    state = WorldInfoState(chat_length=length, effects=activation.effects)
    return replace(turn, lore=lore, plan=replace(turn.plan, world_info=state))


def find_withheld(info: WorldInfo, set_off: Collection[str]) -> frozenset[str]:
    """Return the ids of the entries that recall must leave out, because the rules of world info decide on them.

    `set_off` contains the ids of the entries that were activated in this turn, whether they are shown or were rejected.
    Recall leaves out these entries, all disabled entries, and all entries that are not marked as vectorized.
    """
    return frozenset(
        entry.entry_id
        for entry, read in info.entries
        if entry.entry_id in set_off or read.disable or not _is_vectorized(entry)
    )


def carry_world_info(turn: Turn, before: WorldInfoState) -> Turn:
    """Return `turn` with the lasting effects `before` in its plan, without activating any entry."""
    state = replace(before, chat_length=_count_messages(turn, before))
    return replace(turn, plan=replace(turn.plan, world_info=state))


def find_world_info_state(window: SessionWindow) -> WorldInfoState | None:
    """Return the state of world info after the previous turn. Return None if that turn has none, or if there is no
    previous turn.

    Raises DamagedRecordError if the state in the plan of the previous turn cannot be read.
    """
    previous = window.previous
    held = None if previous is None or previous.plan is None else previous.plan.get("world_info")
    if previous is None or not held:
        return None
    try:
        return codec.from_plain(held, WorldInfoState)
    except CodecError as error:
        place = f"The plan of turn {previous.turn_id!r} of session {previous.session_id!r}"
        raise DamagedRecordError("", place, str(error)) from error


def scans_world_info(turn: Turn) -> bool:
    """Return whether world info is activated in `turn`. A turn that is answered by an action of the world, without a
    model, activates none.
    """
    return turn.plan.triage is Triage.NARRATIVE and uses_world_info(turn.world, turn.config)


def _read(
    entry: MemoryEntry, fields: Mapping[str, Any], book: str, uid: str, source: BookSource, names: Mapping[str, str]
) -> WorldInfoEntry:
    """Return an entry with the pack's present text; names are filled into its keys as into its text."""
    filled = dict(fields)
    for name in ("key", "keysecondary"):
        keys = fields.get(name)
        if isinstance(keys, list | tuple):
            filled[name] = [fill_names(each, **names) if isinstance(each, str) else each for each in keys]
    written = read_entry(filled, world=book, uid=uid, source=source)
    shown = read_entry({**filled, "content": entry.text}, world=book, uid=uid, source=source)
    return replace(shown, decorators=shown.decorators or written.decorators)


def _is_vectorized(entry: MemoryEntry) -> bool:
    return entry.metadata[WORLD_INFO]["fields"].get("vectorized") is True


def _names_of(world: WorldPack) -> dict[str, str]:
    names = party_names(world)
    return {"char": names.get(Role.ASSISTANT.value, ""), "user": names.get(Role.USER.value, "")}


def _cards_of(world: WorldPack) -> tuple[Mapping[str, Any], ...]:
    cards = world.imported.get("cards")
    return tuple(card for card in cards if isinstance(card, Mapping)) if isinstance(cards, list | tuple) else ()


def _data_of(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a card, whatever its version; version 1 has them at the root."""
    document = _mapping(card.get("document"))
    return _mapping(document.get("data")) or document


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else EMPTY


def _texts(*values: Any) -> Iterable[str]:
    return (value for value in values if isinstance(value, str) and value)


def _books_of_cards(world: WorldPack) -> frozenset[str]:
    """Return the possible names of the books of the pack's cards."""
    found: set[str] = set()
    for card in _cards_of(world):
        data = _data_of(card)
        found.update(
            _texts(
                card.get("name"),
                card.get("file_name"),
                _mapping(data.get("character_book")).get("name"),
                _mapping(data.get("extensions")).get("world"),
            )
        )
    # SillyTavern gives this name to the book of a card without a book name.
    return frozenset(found | {f"{name}'s Lorebook" for name in found})


def _build_context(turn: Turn, length: int, effects: TimedEffects, trigger: str) -> ScanContext:
    world, names, generic = turn.world, _names_of(turn.world), default_parties(turn.world)
    shown = [item.message for item in reversed(turn.shown) if item.message.role in _SCANNED]
    cards = _cards_of(world)
    card = next((each for each in cards if each.get("name") == names["char"]), cards[0] if cards else EMPTY)
    tags = card.get("tags")
    return ScanContext(
        messages=tuple(
            ScannedMessage(name=_speaker_of(message, names, generic), text=message.content)
            for message in (turn.message, *shown)
        ),
        character_file=next(iter(_texts(card.get("file_name"))), ""),
        character_tags=tuple(_texts(*tags)) if isinstance(tags, list | tuple) else (),
        fields=_fields_of(card, names),
        trigger=trigger,
        chat_length=length,
        effects=effects,
    )


def _fields_of(card: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    data = _data_of(card)
    depth_prompt = _mapping(_mapping(data.get("extensions")).get("depth_prompt"))
    fields = {
        "character_description": data.get("description"),
        "character_personality": data.get("personality"),
        "character_depth_prompt": depth_prompt.get("prompt"),
        "scenario": data.get("scenario"),
        "creator_notes": data.get("creator_notes"),
    }
    return {name: fill_names(text, **names) for name, text in fields.items() if isinstance(text, str) and text}


def _speaker_of(message: Message, names: Mapping[str, str], generic: Collection[str]) -> str:
    """Return the speaker's name; a `generic` name (case-folded) is replaced by the player's or the persona's, by role."""
    told = "" if message.author is None else " ".join(message.author.id.split())
    if told.casefold() not in generic and not is_account_id(told):
        return told
    return {Role.USER: names["user"], Role.ASSISTANT: names["char"]}.get(message.role, "")


def _count_messages(turn: Turn, before: WorldInfoState | None) -> int:
    """Return the number of messages of the two parties, including the input of this turn.

    The count continues the previous turn's; without it, each turn outside of the window counts as two messages.
    """
    window = turn.window
    said = [item for item in window.messages if item.message.role in _SAID]
    if before is not None and window.previous is not None:
        return before.chat_length + sum(item.depth >= window.previous.depth for item in said)
    first = said[0].depth if said else 1
    return 2 * (first - 1) + len(said) + 1


def _settings_of(config: RuntimeConfig) -> WorldInfoSettings:
    told: WorldInfoConfig = config.world_info
    return WorldInfoSettings(
        scan_depth=told.scan_depth,
        context_tokens=told.context_tokens or config.budget.prompt_tokens(),
        budget_percent=told.budget_percent,
        budget_cap=told.budget_cap,
        include_names=told.include_names,
        recursive=told.recursive,
        case_sensitive=told.case_sensitive,
        match_whole_words=told.match_whole_words,
        use_group_scoring=told.use_group_scoring,
        min_activations=told.min_activations,
        min_activations_depth_max=told.min_activations_depth_max,
        max_recursion_steps=told.max_recursion_steps,
        insertion_strategy=_STRATEGIES[told.insertion_strategy],
    )


def _roll_of(session_id: str, turn_id: str) -> Roll:
    """Return random numbers that depend only on session, turn and entry."""

    def roll(purpose: str, name: str) -> float:
        digest = hashlib.sha256("\0".join((session_id, turn_id, purpose, name)).encode("utf-8", "surrogatepass"))
        # A float represents 53 bits exactly, so the number is always below 1.
        return (int.from_bytes(digest.digest()[:8], "big") >> 11) / 2**53

    return roll
