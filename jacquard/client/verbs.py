"""Edits the memory of a service by the methods of `jacquard.wiring.verbs.MemoryVerbs` (class `RemoteVerbs`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jacquard import MemoryVerbs
from jacquard.client.connection import Connection, call_operation, remote
from jacquard.memory.verbs.values import MemoryEdit
from jacquard.remote.operations import BY_NAME
from mnemosyne import MemoryEntry, StoryFact
from mnemosyne.schema.session import SessionHead

_PAGE = 200


class RemoteVerbs:
    """Memory verbs of a service: searches and edits of its memory by hand. `RemoteEngine.verbs` returns them.

    `author` and `viewer` have the same meaning as in `MemoryVerbs`. If the service uses tokens, the token decides the
    author of edits and the viewer. Calls raise the errors of `MemoryVerbs`. They raise ServiceUnreachableError if the
    service does not answer, and ServiceError for errors that only a service has.
    """

    def __init__(self, connection: Connection, *, author: str | None = None, viewer: str | None = None) -> None:
        self._connection = connection
        caller = {"author": author, "viewer": viewer}
        self._caller = {name: value for name, value in caller.items() if value is not None}

    search = remote(MemoryVerbs.search)
    memory = remote(MemoryVerbs.memory)
    edit = remote(MemoryVerbs.edit)
    supersede = remote(MemoryVerbs.supersede)
    pin = remote(MemoryVerbs.pin)
    unpin = remote(MemoryVerbs.unpin)
    undo = remote(MemoryVerbs.undo)
    proposals = remote(MemoryVerbs.proposals)
    accept = remote(MemoryVerbs.accept)
    reject = remote(MemoryVerbs.reject)
    log = remote(MemoryVerbs.log)
    forget = remote(MemoryVerbs.forget)
    continue_session = remote(MemoryVerbs.continue_session)
    set_state = remote(MemoryVerbs.set_state)
    add_lore = remote(MemoryVerbs.add_lore)
    edit_lore = remote(MemoryVerbs.edit_lore)

    async def sessions(self, query: str = "", *, limit: int = 50) -> tuple[SessionHead, ...]:
        """Call `MemoryVerbs.sessions`. At most 200 sessions are returned."""
        page = await self._call("list_sessions", query=query, limit=min(limit, _PAGE))
        return tuple([await self._call("get_session_head", session_id=name) for name in page.items])

    async def remember(
        self, session_id: str, text: str, *, title: str = "", key: str | None = None, dry_run: bool = False
    ) -> MemoryEdit:
        """Call `MemoryVerbs.remember`."""
        given = {"session_id": session_id, "text": text, "title": title, "dry_run": dry_run}
        made: MemoryEdit = await call_operation(self, BY_NAME["remember_memory"], given, key=key)
        return made

    async def get_state(
        self, session_id: str, *, branch_id: str | None = None, as_of_turn: int | None = None
    ) -> Mapping[str, Any]:
        """Call `MemoryVerbs.get_state`."""
        given = {"session_id": session_id, "branch": branch_id, "as_of_turn": as_of_turn}
        state: Mapping[str, Any] = await self._call("get_state", **given)
        return state

    async def facts(
        self,
        session_id: str,
        query: str = "",
        *,
        branch_id: str | None = None,
        as_of_turn: int | None = None,
        limit: int = 50,
    ) -> tuple[StoryFact, ...]:
        """Call `MemoryVerbs.facts`."""
        given = {
            "session_id": session_id,
            "query": query,
            "branch": branch_id,
            "as_of_turn": as_of_turn,
            "limit": limit,
        }
        facts: tuple[StoryFact, ...] = await self._call("list_facts", **given)
        return facts

    async def lore(self, world_id: str, query: str = "") -> tuple[MemoryEntry, ...]:
        """Call `MemoryVerbs.lore`."""
        found: list[MemoryEntry] = []
        offset: int | None = 0
        while offset is not None:
            page = await self._call("list_lore", world_id=world_id, query=query, offset=offset, limit=_PAGE)
            found += page.items
            offset = page.next
        return tuple(found)

    async def _call(self, name: str, **given: Any) -> Any:
        return await call_operation(self, BY_NAME[name], given)
