"""Records the evidence of a turn: finds ids for recalled memories, and stores the results of tools.

Evidence is a stored text with its source. Only the ingestor writes it. `jacquard.pipeline.evidence.blocks` shows results in
prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from itertools import count as count_from
from typing import Any

from anyio import to_thread

from filament.boundaries import split_content
from jacquard.core.block_kinds import INPUT_ID, SAID
from jacquard.pipeline.record.prepared_turn import turn_from_record
from jacquard.pipeline.record.stored_turn import viewer_of
from mnemosyne.chains.audience import audience_field, audience_of_messages, join_audiences, read_audience
from mnemosyne.chains.uris import entry_uri
from mnemosyne.core.errors import TurnNotFoundError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.documents.views import turn_of_call
from mnemosyne.evidence import without_shown
from mnemosyne.protocols import EvidenceIngestor, Store
from mnemosyne.schema.document import ToolCall, ToolType
from mnemosyne.schema.evidence import (
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    SourceKind,
)
from mnemosyne.schema.ingest import IngestOptions, IngestResult, ShownText
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.query import Candidate
from mnemosyne.schema.record import TurnRecord
from mnemosyne.values import dataclass

_READ_AHEAD = 2
"""Number of names under which the evidence of each entry is read in advance: the entry's id and its address."""


def first_evidence_ids(entry: MemoryEntry | Candidate) -> tuple[str, str]:
    """Return the first two ids that the evidence of an entry may get: the id of the entry, and its address."""
    return entry.entry_id, entry_uri(entry)


async def evidence_ids_of(
    store: Store, session_id: str, entries: Iterable[MemoryEntry], evidences: Iterable[Evidence]
) -> dict[str, str]:
    """Choose an id for the evidence of each recalled entry. Return a mapping from the address of an entry to the id of its
    evidence. Entries whose evidence has the same id as the entry are left out.

    Usually the evidence has the same id as the entry. If the session already has other evidence with this id, the id is
    the address of the entry. If this id is taken too, a number is added. So no evidence is overwritten. `evidences`
    contains the evidence that the session already has under the `first_evidence_ids` of the entries.
    """
    ids: dict[str, str] = {}
    taken: set[str] = set()
    known = {each.evidence_id: each for each in evidences}
    for entry in entries:
        uri = entry_uri(entry)
        for place, name in enumerate(chain((entry.entry_id, uri), (f"{uri}#{number}" for number in count_from(2)))):
            held = known.get(name) if place < _READ_AHEAD else await store.get_evidence(session_id, name)
            if name not in taken and (held is None or held.source.uri == uri):
                break
        taken.add(name)
        if name != entry.entry_id:
            ids[uri] = name
    return ids


