"""Operations on memory: evidence of a session, facts about users, worlds with their lore, and erasure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread

from jacquard.authoring.opening import find_world_faults
from jacquard.core.errors import ConfigError, InputTooLargeError, TemplateError, WorldUnavailableError
from jacquard.service.answers import Refusal
from jacquard.service.host_paths import texts_for
from jacquard.service.http.call_settings import id_from_key, options_for, verbs_for
from jacquard.service.http.operation import VIEWER, Call, Operation, Query
from jacquard.service.values import Scope
from mnemosyne.core.codec import parse_time
from mnemosyne.core.errors import (
    CodecError,
    EvidenceNotFoundError,
    RedactionError,
    SessionNotFoundError,
    WorldPackError,
)
from mnemosyne.schema.erasure import AuditRecord, Erasure
from mnemosyne.schema.evidence import Evidence, EvidenceLinks, EvidenceSource, EvidenceType
from mnemosyne.schema.ingest import IngestOptions, IngestResult
from mnemosyne.schema.memory import EMPTY, MemoryEntry, UserFact
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import load_world_json
from mnemosyne.world.pack_json import PACK_FORMAT, pack_to_json, with_own_digest

MOST_LISTED = 200
MOST_FAULTS = 50
"""Maximum number of reported faults of a pack, because each may be compared with many names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceRequest:
    """A text from outside to take into a session as evidence."""

    content: str
    source: EvidenceSource
    evidence_type: EvidenceType
    links: EvidenceLinks | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    options: IngestOptions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsRequest:
    """Facts about a user. With `dry_run` nothing is stored."""

    facts: tuple[UserFact, ...]
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldName:
    """A world of the store, and the digest of its present version."""

    world_id: str
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldDocument:
    """A world pack, and the version of its form: what a GET gives, a PUT takes."""

    pack: WorldPack
    format: int = PACK_FORMAT


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldRequest:
    """A `WorldDocument` whose faults are all reported, not only the first."""

    pack: dict[str, Any]
    format: int = PACK_FORMAT


@dataclass(frozen=True, kw_only=True, slots=True)
class LorePage:
    """Entries of lore in the order of the pack; `next` is the offset of the next page (null at the end)."""

    items: tuple[MemoryEntry, ...]
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureRequest:
    """Target of an erasure: one of a user, a session, evidence of a session. With `dry_run` nothing is changed."""

    user_id: str | None = None
    session_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureAnswer:
    """Data that an erasure removed, or would remove (`dry_run`), without any of its text.

    `counts` are the removed items by kind: empty if nothing was there. `done` is true if everything is gone and a search has
    proved it; `remains` are rows and files that still contain a text, `faults` items that could not be erased, `mentions` rows
    of others that contain the id as a word, `not_covered` the data that an erasure leaves by its rules.
    """

    dry_run: bool
    done: bool
    kind: str
    sessions: tuple[str, ...]
    touched: tuple[str, ...]
    messages: int
    evidences: int
    originals: int
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    audit_id: str = ""
    remains: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()


async def ingest(call: Call) -> IngestResult:
    """Take a text in as evidence."""
    sent = call.read(EvidenceRequest)
    options, key = options_for(call, sent.options), id_from_key(call, "evidence")
    if key is not None and options.idempotency_key is None:
        options = replace(options, idempotency_key=key)
    ingestor = call.runtime.engine.ingestor_of(call.session_id)
    return await ingestor.ingest(
        sent.content, sent.source, sent.evidence_type, links=sent.links, metadata=sent.metadata, options=options
    )


async def list_evidence(call: Call) -> tuple[Evidence, ...]:
    """List evidence."""
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


async def get_evidence(call: Call) -> Evidence:
    """Return an evidence item; EvidenceNotFoundError."""
    found = await call.runtime.store.get_evidence(call.session_id, call.ids["evidence_id"])
    if found is None:
        raise EvidenceNotFoundError(call.session_id, call.ids["evidence_id"])
    return found


async def remember(call: Call) -> tuple[UserFact, ...]:
    """Store facts about a user."""
    sent = call.read(FactsRequest)
    return await call.runtime.engine.remember(call.ids["user_id"], sent.facts, dry_run=sent.dry_run)


async def list_facts(call: Call) -> tuple[UserFact, ...]:
    """List facts about a user; raises ConfigError for a time without a zone."""
    text = call.query["at"]
    try:
        at = None if text is None else parse_time(text)
    except CodecError as error:
        raise ConfigError(f"at: {error}") from None
    return await call.runtime.engine.user_facts(call.ids["user_id"], at=at)


async def list_worlds(call: Call) -> tuple[WorldName, ...]:
    """List worlds."""
    worlds = dict(await call.runtime.store.worlds())
    if (given := call.runtime.world) is not None:
        worlds.setdefault(given.world_id, given.digest)
    return tuple(WorldName(world_id=name, digest=digest) for name, digest in sorted(worlds.items()))


async def _find_world(call: Call) -> WorldPack:
    world_id = call.ids["world_id"]
    if all(known.world_id != world_id for known in await list_worlds(call)):
        raise Refusal(404, "world_not_found", f"There is no world {world_id!r}; /api/v1/worlds lists all of them.")
    return await call.runtime.engine.worlds.world(world_id, write=False)


