"""Reads the data that a turn needs, in one transaction: first when the turn begins, then when its memories are chosen.

Each function runs inside a transaction that its caller has opened; none of them writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mnemosyne.core.codec import encode
from mnemosyne.core.errors import DamagedRecordError, TurnNotFoundError
from mnemosyne.damage import note_of
from mnemosyne.schema.memory import Chain, session_scope, world_scope
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import ChosenInputs, TurnInputs
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.parts import list_newest_evidences, read_context_blocks, read_evidences
from mnemosyne.stores.sql.read_bodies import ScopeMark
from mnemosyne.stores.sql.reading.entries import (
    ENTERED_CHAINS,
    NEWEST,
    find_kept,
    list_gated,
    places_of,
    read_entries,
)
from mnemosyne.stores.sql.reading.turns import rebuild_state
from mnemosyne.stores.sql.reading.window import window_of
from mnemosyne.stores.sql.sessions import StoredSession, load_head, load_session

_OF_A_SESSION = (Chain.LORE, Chain.NARRATIVE, Chain.EVENT)
_SPOKEN = "(SELECT max(seq) FROM messages WHERE session = ? AND recalled <> 0)"
_WRITTEN = f"SELECT {_SPOKEN}, {NEWEST}, {NEWEST}"


def read_turn_inputs(
    connection: Connection,
    session_id: str,
    message_limit: int,
    branch_id: str | None,
    evidences: Sequence[EvidenceFilter],
    blocks: BlockFilter | None,
) -> TurnInputs:
    """Return everything that a turn reads when it begins.

    `evidences` are the filters of the evidence lists to read. Raises SessionNotFoundError or BranchNotFoundError if
    there is no such session or branch.
    """
    session, head = load_head(connection, session_id, branch_id)
    window = window_of(connection, session, head, message_limit)
    written, marks = _read_written(connection, session)
    kept = {scope: find_kept(connection, scope, mark) for scope, mark in marks.items()}
    return TurnInputs(
        window=window,
        evidences=tuple(list_newest_evidences(connection, session, where, window) for where in evidences),
        blocks=read_context_blocks(connection, session.key, blocks or BlockFilter()),
        gated=list_gated(connection, kept),
        written=written,
        kept_entries={scope: each.entries for scope, each in kept.items()},
    )


def _read_written(
    connection: Connection, session: StoredSession
) -> tuple[dict[tuple[str, Chain], int], dict[str, ScopeMark]]:
    """Return the sequence of the newest entry of each chain that recall reads, or 0 for none; and the marks of the scopes
    of the world and the session.
    """
    world, own = world_scope(session.world_id), session.scope
    values = session.key, *places_of(connection, world), *places_of(connection, own)
    spoken, *newest = connection.execute(_WRITTEN, values).fetchone()
    of_world, of_session = newest[: len(ENTERED_CHAINS)], newest[len(ENTERED_CHAINS) :]
    lore, entered = dict(zip(ENTERED_CHAINS, of_world, strict=True)), dict(zip(ENTERED_CHAINS, of_session, strict=True))
    written = {(own, Chain.HISTORY): spoken or 0, (world, Chain.LORE): lore[Chain.LORE] or 0}
    return written | {(own, chain): entered[chain] or 0 for chain in _OF_A_SESSION}, {
        world: ScopeMark(session=None, newest=tuple(of_world)),
        own: ScopeMark(session=session.mark, newest=tuple(of_session)),
    }


def read_chosen_inputs(
    connection: Connection,
    session_id: str,
    entry_ids: Mapping[str, Sequence[str]],
    evidence_ids: Collection[str],
    turn_ids: Sequence[str],
) -> ChosenInputs:
    """Return the entries of the chosen memories (by scope), evidence items by id, and the states after the turns
    `turn_ids`.

    Unknown and damaged turns have no state in the result.
    """
    session = load_session(connection, session_id)
    states: dict[str, Mapping[str, Any]] = {}
    for turn_id in turn_ids:
        try:
            states[turn_id] = _read_state(connection, session, turn_id)
        except TurnNotFoundError:
            continue
        except DamagedRecordError as error:
            connection.log.add(note_of(error, session_scope(session_id)))
    where = EvidenceFilter(evidence_ids=frozenset(evidence_ids))
    return ChosenInputs(
        entries={scope: read_entries(connection, scope, ids) for scope, ids in entry_ids.items()},
        evidences=read_evidences(connection, session.key, where) if evidence_ids else (),
        states=states,
    )


def _read_state(connection: Connection, session: StoredSession, turn_id: str) -> Mapping[str, Any]:
    """Return the state after a committed turn, if it is kept for this version of the session without rebuilding it."""
    kept = connection.bodies.scopes
    state = kept.find_state(session.scope, session.mark, turn_id)
    if state is None:
        state = rebuild_state(connection, session, turn_id)[0]
        kept.keep_state(session.scope, session.mark, turn_id, state, len(encode(state)))
    return state
