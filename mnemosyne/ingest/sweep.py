"""Evidence whose time is over: not used any more, and swept away (spec 3.6).

The room exists so that a time to live is kept twice: readers leave expired evidence out at once, and a sweep, whenever a
host runs one, forgets it everywhere by an erasure of the store, audited like any other. It knows the store by protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemosyne.ingest.rules import is_expired
from mnemosyne.protocols import Clock, Store
from mnemosyne.query import EvidenceFilter
from mnemosyne.schema.evidence import Evidence

EXPIRED = "expired"
"""The reason that stands in the audit record of a sweep."""


async def live_evidences(
    store: Store, session_id: str, clock: Clock, where: EvidenceFilter | None = None
) -> tuple[Evidence, ...]:
    """Return the evidences that pass and count still, in the order of first writing."""
    now = clock.now()
    return tuple(each for each in await store.list_evidences(session_id, where) if not is_expired(each, now))


async def expired_evidences(
    store: Store, clock: Clock, session_ids: Sequence[str] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the ids of evidences whose time is over, by session (None: all sessions)."""
    now = clock.now()
    found: dict[str, tuple[str, ...]] = {}
    for session_id in await store.sessions() if session_ids is None else session_ids:
        over = [each.evidence_id for each in await store.list_evidences(session_id) if is_expired(each, now)]
        if over:
            found[session_id] = tuple(over)
    return found