async def get_world(call: Call) -> dict[str, Any]:
    """Return a world's pack."""
    return await to_thread.run_sync(pack_to_json, await _find_world(call))


async def put_world(call: Call) -> WorldName:
    """Make a pack the present version of a world."""
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


async def list_lore(call: Call) -> LorePage:
    """List lore of a world."""
    world = await _find_world(call)
    begin, limit = call.query["offset"], call.query["limit"]
    found = await verbs_for(call).lore(world.world_id, call.query["query"])
    after = begin + limit
    return LorePage(items=found[begin:after], next=after if after < len(found) else None)


async def erase(call: Call) -> ErasureAnswer:
    """Erase, or say what would be erased; raises ConfigError for a request that names nothing or too much."""
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


async def list_audits(call: Call) -> tuple[AuditRecord, ...]:
    """List records of erasures."""
    return await call.runtime.store.audits()


_EVIDENCE = "/api/v1/sessions/{session_id}/evidence"
OPERATIONS = (
    Operation(
        name="ingest",
        method="POST",
        path=_EVIDENCE,
        doc="Take a text from outside into a session as evidence; what is sensitive is redacted first.",
        run=ingest,
        body=EvidenceRequest,
        answer=IngestResult,
        errors=(SessionNotFoundError, RedactionError, InputTooLargeError),
    ),
    Operation(
        name="list_evidences",
        method="GET",
        path=_EVIDENCE,
        doc="List the newest evidence of a session, in the order of writing.",
        run=list_evidence,
        answer=tuple[Evidence, ...],
        query=(
            Query(name="type", doc="Only evidence of this type."),
            Query(name="limit", doc="At most so many.", kind=int, default=50, least=1, most=MOST_LISTED),
        ),
        is_audited=True,
        errors=(SessionNotFoundError,),
    ),
    Operation(
        name="get_evidence",
        method="GET",
        path=f"{_EVIDENCE}/{{evidence_id}}",
        doc="Return an evidence item.",
        run=get_evidence,
        answer=Evidence,
        errors=(SessionNotFoundError, EvidenceNotFoundError),
        is_audited=True,
    ),
    Operation(
        name="remember",
        method="POST",
        path="/api/v1/users/{user_id}/facts",
        doc="Store facts about a user, which the prompts of all their sessions show.",
        run=remember,
        body=FactsRequest,
        answer=tuple[UserFact, ...],
        errors=(ConfigError, RedactionError, InputTooLargeError),
    ),
    Operation(
        name="user_facts",
        method="GET",
        path="/api/v1/users/{user_id}/facts",
        doc="List what is remembered about a user: all of it with the times of its validity, or what held at a time.",
        run=list_facts,
        answer=tuple[UserFact, ...],
        query=(Query(name="at", doc="A time as ISO 8601 with its zone."),),
        errors=(ConfigError,),
    ),
    Operation(
        name="list_worlds",
        method="GET",
        path="/api/v1/worlds",
        doc="List the worlds of the store.",
        run=list_worlds,
        answer=tuple[WorldName, ...],
        open_to_viewers=True,
    ),
    Operation(
        name="get_world",
        method="GET",
        path="/api/v1/worlds/{world_id}",
        doc="Return the present pack of a world.",
        run=get_world,
        scope=Scope.AUTHOR,
        answer=WorldDocument,
        errors=(WorldUnavailableError,),
        is_audited=True,
    ),
    Operation(
        name="put_world",
        method="PUT",
        path="/api/v1/worlds/{world_id}",
        doc="Make a pack the present version of a world; sessions of the world go on with it. It takes what `get_world` gives, and "
        "checks it as `jacquard author validate` does.",
        run=put_world,
        scope=Scope.AUTHOR,
        body=WorldRequest,
        described_body=WorldDocument,
        answer=WorldName,
        errors=(ConfigError, TemplateError, WorldPackError),
    ),
    Operation(
        name="list_lore",
        method="GET",
        path="/api/v1/worlds/{world_id}/lore",
        doc="List the lore of a world.",
        run=list_lore,
        scope=Scope.AUTHOR,
        answer=LorePage,
        query=(
            Query(name="query", doc="Only entries whose title and text contain these words.", default=""),
            VIEWER,
            Query(name="offset", doc="Begin behind so many.", kind=int, default=0, least=0, most=10**9),
            Query(name="limit", doc="At most so many.", kind=int, default=50, least=1, most=MOST_LISTED),
        ),
        errors=(WorldUnavailableError,),
        is_audited=True,
    ),
    Operation(
        name="erase",
        method="POST",
        path="/api/v1/erasures",
        doc="Erase a user, a session or evidence, and prove it by a search; with `dry_run`, say what would be erased.",
        run=erase,
        scope=Scope.ADMIN,
        body=ErasureRequest,
        answer=ErasureAnswer,
        errors=(SessionNotFoundError, ConfigError),
        is_audited=True,
    ),
    Operation(
        name="list_audits",
        method="GET",
        path="/api/v1/audits",
        doc="List the records of erasures.",
        run=list_audits,
        scope=Scope.ADMIN,
        answer=tuple[AuditRecord, ...],
    ),
)
