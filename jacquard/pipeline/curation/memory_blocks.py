"""Renders the selected memories as prompt blocks (the pieces of a prompt). Pure.

This module escapes every text of an entry, exactly once. Only this module decides which attributes the XML element of
an entry has. The module must not import a retriever, a selector or a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from filament import escape_text, unescape
from filament.boundaries import show_text
from filament.markup import open_tag
from jacquard.core.block_kinds import CURATION_SOURCE, KINDS, KNOWLEDGE_SECTION, MEMORIES_SECTION, slot_of
from jacquard.core.blocks import (
    Block,
    BlockKind,
    BlockOrigin,
    BlockPlace,
    Placement,
    Position,
    Sensitivity,
    sensitivity_of,
)
from jacquard.core.degradations import DegradationCode
from jacquard.core.protocols import Selection
from jacquard.pipeline.curation.recall_query import squeeze
from jacquard.pipeline.truncation import truncate_with_size
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.worlds import name_of_author, party_names
from mnemosyne.chains.event import QUEST
from mnemosyne.chains.story_facts import Validity
from mnemosyne.chains.uris import entry_uri
from mnemosyne.core.codec import replace_struct
from mnemosyne.host_parts import HashText, digest_of, hash_with_sha256
from mnemosyne.protocols import TokenEstimator
from mnemosyne.retrieval.text.dates import resolve_dates
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import (
    EMPTY,
    SECTION_ID,
    THREAD,
    Chain,
    LoreCategory,
    MemoryEntry,
    Trust,
    copied_from,
    document_of,
)
from mnemosyne.schema.query import EntryPlace, place_of
from mnemosyne.schema.session import Ref
from mnemosyne.schema.world import BARE_DIGEST
from mnemosyne.values import dataclass

_RATIONALE = BlockPlace(
    slot=slot_of(BlockKind.RATIONALE),
    placement=Placement(position=Position.BEFORE_HISTORY, priority=10),
    layer=KINDS[BlockKind.RATIONALE].layer,
    volatile=True,
)
_KNOWLEDGE = replace_struct(_RATIONALE, section=KNOWLEDGE_SECTION)
_MEMORIES = replace_struct(_RATIONALE, section=MEMORIES_SECTION)
_TITLE_CHARS = 60
_SPAN = re.compile(r"chars:([0-9]{1,12})-([0-9]{1,12})")
_DATES_SHOWN = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryLabels:
    """Settings that decide which attributes the XML elements of memories have."""

    speakers: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Role -> name of the party (`party_names`)."""
    clock: bool = True
    """True if the time at which an entry was written is shown."""
    dates: bool = False
    """True if words such as `yesterday` in a message are shown with the date that they meant when the message was written."""
    story_times: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Id of a turn -> time in the story at that turn."""
    validity: Mapping[EntryPlace, Validity] = field(default_factory=dict)
    """Turns in which a memory is valid, for memories that ended or superseded another one."""
    boundary: str = ""
    """Mark around texts that are shown exactly as written (`filament.show_text`); '' if texts are escaped."""


_PLAIN = MemoryLabels()


def render_memories(
    selection: Selection,
    entries: Sequence[MemoryEntry],
    estimator: TokenEstimator,
    limit_tokens: int | None = None,
    names: Mapping[str, str] = EMPTY,
    labels: MemoryLabels = _PLAIN,
    hash_text: HashText = hash_with_sha256,
) -> tuple[Block, ...]:
    """Return one block for each entry that `selection` names: lore first, then memories, each group in the order of
    choice.

    The first chosen entry has the priority HIGH, the others MEDIUM. `rank` of a block is the place of its entry in the
    selection, counted from 0. If the selector gave a rationale, the block of the rationale comes first. This block has
    the priority LOW, so that it is dropped before the other blocks.

    The first chosen entry is not left out because of another entry about its subject, unless the other one contains its text.

    Args:
        selection: the choice. Chosen entries that are not in `entries` are left out.
        entries: complete entries.
        estimator: counts tokens.
        limit_tokens: maximum tokens of an entry. A longer entry shows its first sentences, and its ref states how many
            characters are shown.
        names: address of an entry -> name of the entry in `selection`, if it differs from the entry's id.
        labels: settings for the attributes of the elements.
        hash_text: hash function of the host for the refs.
    """
    found = {names.get(entry_uri(entry), entry.entry_id): entry for entry in entries}
    chosen = [(name, found[name]) for name in selection.entry_ids if name in found]
    blocks = [
        _block(entry, name, rank, estimator, limit_tokens, labels, hash_text)
        for rank, (name, entry) in enumerate(chosen)
    ]
    if blocks:
        blocks[0] = _keep_best(blocks[0], chosen[0][1], blocks[1:])
    blocks.sort(key=lambda block: block.place is not _KNOWLEDGE)
    if blocks and selection.rationale:
        blocks.insert(0, _rationale(selection.rationale, blocks, estimator))
    return tuple(blocks)


def describe_cuts(blocks: Sequence[Block], entries: Sequence[MemoryEntry]) -> tuple[str, ...]:
    """Return a degradation (`code: sentence`) for every block that does not show its memory completely. `entries` are
    the complete entries of the memories.
    """
    sizes = {entry_uri(entry): len(entry.text) for entry in entries}
    memories = [(block, block.origin) for block in blocks if block.kind is BlockKind.MEMORY]
    cut = [(block, origin.uri, origin.refs[0].selector) for block, origin in memories if origin.refs]
    return tuple(
        f"{DegradationCode.TEXT_CUT}: {block.block_id} shows {selector} of {sizes[uri]} characters"
        for block, uri, selector in cut
        if (span := _SPAN.fullmatch(selector or "")) is not None and int(span[2]) - int(span[1]) < sizes[uri]
    )


def _block(
    entry: MemoryEntry,
    name: str,
    rank: int,
    estimator: TokenEstimator,
    limit_tokens: int | None,
    labels: MemoryLabels,
    hash_text: HashText,
) -> Block:
    lore = entry.chain is Chain.LORE
    shown, ref = entry, _ref(entry, name, len(entry.text), hash_text)
    if limit_tokens is not None:
        text, chars = truncate_with_size(entry.text, limit_tokens, estimator.estimate)
        if chars < len(entry.text):
            shown = replace(entry, text=text)
            # The ref covers only the shown text, so a change after it does not make the ref stale.
            ref = _ref(entry, name, chars, hash_text)
    content = _entry_element(shown, labels) if lore else _memory_element(shown, labels)
    return Block(
        block_id=f"flesh:{name}",
        kind=BlockKind.MEMORY,
        block_type=BlockType.EVIDENCE if lore else BlockType.MEMORY,
        content=content,
        place=_KNOWLEDGE if lore else _MEMORIES,
        origin=BlockOrigin(
            source=f"{CURATION_SOURCE}:{entry.chain.value}",
            title=entry.title or _shorten_title(entry.text),
            entities=entry.entities,
            category=_category(entry) if lore else None,
            refs=(ref,),
            trust=entry.trust,
            at=entry.at,
            sensitivity=sensitivity_of(entry.metadata),
            uri=entry_uri(entry),
        ),
        priority=Priority.HIGH if rank == 0 else Priority.MEDIUM,
        rank=rank,
        tokens=estimator.estimate(content),
    )


def _keep_best(best: Block, entry: MemoryEntry, others: Sequence[Block]) -> Block:
    """Return the block of the best memory `entry` so that weaving does not leave it out because of another block about its
    subject, unless one of `others` shows its text.
    """
    text, subject = squeeze(entry.text), best.origin.entities[:1]
    if best.origin.category is not LoreCategory.ENCYCLOPEDIA or any(
        each.origin.entities[:1] == subject and text in squeeze(unescape(each.content)) for each in others
    ):
        return best
    return replace_struct(best, origin=replace_struct(best.origin, entities=()))


def _ref(entry: MemoryEntry, name: str, chars: int, hash_text: HashText) -> Ref:
    """Return the ref to the first characters of an entry (0: all), in its document if it is a passage, else in its evidence."""
    digest = digest_of(entry.text[: chars or None], hash_text)
    document, span = document_of(entry), _SPAN.fullmatch(str(entry.metadata.get(SECTION_ID, "")))
    if document is not None and span is not None:
        begin, end = int(span[1]), int(span[2])
        return Ref(
            evidence_id=document, selector=f"chars:{begin}-{min(begin + chars, end) if chars else end}", hash=digest
        )
    whole = chars in (0, len(entry.text))
    return Ref(evidence_id=name, selector=None if whole else f"chars:0-{chars}", hash=digest)


def _rationale(text: str, memories: Sequence[Block], estimator: TokenEstimator) -> Block:
    """Return the block of a rationale, which is as sensitive as the most sensitive memory that it explains."""
    content = f"<rationale>{escape_text(text)}</rationale>"
    return Block(
        block_id="flesh:rationale",
        kind=BlockKind.RATIONALE,
        block_type=BlockType.MEMORY,
        content=content,
        place=_RATIONALE,
        origin=BlockOrigin(
            source=f"{CURATION_SOURCE}:selector",
            title="why these memories",
            trust=Trust.MODEL,
            sensitivity=max((each.origin.sensitivity for each in memories), key=list(Sensitivity).index),
        ),
        priority=Priority.LOW,
        rank=len(memories),
        tokens=estimator.estimate(content),
    )


def _entry_element(entry: MemoryEntry, labels: MemoryLabels) -> str:
    name = f"  <name>{escape_text(entry.title)}</name>\n" if entry.title else ""
    kind = str(entry.metadata.get("kind") or entry.kind)
    start = open_tag("entry", (("id", entry.entry_id), ("type", kind), *_origin(entry).items()))
    return f"{start}\n{name}  <desc>{show_text(entry.text, labels.boundary)}</desc>\n</entry>"


def _memory_element(entry: MemoryEntry, labels: MemoryLabels) -> str:
    """Return the element of a memory. The title of a message is its speaker; other titles precede texts that do not contain
    them.
    """
    attributes = {"id": entry.entry_id, **_origin(entry)}
    if entry.depth is not None and "session" not in attributes:
        attributes["turn"] = str(entry.depth)
    if story_time := labels.story_times.get(entry.turn_id or ""):
        attributes["time"] = story_time
    if labels.clock and entry.at is not None:
        attributes["at"] = entry.at.isoformat(timespec="minutes").replace("+00:00", "Z")
    if entry.chain is Chain.EVENT and entry.kind == QUEST and entry.tags:
        attributes["status"] = entry.tags[0]
    if entry.kind == THREAD and entry.tags:
        attributes["open"] = entry.tags[0]
    if labels.validity and (validity := labels.validity.get(place_of(entry))) is not None:
        attributes |= _describe_validity(validity)
    if entry.speaker:
        attributes["speaker"] = name_of_author(entry.speaker, names=labels.speakers)
    if labels.dates and (dates := _describe_dates(entry)):
        attributes["dates"] = dates
    title = entry.title if entry.chain is not Chain.HISTORY and entry.title not in entry.text else ""
    text = f"{title}: {entry.text}" if title else entry.text
    return f"{open_tag('memory', attributes.items())}{show_text(text, labels.boundary)}</memory>"


def _describe_validity(validity: Validity) -> dict[str, str]:
    """Return since when a fact is valid in place of another one, until when it was valid, and the values before it and now."""
    since = "" if validity.since is None else f"turn {validity.since}"
    until = "" if validity.until is None else f"turn {validity.until}"
    told = {"since": since, "before": validity.before, "until": until, "now": validity.now}
    return {name: text for name, text in told.items() if text}


def _origin(entry: MemoryEntry) -> dict[str, str]:
    """Return the session and turn in which a memory was first written, if that is another session."""
    for source in copied_from(entry.metadata):
        told = {"session": str(source.get("session_id", "")), "turn": str(source.get("depth", ""))}
        return {name: value for name, value in told.items() if value}
    return {}


def _describe_dates(entry: MemoryEntry) -> str:
    """Return the phrases of a message that mean a date, with the dates: `yesterday = 2023-05-07; next month = 2023-06`."""
    if entry.chain is not Chain.HISTORY or entry.at is None:
        return ""
    said = {each.phrase.casefold(): f"{each.phrase} = {each.label}" for each in resolve_dates(entry.text, entry.at)}
    return "; ".join(list(said.values())[:_DATES_SHOWN])


def labels_of(
    turn: Turn, story_times: Mapping[str, str] = EMPTY, validity: Mapping[EntryPlace, Validity] | None = None
) -> MemoryLabels:
    """Return the settings for the attributes of the memories in `turn`. `story_times` maps the id of a turn to its time
    in the story, and `validity` has the turns in which memories are valid.

    With a world pack, memories show times of the story. Without a pack they show the time of writing. The setting
    `curation.dates` decides whether words such as `yesterday` get their date: `auto` means in sessions without a pack.
    `always` means in every session, and the time of writing is then shown in every session too. `never` means in no
    session.
    """
    wanted, bare = turn.config.curation.dates, turn.world.digest == BARE_DIGEST
    return MemoryLabels(
        speakers=party_names(turn.world),
        clock=bare or wanted == "always",
        dates=wanted == "always" or (bare and wanted == "auto"),
        story_times=story_times,
        validity=validity or {},
        boundary=turn.boundary,
    )


def _category(entry: MemoryEntry) -> LoreCategory | None:
    return LoreCategory(entry.kind) if entry.kind in set(LoreCategory) else None


def _shorten_title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"
