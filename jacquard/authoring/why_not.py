"""Explains why an entry is not in the prompt of a recorded turn: hidden, not recalled, not chosen, over the budget, or
deleted.

The receipt of the turn states the decisions about candidates and blocks. All other entries are judged by the state, the
branch and the settings of the turn; recall runs again to find their rank. The store is only read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jacquard.authoring.replay.provenance import find_origins
from jacquard.authoring.turns import TurnReader
from jacquard.core.blocks import BlockKind, is_too_sensitive, sensitivity_of
from jacquard.core.errors import ConfigError, MemoryNotFoundError
from jacquard.core.receipt import Action, CurationPath, Report
from jacquard.memory.verbs.find import has_words
from jacquard.pipeline.curation.recall_query import build_recall_query
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_from_record
from jacquard.pipeline.turn import ShownHistory, Turn
from jacquard.turns.engine import ContextEngine
from jacquard.turns.parts import EngineParts
from mnemosyne.chains.audience import audience_of_entry, may_read
from mnemosyne.chains.event import closed_quests
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.chains.story_facts import find_endings
from mnemosyne.chains.uris import entry_uri
from mnemosyne.evidence.documents import document_entries, has_expired, is_document
from mnemosyne.schema.memory import TAKES_FROM_RECALL, Chain, LoreCategory, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import place_of
from mnemosyne.schema.session import SessionHead
from mnemosyne.values import dataclass

_MOST_RECALLED = 2_000
_MOST_ENTRIES = 20
"""Maximum number of entries that a text may match."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Absence:
    """Reason why an entry is not in a prompt. If the entry is in the prompt, `block_id` is the block that shows it.

    `code` comes from one of these groups:

    - The codes of `CandidateDecision`, of decisions on blocks, and of world info.
    - `shown`: the entry is in the block `block_id`.
    - The codes of this module: `condition`, `viewer`, `sensitivity`, `expired`, `superseded`, `gone`, `other_branch`,
      `later`, `not_set_off`, `not_among_best`, `not_recalled`.
    - The reason why the turn searched no memories at all (`disabled`, `numerical`, `deadline`, …).
    """

    entry_id: str
    code: str
    """Reason, for programs."""
    reason: str
    """Reason, for people."""
    chain: str = ""
    kind: str = ""
    title: str = ""
    block_id: str = ""
    rank: int | None = None
    """Rank of the entry in recall. None if the rank is not the reason."""
    score: float | None = None
    """Score of the entry in recall. None if the score is not the reason."""
    least: float | None = None
    """Score or relevance that the entry would have needed. None if this is not the reason."""


async def why_not(
    engine: ContextEngine, session_id: str, wanted: str, *, turn_id: str | None = None
) -> tuple[Absence, ...]:
    """Return the reasons for the entry with the id `wanted`, or for each entry that contains all words of `wanted`.

    `turn_id` is the turn (None: the newest of the session). Call this function only for callers who may read
    everything.

    Raises MemoryNotFoundError if there is no such entry. Raises ConfigError if `wanted` is empty, or if no prompt was
    made for the turn. Raises SessionNotFoundError or TurnNotFoundError if the session or the turn does not exist.
    """
    parts = engine.parts
    if not wanted.strip():
        raise ConfigError("The text is empty; give the id of an entry, or words of it.")
    if turn_id is None:
        window = await parts.store.window(session_id, message_limit=1)
        newest = window.pending or window.previous
        if newest is None:
            raise ConfigError(f"Session {session_id!r} has no turn yet.")
        turn_id = newest.turn_id
    record = await parts.store.turn(session_id, turn_id)
    if record.prompt is None or record.receipt is None:
        raise ConfigError(f"Turn {turn_id!r} was imported: no prompt was made for it, so nothing was left out of it.")
    read = await TurnReader(store=parts.store, worlds=engine.worlds, planner=parts.planner).turn(session_id, turn_id)
    head = read.request.window.head
    lineage = tuple(replace(span, upto_depth=min(span.upto_depth, head.depth)) for span in head.lineage)
    window = replace(read.request.window, head=replace(head, lineage=lineage))
    message, shown = replace(read.request.message, at=record.created_at), ShownHistory(messages=window.messages)
    turn = replace(read.request, config=read.config, message=message, window=window, history=shown)
    prepared = turn_from_record(record, 0)
    finder = _Finder(parts, turn)
    entries = await finder.find(wanted)
    if not entries:
        return (_judge_missing(prepared.report, session_id, wanted),)
    return tuple([await finder.judge(prepared, entry) for entry in entries])


