"""Lets an engine work on a store that only reads and writes documents: sessions, evidence and context blocks.

The engine works on a copy in memory; after each change the document goes to the host's store. What a session document does not
contain (other branches, receipts, memories) is in its field `turn_tree`, as in an export.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mnemosyne.core.errors import SchemaValidationError, SessionNotFoundError, VersionConflictError
from mnemosyne.documents.archive import export_session, import_session
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.stores.sqlite.memory import MemoryStore

_WRITES = ("create_", "adopt_", "append_", "add_", "save_", "commit_", "put_", "patch_", "upsert_", "drop_")
_OTHER_WRITES = frozenset({"fork", "switch"})


class DocumentStore:
    """A `Store` on a host's store of documents, which has the methods `get_session`, `put_session`, `put_evidence`,
    `get_evidence`, `list_evidences`, `put_context_blocks` and `list_context_blocks` of `Store`.

    A session is read when it is first used, and written as a whole after each change; so the cost of a turn grows with
    the length of the session, and one process at a time can work on it. If another process wrote the session in
    between, the write raises the host's VersionConflictError. Erasures and worlds stay in memory.
    """

    def __init__(self, documents: Any) -> None:
        self._documents, self._own = documents, MemoryStore()
        self._versions: dict[str, int | None] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._own, name)
        return self._through(name, method) if inspect.iscoroutinefunction(method) else method

    def _through(self, name: str, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        first = next(iter(inspect.signature(method).parameters), "")

        async def call(*args: Any, **named: Any) -> Any:
            session_id = named.get("session_id", args[0] if args and first == "session_id" else None)
            if name == "create_session":
                session_id = args[0].session_id
            if session_id is None:
                return await getattr(self._own, name)(*args, **named)
            await self._load(session_id)
            result = await getattr(self._own, name)(*args, **named)
            if name.startswith(_WRITES) or name in _OTHER_WRITES:
                await self._save(session_id, name, args, named)
            return result

        return call

    async def _load(self, session_id: str) -> None:
        if session_id in self._versions:
            return
        document = await self._documents.get_session(session_id)
        if document is not None and document.session.messages:
            await import_session(self._own, document)
            for evidence in await self._documents.list_evidences(session_id):
                await self._own.put_evidence(session_id, evidence)
            await self._own.put_context_blocks(session_id, await self._documents.list_context_blocks(session_id))
        self._versions[session_id] = None

    async def _save(self, session_id: str, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        try:
            document = await export_session(self._own, session_id)
        except (SchemaValidationError, SessionNotFoundError):
            # Without a message there is no document yet; the next write has it.
            return
        try:
            result = await self._documents.put_session(
                session_id, document, expected_version=self._versions.get(session_id)
            )
        except VersionConflictError:
            # The host's documents are the truth: every session is read again when it is next used.
            self._own, self._versions = MemoryStore(), {}
            raise
        self._versions[session_id] = result.version
        if name == "put_evidence":
            await self._put_evidence(session_id, *args[1:], **named)
        elif name == "put_context_blocks":
            await self._put_blocks(session_id, *args[1:], **named)

    # A store that keeps evidence and blocks in its documents has them already; to write them again would only raise the
    # version of the document.

    async def _put_evidence(self, session_id: str, evidence: Evidence) -> None:
        if await self._documents.get_evidence(session_id, evidence.evidence_id) != evidence:
            await self._documents.put_evidence(session_id, evidence)

    async def _put_blocks(self, session_id: str, blocks: Sequence[ContextBlock]) -> None:
        stored = {each.block_id: each for each in await self._documents.list_context_blocks(session_id)}
        if any(stored.get(each.block_id) != each for each in blocks):
            result = await self._documents.put_context_blocks(session_id, blocks)
            self._versions[session_id] = result.version
