"""RemoteVerbs: the memory verbs of a service, with the methods of `jacquard.wiring.verbs.MemoryVerbs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from jacquard import FoundMemory, Memory, MemoryEdit
from jacquard.client.connection import Connection
from mnemosyne.core import codec
from mnemosyne.schema.memory import LoreCategory, MemoryEntry
from mnemosyne.schema.session import SessionHead

T = TypeVar("T")
_PAGE = 200


class RemoteVerbs:
    """Manual operations of a caller on the memory of a service; `RemoteEngine.verbs` returns them.

    `author` and `viewer` are those of `MemoryVerbs`; with a token, edits are the token's, and its viewer is the only one. Calls
    raise the errors of `MemoryVerbs`, ServiceUnreachableError, and ServiceError for errors that only a service has.
    """

    def __init__(self, connection: Connection, *, author: str | None = None, viewer: str | None = None) -> None:
        self._connection = connection
        self._viewer = {} if viewer is None else {"viewer": viewer}
        self._author = {} if author is None else {"author": author}

    async def sessions(self, query: str = "", *, limit: int = 50) -> tuple[SessionHead, ...]:
        """Call `MemoryVerbs.sessions`; at most 200."""
        told = await self._ask(dict, "GET", ("sessions",), query={"query": query, "limit": min(limit, _PAGE)})
        return tuple([await self._ask(SessionHead, "GET", ("sessions", name)) for name in told["items"]])

    async def search(self, session_id: str, text: str, *, limit: int = 10) -> tuple[FoundMemory, ...]:
        """Call `MemoryVerbs.search`."""
        address, body = ("sessions", session_id, "memory", "search"), {"text": text, "limit": limit}
        return await self._ask(tuple[FoundMemory, ...], "POST", address, body, query=self._viewer)

    async def memory(self, session_id: str, memory_id: str) -> Memory:
        """Call `MemoryVerbs.memory`."""
        return await self._ask(Memory, "GET", ("sessions", session_id, "memory", memory_id), query=self._viewer)

    async def remember(
        self, session_id: str, text: str, *, title: str = "", key: str | None = None, dry_run: bool = False
    ) -> MemoryEdit:
        """Call `MemoryVerbs.remember`."""
        body = {"text": text, "title": title, "dry_run": dry_run}
        return await self._edit("POST", ("sessions", session_id, "memory"), body, key=key)

    async def edit(self, session_id: str, memory_id: str, text: str, *, dry_run: bool = False) -> MemoryEdit:
        """Call `MemoryVerbs.edit`."""
        body = {"text": text, "dry_run": dry_run}
        return await self._edit("PATCH", ("sessions", session_id, "memory", memory_id), body, once=True)

    async def supersede(self, session_id: str, memory_id: str, text: str = "", *, dry_run: bool = False) -> MemoryEdit:
        """Call `MemoryVerbs.supersede`."""
        body = {"text": text, "dry_run": dry_run}
        return await self._edit("POST", (*_one(session_id, memory_id), "supersede"), body, once=True)

    async def pin(self, session_id: str, memory_id: str) -> MemoryEdit:
        """Call `MemoryVerbs.pin`."""
        return await self._edit("POST", (*_one(session_id, memory_id), "pin"))

    async def unpin(self, session_id: str, memory_id: str) -> MemoryEdit:
        """Call `MemoryVerbs.unpin`."""
        return await self._edit("POST", (*_one(session_id, memory_id), "unpin"), once=True)

    async def undo(self, session_id: str, edit_id: str) -> MemoryEdit:
        """Call `MemoryVerbs.undo`."""
        return await self._edit("POST", ("sessions", session_id, "memory-log", edit_id, "undo"))

    async def proposals(self, session_id: str) -> tuple[MemoryEdit, ...]:
        """Call `MemoryVerbs.proposals`."""
        address = ("sessions", session_id, "memory-proposals")
        return await self._ask(tuple[MemoryEdit, ...], "GET", address, query=self._viewer)

    async def accept(self, session_id: str, proposal_id: str, text: str = "") -> MemoryEdit:
        """Call `MemoryVerbs.accept`."""
        address = ("sessions", session_id, "memory-proposals", proposal_id, "accept")
        return await self._edit("POST", address, {"text": text})

    async def reject(self, session_id: str, proposal_id: str) -> MemoryEdit:
        """Call `MemoryVerbs.reject`."""
        return await self._edit("POST", ("sessions", session_id, "memory-proposals", proposal_id, "reject"))

    async def log(self, session_id: str) -> tuple[MemoryEdit, ...]:
        """Call `MemoryVerbs.log`."""
        address = ("sessions", session_id, "memory-log")
        return await self._ask(tuple[MemoryEdit, ...], "GET", address, query=self._viewer)

    async def forget(self, session_id: str, memory_id: str, *, reason: str = "") -> tuple[str, ...]:
        """Call `MemoryVerbs.forget`."""
        query = {**self._author, **self._viewer, "reason": reason}
        told = await self._ask(dict, "DELETE", _one(session_id, memory_id), query=query, once=True)
        return tuple(told["evidence_ids"])

    async def continue_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        memory_ids: Sequence[str] | None = None,
        query: str = "",
        limit: int = 10,
    ) -> SessionHead:
        """Call `MemoryVerbs.continue_session`."""
        body = {"new_session_id": new_session_id, "memory_ids": memory_ids, "query": query, "limit": limit}
        address, asked = ("sessions", session_id, "continue"), {**self._author, **self._viewer}
        return await self._ask(SessionHead, "POST", address, body, query=asked)

    async def get_state(self, session_id: str, *, branch_id: str | None = None) -> Mapping[str, Any]:
        """Call `MemoryVerbs.get_state`."""
        query = {} if branch_id is None else {"branch": branch_id}
        return await self._ask(dict, "GET", ("sessions", session_id, "state"), query=query)

    async def set_state(self, session_id: str, changes: Mapping[str, Any]) -> SessionHead:
        """Call `MemoryVerbs.set_state`."""
        address, body = ("sessions", session_id, "state"), {"changes": dict(changes)}
        return await self._ask(SessionHead, "PUT", address, body, query=self._author, once=True)

    async def lore(self, world_id: str, query: str = "") -> tuple[MemoryEntry, ...]:
        """Call `MemoryVerbs.lore`."""
        found: list[MemoryEntry] = []
        offset: int | None = 0
        while offset is not None:
            wanted: dict[str, str | int] = {"query": query, "offset": offset, "limit": _PAGE, **self._viewer}
            page = await self._ask(dict, "GET", ("worlds", world_id, "lore"), query=wanted)
            found += codec.from_plain(page["items"], list[MemoryEntry])
            offset = page["next"]
        return tuple(found)

    async def add_lore(
        self,
        world_id: str,
        text: str,
        *,
        title: str = "",
        keys: tuple[str, ...] = (),
        category: LoreCategory = LoreCategory.ENCYCLOPEDIA,
        viewers: tuple[str, ...] = (),
    ) -> MemoryEntry:
        """Call `MemoryVerbs.add_lore`."""
        body = {"text": text, "title": title, "keys": keys, "category": category, "viewers": viewers}
        return await self._ask(MemoryEntry, "POST", ("worlds", world_id, "lore"), body, query=self._author, once=True)

    async def edit_lore(
        self, world_id: str, entry_id: str, *, text: str | None = None, title: str | None = None
    ) -> MemoryEntry:
        """Call `MemoryVerbs.edit_lore`."""
        address, body = ("worlds", world_id, "lore", entry_id), {"text": text, "title": title}
        return await self._ask(MemoryEntry, "PATCH", address, body, query=self._author)

    async def _edit(
        self, method: str, address: tuple[str, ...], body: Mapping[str, Any] | None = None, **how: Any
    ) -> MemoryEdit:
        return await self._ask(MemoryEdit, method, address, body, query={**self._author, **self._viewer}, **how)

    async def _ask(
        self,
        kind: type[T],
        method: str,
        address: tuple[str, ...],
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        once: bool = False,
        key: str | None = None,
    ) -> T:
        told = await self._connection.call(method, address, body, query=query, once=once, key=key)
        return codec.decode(told, kind)


def _one(session_id: str, memory_id: str) -> tuple[str, ...]:
    return ("sessions", session_id, "memory", memory_id)