def _judge_missing(report: Report, session_id: str, wanted: str) -> Absence:
    if any(wanted in (each.entry_id, each.uri) for each in (*report.stream_b.candidates, *report.evidence)):
        reason = "It was a candidate of this turn and is not stored any more: it was erased, or its world was edited."
        return Absence(entry_id=wanted, code="gone", reason=reason)
    raise MemoryNotFoundError(
        f"Neither session {session_id!r} nor its world has an entry {wanted!r}, or one with these words."
    )


class _Finder:
    """Finds entries and judges them by the state that the turn found."""

    def __init__(self, parts: EngineParts, turn: Turn) -> None:
        self._parts, self._turn = parts, turn
        self._view: StateView = view_state(turn.window.state)
        self._scopes = session_scope(turn.session_id), world_scope(turn.world.world_id)

    async def find(self, wanted: str) -> Sequence[MemoryEntry]:
        """Return the entry with an id, or else the entries with all words of a text."""
        store, turn = self._parts.store, self._turn
        for scope in self._scopes:
            if named := await store.entries(scope, (wanted,)):
                return named
        if quests := [each for each in closed_quests(turn.window.state, turn.session_id) if each.entry_id == wanted]:
            return quests
        evidence = await store.get_evidence(turn.session_id, wanted)
        if evidence is not None and is_document(evidence) and (parts := document_entries(turn.session_id, evidence)):
            return parts
        lore = [
            each for each in turn.world.lore if has_words(f"{each.title} {' '.join(each.keys)} {each.text}", wanted)
        ]
        query = replace(
            build_recall_query(turn), text=wanted, exclude=frozenset(), exclude_by_scope={}, limit=_MOST_RECALLED
        )
        recalled = await self._parts.curation.retriever.recall(replace(query, may_know=None, patience_seconds=None))
        ids = [each.entry_id for each in recalled.candidates if each.scope == self._scopes[0]]
        told = [each for each in await store.entries(self._scopes[0], ids) if has_words(each.text, wanted)]
        return [*lore, *told][:_MOST_ENTRIES]

    async def judge(self, prepared: PreparedTurn, entry: MemoryEntry) -> Absence:
        """Return why an entry is not in a prompt, or its place there."""
        for judged in (
            _judge_prompt(prepared, entry),
            _judge_receipt(prepared.report, entry),
            await self._judge_edits(entry),
            _judge_place(self._turn.window.head, entry),
            self._judge_gates(entry),
            _judge_search(prepared.report, entry),
        ):
            if judged is not None:
                return judged
        return await self._judge_rank(prepared.report, entry)

    async def _judge_edits(self, entry: MemoryEntry) -> Absence | None:
        gated = await self._parts.store.gated_entries(self._scopes)
        ending = find_endings(gated, self._turn.window.head.lineage).get(entry.entry_id)
        if ending is not None:
            newer = f"; since then {ending.superseded_by} is valid" if ending.superseded_by else ""
            return _absence(entry, "superseded", f"It was valid from turn {entry.depth} to turn {ending.depth}{newer}.")
        for each in gated:
            if each.chain is not Chain.EVENT and each.metadata.get(TAKES_FROM_RECALL) == entry.entry_id:
                return _absence(entry, "superseded", f"The edit {each.entry_id} has taken it from recall.")
        return None

    def _judge_gates(self, entry: MemoryEntry) -> Absence | None:
        config, viewers = self._turn.config, audience_of_entry(entry)
        if not may_read(viewers, config.viewer):
            who = f"for {config.viewer!r}" if config.viewer else "without a viewer"
            return _absence(entry, "viewer", f"Only {', '.join(viewers)} may know it; the turn was prepared {who}.")
        failing = [each for each in entry.when if not self._view.holds(each)]
        if failing:
            told = []
            for each in failing:
                found, value = self._view.read(each.path)
                now = f"it was {value!r}" if found else "the state had no such value"
                told.append(f"{each.path} {each.op.value} {each.value!r} did not hold: {now}")
            return _absence(entry, "condition", f"{'; '.join(told)}.")
        if is_too_sensitive(entry.metadata, most := config.prune.max_sensitivity):
            own = sensitivity_of(entry.metadata).value
            return _absence(entry, "sensitivity", f"It is {own}; prune.max_sensitivity lets {most} in at most.")
        if self._turn.message.at is not None and has_expired(entry, self._turn.message.at):
            return _absence(entry, "expired", "Its document had expired.")
        if entry.kind == LoreCategory.DIRECTIVE.value:
            return _absence(entry, "not_set_off", "It is a directive, and the input has none of its words.")
        return None

    async def _judge_rank(self, report: Report, entry: MemoryEntry) -> Absence:
        query = replace(build_recall_query(self._turn), limit=_MOST_RECALLED, patience_seconds=None)
        found = (await self._parts.curation.retriever.recall(query)).candidates
        most = self._turn.config.curation.recall_limit
        rank = next((number for number, each in enumerate(found, start=1) if each.place == place_of(entry)), None)
        if rank is None:
            reason = f"Recall does not find it for this input, among the best {_MOST_RECALLED}: no word of it fits."
            return _absence(entry, "not_recalled", reason)
        score, last = (
            found[rank - 1].score,
            report.stream_b.candidates[-1].score if report.stream_b.candidates else None,
        )
        if rank <= most:
            reason = f"Recall finds it now, at rank {rank} with a score of {score:.3f}; then it did not."
            return replace(_absence(entry, "not_recalled", reason), rank=rank, score=score)
        needed = "" if last is None else f", the last of which scored {last:.3f}"
        reason = f"Recall rank {rank} with a score of {score:.3f}: only the best {most} were candidates{needed}."
        return replace(_absence(entry, "not_among_best", reason), rank=rank, score=score, least=last)


