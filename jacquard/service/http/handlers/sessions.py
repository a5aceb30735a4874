"""Handlers for sessions, their branches (alternative continuations) and their state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anyio import to_thread

from jacquard.memory.consolidate.consolidator import ConsolidationResult
from jacquard.memory.verbs.find import has_words
from jacquard.remote.bodies import (
    AdoptRequest,
    ConsolidateRequest,
    Conversation,
    ConversationPage,
    DocumentRequest,
    ForkRequest,
    PastTurn,
    RollbackRequest,
    SessionPage,
    SessionRequest,
    SwitchRequest,
    TurnPage,
    UpstreamState,
)
from jacquard.remote.wire import MOST_LINE_CHARS, message_from_wire
from jacquard.service.host_paths import texts_for
from jacquard.service.http.call import Call, handles
from jacquard.service.http.call_settings import id_from_key, verbs_for
from jacquard.service.http.viewer_guard import check_left_turns
from jacquard.service.ids import check_ids
from jacquard.service.proxy.upstreams.opening import find_models, show_upstream
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.core import codec
from mnemosyne.core.errors import (
    BranchExistsError,
    SessionNotFoundError,
)
from mnemosyne.documents.session_json import document_from_json, document_to_json
from mnemosyne.evidence.documents import index_documents
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.memory import is_profile_session
from mnemosyne.schema.record import PutResult, TurnRecord
from mnemosyne.schema.session import Role, SessionHead

MOST_SEARCHED = 200
"""Maximum number of sessions of which one call compares the titles with words."""


@handles
async def list_sessions(call: Call) -> SessionPage:
    """List a page of sessions; a query may limit it to sessions whose ids contain its words."""
    wanted, after, limit = call.query["query"], call.query["after"], call.query["limit"]
    names = [each for each in await call.runtime.store.sessions() if each > after and not is_profile_session(each)]
    found = [each for each in names if has_words(each, wanted)]
    return SessionPage(items=tuple(found[:limit]), next=found[limit - 1] if len(found) > limit else None)


@handles
async def list_conversations(call: Call) -> ConversationPage:
    """List a page of sessions, newest first, with their first and newest messages."""
    wanted, after, limit = call.query["query"], call.query["after"], call.query["limit"]
    names = [each for each in await call.runtime.store.sessions_by_time() if not is_profile_session(each)]
    names = names[names.index(after) + 1 :] if after in names else names
    items, last = list[Conversation](), ""
    for last in names[:MOST_SEARCHED] if wanted else names[:limit]:
        found = await _describe(call, last)
        if has_words(f"{last} {found.title}", wanted):
            items.append(found)
        if len(items) == limit:
            break
    return ConversationPage(items=tuple(items), next=last if names and last != names[-1] else None)


async def _describe(call: Call, session_id: str) -> Conversation:
    store = call.runtime.store
    window = await store.window(session_id, message_limit=1)
    # The first turn may be a greeting, which has no message of the user.
    first = await store.turns(session_id, limit=2, before_depth=3)
    begins = [each for turn in first for each in turn.messages if each.role is Role.USER]
    newest = window.messages[-1].message if window.messages else None
    return Conversation(
        session_id=session_id,
        world_id=window.head.world_id,
        title=_shorten(begins[0].content) if begins else "",
        last="" if newest is None else _shorten(newest.content),
        last_role="" if newest is None else newest.role.value,
        at=None if newest is None else newest.at,
        turns=window.head.depth,
    )


def _shorten(text: str) -> str:
    line = " ".join(text[: 4 * MOST_LINE_CHARS].split())
    return line if len(line) <= MOST_LINE_CHARS else f"{line[: MOST_LINE_CHARS - 1]}…"


@handles
async def get_upstream(call: Call) -> UpstreamState:
    """Ask the model server of the proxy for its models."""
    fault, models = await find_models(call.settings)
    return UpstreamState(address=show_upstream(call.settings), fault=fault, models=models)


@handles
async def start_session(call: Call) -> SessionHead:
    """Start a session in the world that the request names, or else in the world of the service."""
    sent, engine = call.read(SessionRequest), call.runtime.engine
    if sent.world_id is None:
        return await call.runtime.ensure_session(sent.session_id)
    return await engine.start_session(sent.session_id, await engine.worlds.world(sent.world_id))


@handles
async def get_session_head(call: Call) -> SessionHead:
    """Return the head of a branch (its newest turn)."""
    return await call.runtime.store.head(call.session_id, call.query["branch"])


@handles
async def get_document(call: Call) -> dict[str, Any]:
    """Return the whole session as a document. Raises SessionNotFoundError if there is no such session."""
    document = await call.runtime.store.get_session(call.session_id, branch_id=call.query["branch"])
    if document is None:
        raise SessionNotFoundError(call.session_id)
    return await to_thread.run_sync(document_to_json, document)


@handles
async def put_document(call: Call) -> PutResult:
    """Replace the session by a document, if the session still has the expected version."""
    sent = call.read(DocumentRequest)
    document = await to_thread.run_sync(_read_document, sent.document)
    done = await call.runtime.store.put_session(call.session_id, document, expected_version=sent.expected_version)
    await index_documents(call.runtime.store, call.session_id)
    return done


def _read_document(sent: Mapping[str, Any]) -> SessionDocument:
    document = document_from_json(sent)
    check_ids(document)
    check_ids(tuple(document.evidences.values()))
    return document


@handles
async def list_turns(call: Call) -> TurnPage:
    """List a page of committed turns, with the messages that the viewer of the token may read."""
    limit, before = call.query["limit"], call.query["before"]
    found = await call.runtime.store.turns(
        call.session_id, limit=limit, branch_id=call.query["branch"], before_depth=before
    )
    oldest = found[0].depth if found else 1
    viewer = call.principal.viewer
    return TurnPage(items=tuple(_show_turn(each, viewer) for each in found), before=oldest if oldest > 1 else None)


def _show_turn(record: TurnRecord, viewer: str | None) -> PastTurn:
    messages = record.messages
    if viewer is not None:
        messages = tuple(each for each in messages if may_read(read_audience(each.extra), viewer))
    return PastTurn(
        turn_id=record.turn_id,
        branch_id=record.branch_id,
        depth=record.depth,
        kind=record.kind,
        status=record.status,
        messages=messages,
    )


@handles
async def adopt_messages(call: Call) -> SessionHead:
    """Add messages to a session that were exchanged elsewhere."""
    messages = [message_from_wire(each) for each in call.read(AdoptRequest).messages]
    return await call.runtime.engine.adopt_messages(call.session_id, messages)


@handles
async def list_messages(call: Call) -> bytes:
    """Return the newest messages of a branch that the viewer of the token may read."""
    window = await call.runtime.store.window(
        call.session_id, message_limit=call.query["limit"], branch_id=call.query["branch"]
    )
    viewer = call.principal.viewer
    shown = [
        each.message
        for each in window.messages
        if viewer is None or may_read(read_audience(each.message.extra), viewer)
    ]
    return codec.encode(shown)


@handles
async def fork(call: Call) -> SessionHead:
    """Open a branch after a turn. The same call with the same idempotency key returns the branch that the first one opened."""
    sent = call.read(ForkRequest)
    branch_id = sent.branch_id or id_from_key(call, "branch")
    await check_left_turns(call, sent.turn_id)
    try:
        return await call.runtime.engine.fork(call.session_id, sent.turn_id, branch_id)
    except BranchExistsError:
        if sent.branch_id is not None or branch_id is None:
            raise
        # The same key once more: the branch is that of the first call.
        return await call.runtime.engine.switch(call.session_id, branch_id)


@handles
async def switch(call: Call) -> SessionHead:
    """Make another branch the active one."""
    branch_id = call.read(SwitchRequest).branch_id
    await check_left_turns(call, branch_id=branch_id)
    return await call.runtime.engine.switch(call.session_id, branch_id)


@handles
async def rollback(call: Call) -> SessionHead:
    """Go back to a committed turn; the session continues after this turn."""
    turn_id = call.read(RollbackRequest).turn_id
    await check_left_turns(call, turn_id)
    return await call.runtime.engine.rollback(call.session_id, turn_id)


@handles
async def consolidate(call: Call) -> ConsolidationResult:
    """Make memories from the turns of a branch."""
    sent = call.read(ConsolidateRequest)
    done = await call.runtime.engine.consolidate(
        call.session_id, branch_id=sent.branch_id, chapter_ends=sent.chapter_ends
    )
    return replace(done, failures=texts_for(call.principal, done.failures))


@handles
async def get_state(call: Call) -> Mapping[str, Any]:
    """Return the state after a turn (by default, after the newest). Raises ConfigError if the branch has no turn with the
    number `as_of_turn`.
    """
    if (turn_id := call.query["turn"]) is not None:
        return await call.runtime.store.state_at(call.session_id, turn_id)
    branch_id, as_of_turn = call.query["branch"], call.query["as_of_turn"]
    return await verbs_for(call).get_state(call.session_id, branch_id=branch_id, as_of_turn=as_of_turn)
