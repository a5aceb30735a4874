"""Writes and reads the addresses of memory entries, turns and evidence, and finds the object of an address.

A scope is one session or one world. The forms are `mnemosyne://<scope>/<chain>/<entry>`,
`mnemosyne://<session>/turn/<turn>` and `mnemosyne://<session>/evidence/<evidence>`. One module both writes and reads
addresses, so that a `source_uri` always leads back to its source.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from mnemosyne.chains.event import closed_quests
from mnemosyne.core.errors import UriError
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope
from mnemosyne.schema.query import Candidate
from mnemosyne.schema.record import TurnRecord
from mnemosyne.values import dataclass

SCHEME = "mnemosyne://"
_TURN = "turn"
_EVIDENCE = "evidence"
_SESSION = session_scope("")
_PLAIN = re.compile(r"[A-Za-z0-9_.~:-]*")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.~:/-]*")
_NOTHING = "nothing has this name; it may have been erased"


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryAddress:
    """Address of one memory entry."""

    scope: str
    chain: Chain
    entry_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnAddress:
    """Address of one turn of a session."""

    session_id: str
    turn_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceAddress:
    """Address of one evidence item of a session, such as a tool result."""

    session_id: str
    evidence_id: str


Address = EntryAddress | TurnAddress | EvidenceAddress


def entry_uri(entry: MemoryEntry | Candidate) -> str:
    """Return the address of a memory entry, or of the entry of a candidate."""
    return format_entry_uri(entry.scope, entry.chain, entry.entry_id)


def format_entry_uri(scope: str, chain: Chain, entry_id: str) -> str:
    """Return the address of the entry `entry_id` in a scope and a chain."""
    # A prompt has a hundred addresses, most of them of plain names; this is the result of `format_uri` for those.
    name = f"{scope}/{chain}/{entry_id}"
    if name.count("/") == 2 and _PLAIN_NAME.fullmatch(name):
        return SCHEME + name
    return format_uri(EntryAddress(scope=scope, chain=chain, entry_id=entry_id))


def turn_uri(session_id: str, turn_id: str) -> str:
    """Return the address of a turn."""
    return format_uri(TurnAddress(session_id=session_id, turn_id=turn_id))


def evidence_uri(session_id: str, evidence_id: str) -> str:
    """Return the address of an evidence item."""
    return format_uri(EvidenceAddress(session_id=session_id, evidence_id=evidence_id))


def format_uri(address: Address) -> str:
    """Return an address as text, so that `parse_uri(format_uri(a)) == a`."""
    match address:
        case TurnAddress(session_id=session_id, turn_id=turn_id):
            parts = (session_scope(session_id), _TURN, turn_id)
        case EvidenceAddress(session_id=session_id, evidence_id=evidence_id):
            parts = (session_scope(session_id), _EVIDENCE, evidence_id)
        case EntryAddress(scope=scope, chain=chain, entry_id=entry_id):
            parts = (scope, chain.value, entry_id)
    return SCHEME + "/".join(map(_escape, parts))


def _escape(part: str) -> str:
    # A receipt has a hundred addresses, and `quote` takes a while to find that there is nothing to do.
    return part if _PLAIN.fullmatch(part) else quote(part, safe=":", errors="surrogatepass")


def parse_uri(uri: str) -> Address:
    """Return the parts of the address `uri`. Raises UriError for any other text."""
    if not uri.startswith(SCHEME):
        raise UriError(uri, f"it does not begin with {SCHEME}")
    parts = uri.removeprefix(SCHEME).split("/")
    if len(parts) != 3 or not all(parts):
        raise UriError(uri, "it does not have three parts: scope, chain (or `turn`, `evidence`), id")
    try:
        scope, chain, name = (unquote(part, errors="surrogatepass") for part in parts)
    except UnicodeDecodeError:
        raise UriError(uri, "its escapes are not UTF-8") from None
    if chain in (_TURN, _EVIDENCE):
        if not scope.startswith(_SESSION):
            raise UriError(uri, f"it belongs to a session, as in {SCHEME}{_SESSION}demo/{chain}/{name}")
        session_id = scope.removeprefix(_SESSION)
        if chain == _TURN:
            return TurnAddress(session_id=session_id, turn_id=name)
        return EvidenceAddress(session_id=session_id, evidence_id=name)
    if chain not in set(Chain):
        raise UriError(uri, f"{chain!r} is not a chain; the chains are {', '.join(Chain)}, {_TURN} and {_EVIDENCE}")
    return EntryAddress(scope=scope, chain=Chain(chain), entry_id=name)


async def resolve_uri(store: Store, uri: str) -> MemoryEntry | TurnRecord | Evidence:
    """Return the entry, turn or evidence that has the address `uri`.

    The entry of an ended quest is not stored. It is computed from the state of the session's active branch or, if that state does
    not have the quest, from the state of another branch.

    Raises:
        UriError: if the address is malformed, or its entry or evidence does not exist.
        SessionNotFoundError: if the session of the address does not exist.
        TurnNotFoundError: if the turn of the address does not exist.
    """
    address = parse_uri(uri)
    if isinstance(address, TurnAddress):
        return await store.turn(address.session_id, address.turn_id)
    if isinstance(address, EvidenceAddress):
        return await _evidence(store, uri, address)
    for entry in await store.entries(address.scope, [address.entry_id]):
        if entry.chain is address.chain:
            return entry
    if address.chain is Chain.EVENT and address.scope.startswith(_SESSION):
        session_id = address.scope.removeprefix(_SESSION)
        for head in await store.branches(session_id):
            state = await store.state_at(session_id, head.turn_id)
            for quest in closed_quests(state, session_id):
                if quest.entry_id == address.entry_id:
                    return quest
    raise UriError(uri, _NOTHING)


async def _evidence(store: Store, uri: str, address: EvidenceAddress) -> Evidence:
    found = await store.get_evidence(address.session_id, address.evidence_id)
    if found is None:
        raise UriError(uri, _NOTHING)
    return found
