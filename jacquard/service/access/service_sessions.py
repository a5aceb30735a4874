"""Creates sessions of the service's own tenant. Tokens and audit are kept in such sessions, so every kind of store can
keep them.
"""

from __future__ import annotations

from mnemosyne.core.errors import SessionNotFoundError, VersionConflictError
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.document import Meta, Session, SessionDocument


async def ensure_session(store: Store, session_id: str, clock: Clock) -> None:
    """Write an empty session, unless it exists."""
    try:
        await store.head(session_id)
    except SessionNotFoundError:
        document = SessionDocument(session=Session(session_id=session_id), meta=Meta(created_at=clock.now()))
        try:
            await store.put_session(session_id, document, expected_version=0)
        except VersionConflictError:
            # Another process wrote it first.
            await store.head(session_id)