def find_shown_texts(record: TurnRecord | None, *, with_input: bool = True) -> tuple[ShownText, ...]:
    """Return the texts that the prompt of a turn shows. A new text that only repeats one of these texts is an echo and
    does not become evidence.

    Return an empty tuple if `record` is None or has no prompt. If `with_input` is false, the user's input is left out.
    """
    if record is None or record.prompt is None:
        return ()
    turn = turn_from_record(record, 0)
    sources = {block.block_id: block.refs[0].evidence_id for block in turn.context_blocks if block.refs}
    shown = [ShownText(source_id=each.evidence_id, text=each.content) for each in turn.evidences]
    for span in turn.report.spans:
        if span.block_id == INPUT_ID and not with_input:
            continue
        said = turn.messages[span.message].content[span.start : span.end]
        # Texts of others are escaped, so every tag here is ours.
        is_written = turn.report.as_written and span.kind in SAID
        pieces = [said] if is_written else [each.text for each in split_content(said) if not each.is_tag]
        shown += [ShownText(source_id=sources.get(span.block_id, span.block_id), text=piece) for piece in pieces]
    return tuple(each for each in shown if each.text.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestedResult:
    """Evidence that was made from the result of a call."""

    evidence_ids: tuple[str, ...] = ()
    """Ids of the evidence items. Empty if the result only repeats the prompt (an echo)."""
    redacted: tuple[str, ...] = ()
    """Names of the redaction rules that found something."""
    recalled: tuple[str, ...] = ()
    """Ids of the evidence items or messages that the result repeats."""
    degradations: tuple[str, ...] = ()


async def find_turn_of_call(store: Store, session_id: str, call: ToolCall) -> TurnRecord | None:
    """Return the turn of a call: the turn that the call names in `extra.turn_id`, or else the pending turn of the active branch.

    Return None if the call belongs to no turn. Raises SessionNotFoundError if the session does not exist.
    """
    named, window = turn_of_call(call), await store.window(session_id, message_limit=1)
    if not named:
        return window.pending
    known = next((each for each in (window.pending, window.previous) if each and each.turn_id == named), None)
    with suppress(TurnNotFoundError):
        return known or await store.turn(session_id, named)
    return None


def place_in_turn(
    turn: TurnRecord, links: EvidenceLinks, metadata: Mapping[str, Any]
) -> tuple[EvidenceLinks, Mapping[str, Any]]:
    """Return (links, metadata) for evidence that belongs to `turn`, made from the arguments `links` and `metadata`.

    The returned links name the turn and the viewer for whom the turn was prepared. The returned metadata limit the
    evidence to the viewers who may know the messages of the turn.
    """
    audience = join_audiences((audience_of_messages(turn.messages), read_audience(metadata)))
    placed = replace(links, turn_id=turn.turn_id, viewer=viewer_of(turn))
    return placed, {**metadata, **audience_field(audience)}


async def ingest_call_result(
    store: Store,
    ingestor: EvidenceIngestor,
    session_id: str,
    call: ToolCall,
    result: str,
    options: IngestOptions,
    turn: TurnRecord | None,
) -> IngestedResult:
    """Store a call's result as evidence, without the parts that repeat the prompt of `turn` (None: of the last turn).

    If the prompt shows texts unchanged (`as_written`) and `result` contains something new, the result is stored
    completely, because gaps would change the meaning of a file or a log. `options` are the options of the ingestor,
    which stores the evidence.
    """
    record = turn or (await store.window(session_id, message_limit=1)).previous
    size = size_of(None if record is None else record.prompt)
    shown = await calculate(find_shown_texts, record, size=size)
    if (record is not None and (record.receipt or {}).get("as_written")) and shown:
        fresh = await to_thread.run_sync(without_shown, result, shown)
        shown = () if fresh.text.strip() else shown
    done = await ingest_result(ingestor, session_id, call, result, shown=shown, options=options, turn=turn)
    ids = () if done.evidence is None else (done.evidence.evidence_id,)
    rules = done.redaction.rules_applied if done.redaction is not None else ()
    return IngestedResult(evidence_ids=ids, redacted=rules, recalled=done.recalled, degradations=done.degradations)


async def ingest_result(
    ingestor: EvidenceIngestor,
    session_id: str,
    call: ToolCall,
    result: str,
    *,
    shown: Iterable[ShownText] = (),
    options: IngestOptions | None = None,
    turn: TurnRecord | None = None,
) -> IngestResult:
    """Store the result of a recorded call as evidence that is linked with the call, and with `turn` if it is given.

    The arguments of the call identify the source of the result. Parts of the result that repeat a text in `shown` are
    left out. `options` are the options of the ingestor (None: the defaults).
    """
    skill = call.type is ToolType.SKILL
    asked = options or IngestOptions()
    metadata: Mapping[str, Any] = {"status": call.status.value, "tool": call.tool}
    links = EvidenceLinks(tool_call_id=call.tool_call_id)
    if turn is not None:
        links, metadata = place_in_turn(turn, links, metadata)
    return await ingestor.ingest(
        session_id,
        result,
        EvidenceSource(kind=SourceKind.SKILL if skill else SourceKind.TOOL, name=call.tool),
        EvidenceType.SKILL_OUTPUT if skill else EvidenceType.TOOL_RESULT,
        links=links,
        metadata=metadata,
        options=replace(
            asked,
            args=asked.args if asked.args is not None else call.args_digest or None,
            shown=(*asked.shown, *shown),
        ),
    )
