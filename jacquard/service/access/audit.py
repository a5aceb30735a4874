"""The audit of reads: who has read what only the host may see, and when; never what was read.

Erasures have an audit of their own in the store of each tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from jacquard.service.access.service_sessions import ensure_session
from jacquard.service.values import Principal
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.evidence import Evidence, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.query import EvidenceFilter

_SESSION = "audited reads"


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditedRead:
    """One read: when (aware), with which token, by which operation, in which request."""

    at: datetime | None
    tenant: str
    token_id: str
    operation: str
    request_id: str


class AuditTrail:
    """The audited reads of all tenants, in a store of the service's own tenant."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def record(self, principal: Principal, operation: str, request_id: str) -> None:
        """Write that a read is about to be answered."""
        told = {
            "tenant": principal.tenant,
            "token_id": principal.token_id,
            "operation": operation,
            "request_id": request_id,
        }
        await ensure_session(self._store, _SESSION, self._clock)
        await self._store.put_evidence(
            _SESSION,
            Evidence(
                evidence_id=uuid4().hex,
                type=EvidenceType.OTHER,
                source=EvidenceSource(kind=SourceKind.SYSTEM, name="audit"),
                content="",
                metadata=told,
                created_at=self._clock.now(),
            ),
        )

    async def reads(self, tenant: str) -> tuple[AuditedRead, ...]:
        """Return the audited reads of a tenant, oldest first."""
        try:
            found = await self._store.list_evidences(_SESSION, EvidenceFilter())
        except SessionNotFoundError:
            return ()
        return tuple(_from_evidence(each) for each in found if each.metadata.get("tenant") == tenant)


def _from_evidence(evidence: Evidence) -> AuditedRead:
    told: Mapping[str, object] = evidence.metadata
    return AuditedRead(
        at=evidence.created_at,
        tenant=str(told["tenant"]),
        token_id=str(told.get("token_id", "")),
        operation=str(told.get("operation", "")),
        request_id=str(told.get("request_id", "")),
    )