def _absence(entry: MemoryEntry, code: str, reason: str) -> Absence:
    return Absence(
        entry_id=entry.entry_id,
        code=code,
        reason=reason,
        chain=entry.chain.value,
        kind=entry.kind,
        title=entry.title,
    )


def _judge_prompt(prepared: PreparedTurn, entry: MemoryEntry) -> Absence | None:
    line = next((line.strip() for line in entry.text.splitlines() if line.strip()), "")
    for origin in find_origins(prepared, line, limit=1) if line else ():
        where = f"block {origin.span.block_id} of message {origin.message}"
        reason = f"It is in the prompt: {where}, characters {origin.start} to {origin.end}."
        return replace(_absence(entry, "shown", reason), block_id=origin.span.block_id)
    for each in prepared.report.decisions:
        is_its = each.block_id == entry.entry_id or (
            each.kind is BlockKind.MEMORY and each.block_id.partition(":")[2] == entry.entry_id
        )
        if is_its and each.action is not Action.KEPT:
            reason = f"Its block was {each.action.value}: {each.reason}"
            return replace(_absence(entry, each.code, reason), block_id=each.block_id)
    return None


def _judge_receipt(report: Report, entry: MemoryEntry) -> Absence | None:
    uri, floor = entry_uri(entry), report.stream_b.relevance_floor
    for each in (*report.stream_b.candidates, *report.evidence):
        if each.uri == uri or (not each.uri and each.entry_id == entry.entry_id):
            least = floor if each.code == "below_floor" else None
            return replace(_absence(entry, each.code, each.reason), rank=each.rank, score=each.score, least=least)
    for fired in report.activation:
        if fired.entry_id == entry.entry_id:
            return _absence(entry, fired.code, fired.reason)
    return None


def _judge_place(head: SessionHead, entry: MemoryEntry) -> Absence | None:
    if entry.branch_id is None or entry.depth is None:
        return None
    if any(span.branch_id == entry.branch_id and entry.depth <= span.upto_depth for span in head.lineage):
        return None
    if entry.branch_id == head.branch_id:
        return _absence(entry, "later", f"It belongs to turn {entry.depth}, which came after this one began.")
    reason = f"It belongs to branch {entry.branch_id!r}; this turn is on {head.branch_id!r}."
    return _absence(entry, "other_branch", reason)


def _judge_search(report: Report, entry: MemoryEntry) -> Absence | None:
    stream = report.stream_b
    if stream.path is CurationPath.TIMEOUT or (
        stream.path is CurationPath.SKIPPED and stream.code != "nothing_recalled"
    ):
        return _absence(entry, stream.code, stream.reason)
    return None
