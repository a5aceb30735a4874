"""Records who has read host-only data or has erased data, and when. The data themselves are never recorded.

The store of each tenant has its own records of what an erasure removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from jacquard.remote.bodies import AuditedCall
from jacquard.service.access.service_sessions import ensure_session
from jacquard.service.values import Principal
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.evidence import Evidence, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.query import EvidenceFilter


class AuditTrail:
    """Audited calls of all tenants. They are stored under the service's own tenant, in one session for each audited tenant."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def record(self, principal: Principal, operation: str, request_id: str) -> None:
        """Record that a call of `operation` is about to be answered."""
        told = {
            "token_id": principal.token_id,
            "operation": operation,
            "request_id": request_id,
        }
        session_id = _session_of(principal.tenant)
        await ensure_session(self._store, session_id, self._clock)
        await self._store.put_evidence(
            session_id,
            Evidence(
                evidence_id=uuid4().hex,
                type=EvidenceType.OTHER,
                source=EvidenceSource(kind=SourceKind.SYSTEM, name="audit"),
                content="",
                metadata=told,
                created_at=self._clock.now(),
            ),
        )

    async def calls(self, tenant: str, limit: int) -> tuple[AuditedCall, ...]:
        """Return the newest audited calls of a tenant (at most `limit`), oldest first."""
        where = EvidenceFilter(limit=limit, newest=True)
        try:
            found = await self._store.list_evidences(_session_of(tenant), where)
        except SessionNotFoundError:
            return ()
        return tuple(_from_evidence(each) for each in found)


def _session_of(tenant: str) -> str:
    return f"audited calls of {tenant}"


def _from_evidence(evidence: Evidence) -> AuditedCall:
    told: Mapping[str, object] = evidence.metadata
    return AuditedCall(
        at=evidence.created_at,
        token_id=str(told.get("token_id", "")),
        operation=str(told.get("operation", "")),
        request_id=str(told.get("request_id", "")),
    )
