"""Handlers for memory: evidence (stored source texts), facts about users, worlds with their lore, memories written by
hand, and erasure.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread

from jacquard.authoring.opening import find_world_faults
from jacquard.core.errors import (
    ConfigError,
    MemoryNotFoundError,
)
from jacquard.memory.verbs.browse import MemoryFilter, MemoryPage, MemoryUses, find_memory_uses
from jacquard.memory.verbs.browse import browse_memory as find_page
from jacquard.memory.verbs.find import find_erasable, find_memory
from jacquard.memory.verbs.log import load_pin
from jacquard.memory.verbs.values import Memory, MemoryEdit
from jacquard.remote.bodies import (
    BulkAction,
    BulkAnswer,
    BulkRequest,
    ErasureAnswer,
    ErasureRequest,
    EvidenceRequest,
    ForgottenMemory,
    LorePage,
    RememberRequest,
    WorldName,
    WorldRequest,
)
from jacquard.service.answers import Refusal
from jacquard.service.host_paths import texts_for
from jacquard.service.http.call import Call, handles
from jacquard.service.http.call_settings import id_from_key, options_for, verbs_for
from mnemosyne.core.codec import parse_time
from mnemosyne.core.errors import (
    CodecError,
    EvidenceNotFoundError,
    WorldPackError,
)
from mnemosyne.schema.erasure import AuditRecord, Erasure
from mnemosyne.schema.evidence import Evidence, EvidenceType
from mnemosyne.schema.ingest import IngestResult
from mnemosyne.schema.memory import StoryFact, UserFact
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import load_world_json
from mnemosyne.world.pack_json import pack_to_json, with_own_digest

MOST_FAULTS = 50
"""Maximum number of faults of a pack that are searched for, because each may be compared with many names."""


@handles
async def ingest(call: Call) -> IngestResult:
    """Store a text as evidence."""
    sent = call.read(EvidenceRequest)
    options, key = options_for(call, sent.options), id_from_key(call, "evidence")
    if key is not None and options.idempotency_key is None:
        options = replace(options, idempotency_key=key)
    ingestor = call.runtime.engine.ingestor_of(call.session_id)
    return await ingestor.ingest(
        sent.content, sent.source, sent.evidence_type, links=sent.links, metadata=sent.metadata, options=options
    )


@handles
async def list_evidences(call: Call) -> tuple[Evidence, ...]:
    """List the newest evidence of a session; the call may ask for one type only."""
    kind = call.query["type"]
    where = EvidenceFilter(
        types=None if kind is None else frozenset({_evidence_type(kind)}), limit=call.query["limit"], newest=True
    )
    return await call.runtime.store.list_evidences(call.session_id, where)


def _evidence_type(name: str) -> EvidenceType:
    try:
        return EvidenceType(name)
    except ValueError:
        raise ConfigError(f"type is {name[:40]!r}; choose from {', '.join(EvidenceType)}.") from None


@handles
async def get_evidence(call: Call) -> Evidence:
    """Return an evidence item. Raises EvidenceNotFoundError if the session has none with this id."""
    found = await call.runtime.store.get_evidence(call.session_id, call.ids["evidence_id"])
    if found is None:
        raise EvidenceNotFoundError(call.session_id, call.ids["evidence_id"])
    return found


@handles
async def user_facts(call: Call) -> tuple[UserFact, ...]:
    """List the facts about a user, at the time `at` if the call names one. Raises ConfigError if the time is invalid or
    has no zone.
    """
    text = call.query["at"]
    try:
        at = None if text is None else parse_time(text)
    except CodecError as error:
        raise ConfigError(f"at: {error}") from None
    return await call.runtime.engine.user_facts(call.ids["user_id"], at=at)


@handles
async def list_worlds(call: Call) -> tuple[WorldName, ...]:
    """List the worlds in the store, and the world that the service was started with."""
    worlds = dict(await call.runtime.store.worlds())
    if (given := call.runtime.world) is not None:
        worlds.setdefault(given.world_id, given.digest)
    return tuple(WorldName(world_id=name, digest=digest) for name, digest in sorted(worlds.items()))


async def find_world(call: Call) -> WorldPack:
    """Return the pack of the world that a call names. Raises Refusal if there is no such world."""
    world_id = call.ids["world_id"]
    if all(known.world_id != world_id for known in await list_worlds(call)):
        raise Refusal(404, "world_not_found", f"There is no world {world_id!r}; /api/v1/worlds lists all of them.")
    return await call.runtime.engine.worlds.world(world_id, write=False)


@handles
async def get_world(call: Call) -> dict[str, Any]:
    """Return the pack of a world (its authored content) as JSON."""
    return await to_thread.run_sync(pack_to_json, await find_world(call))


@handles
async def put_world(call: Call) -> WorldName:
    """Store a pack as the present version of a world."""
    world = await to_thread.run_sync(_read_pack, call.ids["world_id"], call.read(WorldRequest))
    await call.runtime.engine.worlds.store_pack(world)
    return WorldName(world_id=world.world_id, digest=world.digest)


def _read_pack(world_id: str, sent: WorldRequest) -> WorldPack:
    """Return a pack as it was sent, checked; its digest is that of what was sent, and it has no folder: a path would be one of this
    host. WorldPackError with all faults.
    """
    world = load_world_json({"format": sent.format, "pack": sent.pack}, most_faults=MOST_FAULTS)
    if world.world_id != world_id:
        raise ConfigError(f"The pack is of world {world.world_id!r}, the address of {world_id!r}; give both the same.")
    world = with_own_digest(world)
    if faults := find_world_faults(world):
        raise WorldPackError(tuple(faults[:MOST_FAULTS]))
    return world


@handles
async def list_lore(call: Call) -> LorePage:
    """List a page of the lore of a world; a query may limit it to matching entries."""
    world = await find_world(call)
    begin, limit = call.query["offset"], call.query["limit"]
    found = await verbs_for(call).lore(world.world_id, call.query["query"])
    after = begin + limit
    return LorePage(items=found[begin:after], next=after if after < len(found) else None)


@handles
async def erase(call: Call) -> ErasureAnswer:
    """Erase a user, a session or single evidence items. A dry run only reports what would be erased.

    Raises ConfigError if the request does not name exactly one of them.
    """
    sent = call.read(ErasureRequest)
    subjects = (
        sent.user_id is not None,
        sent.session_id is not None and not sent.evidence_ids,
        bool(sent.evidence_ids),
    )
    if sum(subjects) != 1 or (sent.evidence_ids and sent.session_id is None):
        raise ConfigError("Say what to erase: user_id, or session_id, or evidence_ids with their session_id.")
    erasure = Erasure(
        at=datetime.now(UTC),
        user_id=sent.user_id,
        session_id=sent.session_id,
        evidence_ids=sent.evidence_ids,
        reason=sent.reason,
    )
    if sent.dry_run:
        plan = await call.runtime.plan_erasure(erasure)
        return ErasureAnswer(
            dry_run=True,
            done=False,
            kind=plan.kind,
            sessions=plan.whole,
            touched=plan.touched,
            messages=plan.messages,
            evidences=plan.evidences,
            originals=plan.originals,
            remains=plan.places,
        )
    report = await call.runtime.forget(erasure)
    return ErasureAnswer(
        dry_run=False,
        done=report.done,
        kind=report.plan.kind,
        sessions=report.outcome.sessions,
        touched=report.outcome.touched,
        messages=report.plan.messages,
        evidences=report.plan.evidences,
        originals=report.originals,
        counts=dict(report.outcome.counts),
        audit_id=report.outcome.audit_id,
        remains=texts_for(call.principal, (*report.proof.places, *report.proof.found_files)),
        faults=texts_for(call.principal, report.faults),
        mentions=report.proof.mentions,
        not_covered=report.not_covered,
    )


@handles
async def list_audits(call: Call) -> tuple[AuditRecord, ...]:
    """List the records of past erasures."""
    return await call.runtime.store.audits()


@handles
async def remember_memory(call: Call) -> MemoryEdit:
    """Store a text as a memory of the session."""
    sent = call.read(RememberRequest)
    key = id_from_key(call, "memory")
    return await verbs_for(call).remember(call.session_id, sent.text, title=sent.title, key=key, dry_run=sent.dry_run)


@handles
async def forget_memory(call: Call) -> ForgottenMemory:
    """Erase a memory of the session."""
    gone = await verbs_for(call).forget(call.session_id, call.ids["memory_id"], reason=call.query["reason"])
    return ForgottenMemory(evidence_ids=gone)


@handles
async def browse_memory(call: Call) -> MemoryPage:
    """List a page of the memories of a session."""
    asked = dict(call.query)
    branch_id, cursor, limit = asked.pop("branch"), asked.pop("cursor"), asked.pop("limit")
    as_of_turn = asked.pop("as_of_turn")
    del asked["viewer"]
    where = MemoryFilter(author=asked.pop("by"), **asked)
    return await find_page(
        call.runtime.store,
        call.session_id,
        where,
        viewer=call.principal.viewer,
        branch_id=branch_id,
        as_of_turn=as_of_turn,
        cursor=cursor,
        limit=limit,
    )


@handles
async def list_facts(call: Call) -> tuple[StoryFact, ...]:
    """List the facts of the story on a branch."""
    asked = dict(call.query)
    branch_id = asked.pop("branch")
    del asked["viewer"]
    return await verbs_for(call).facts(call.session_id, branch_id=branch_id, **asked)


@handles
async def memory_uses(call: Call) -> MemoryUses:
    """List the turns whose prompts had a memory. A caller with a viewer gets only turns of this viewer."""
    store, session_id, viewer = call.runtime.store, call.session_id, call.principal.viewer
    memory = await verbs_for(call).memory(session_id, call.ids["memory_id"])
    return await find_memory_uses(store, session_id, memory, viewer=viewer, before=call.query["before"])


@handles
async def change_memories(call: Call) -> BulkAnswer:
    """Change several memories, after all of them were checked. Raises ConfigError with every memory that cannot be changed."""
    sent, verbs, store, viewer = call.read(BulkRequest), verbs_for(call), call.runtime.store, call.principal.viewer
    memories, faults = list[Memory](), list[str]()
    find = find_erasable if sent.action is BulkAction.FORGET else find_memory
    for memory_id in dict.fromkeys(sent.memory_ids):
        try:
            memory = await find(store, call.session_id, memory_id, viewer, all_viewers=viewer is None)
        except (ConfigError, MemoryNotFoundError) as error:
            faults.append(str(error))
            continue
        memories.append(memory)
        if sent.action is BulkAction.UNPIN and await load_pin(store, call.session_id, memory.memory_id) is None:
            faults.append(f"Memory {memory_id!r} is not pinned.")
    if faults or not memories:
        raise ConfigError("\n".join(("Nothing was changed.", *(faults or ("memory_ids is empty; name memories.",)))))
    for each in () if sent.dry_run else memories:
        if sent.action is BulkAction.FORGET:
            await verbs.forget(call.session_id, each.memory_id, reason=sent.reason)
        elif sent.action is BulkAction.PIN:
            await verbs.pin(call.session_id, each.memory_id)
        else:
            await verbs.unpin(call.session_id, each.memory_id)
    return BulkAnswer(action=sent.action, dry_run=sent.dry_run, memories=tuple(memories))
