"""Addresses that lead back to what they name: `mnemosyne://<scope>/<chain>/<entry>` and `mnemosyne://<session>/turn/<turn>`.

The room exists because evidence carries addresses (seed 000 section 7: a `source_uri` must lead back to its source), and
whoever reads one must come out where its writer stood. It knows the Store by its protocol only.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from mnemosyne.chains.event import closed_quests
from mnemosyne.errors import UriError
from mnemosyne.protocols import Store
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope
from mnemosyne.schema.record import TurnRecord

SCHEME = "mnemosyne://"
_TURN = "turn"
_SESSION = session_scope("")


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryAddress:
    """One entry of memory."""

    scope: str
    chain: Chain
    entry_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnAddress:
    """One turn of a session."""

    session_id: str
    turn_id: str


def entry_uri(entry: MemoryEntry) -> str:
    """Return the address of an entry."""
    return format_uri(EntryAddress(scope=entry.scope, chain=entry.chain, entry_id=entry.entry_id))


def turn_uri(session_id: str, turn_id: str) -> str:
    """Return the address of a turn."""
    return format_uri(TurnAddress(session_id=session_id, turn_id=turn_id))


def format_uri(address: EntryAddress | TurnAddress) -> str:
    """Return an address as text; `parse_uri(format_uri(a)) == a`."""
    if isinstance(address, TurnAddress):
        parts = (session_scope(address.session_id), _TURN, address.turn_id)
    else:
        parts = (address.scope, address.chain.value, address.entry_id)
    return SCHEME + "/".join(quote(part, safe=":", errors="surrogatepass") for part in parts)


def parse_uri(uri: str) -> EntryAddress | TurnAddress:
    """Return what an address names; UriError for text that is no such address."""
    if not uri.startswith(SCHEME):
        raise UriError(uri, f"it does not begin with {SCHEME}")
    parts = uri.removeprefix(SCHEME).split("/")
    if len(parts) != 3 or not all(parts):
        raise UriError(uri, "it has not three parts: scope, chain (or `turn`), id")
    try:
        scope, chain, name = (unquote(part, errors="surrogatepass") for part in parts)
    except UnicodeDecodeError:
        raise UriError(uri, "its escapes are no UTF-8") from None
    if chain == _TURN:
        if not scope.startswith(_SESSION):
            raise UriError(uri, f"a turn belongs to a session, as in {SCHEME}{_SESSION}demo/turn/p001")
        return TurnAddress(session_id=scope.removeprefix(_SESSION), turn_id=name)
    if chain not in set(Chain):
        raise UriError(uri, f"{chain!r} is no chain; there are {', '.join(Chain)} and {_TURN}")
    return EntryAddress(scope=scope, chain=Chain(chain), entry_id=name)


async def resolve_uri(store: Store, uri: str) -> MemoryEntry | TurnRecord:
    """Return the entry or turn that an address names.

    A quest that is over lies in no store: it is made from the state of its session's active branch, else of any other.
    UriError when the address is none or names nothing that is there; SessionNotFoundError, TurnNotFoundError.
    """
    address = parse_uri(uri)
    if isinstance(address, TurnAddress):
        return await store.turn(address.session_id, address.turn_id)
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
    raise UriError(uri, "nothing is there under this name; it may have been erased")
