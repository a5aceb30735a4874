"""Creates, finds, lists and revokes the bearer tokens of tenants. A token is shown once; the store keeps only a hash of
it.

Tokens are stored as evidence (source texts) of one session of the service's own tenant. Therefore every kind of store
can keep tokens, and copies, checks and migrations cover them. A token consists of 256 random bits, so one round of
SHA-256 is enough; slow hashes are only needed for passwords, because passwords can be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from time import monotonic

from jacquard.core.errors import ConfigError
from jacquard.remote.bodies import TokenRecord
from jacquard.service.access.service_sessions import ensure_session
from jacquard.service.values import SERVICE_TENANT, Principal, Scope
from mnemosyne.core.codec import format_time, parse_time
from mnemosyne.core.errors import CodecError, SessionNotFoundError
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.evidence import Evidence, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.query import EvidenceFilter

REMEMBERED_SECONDS = 2.0
"""Seconds for which a process caches a token. After that time, a revoked token is refused by every process."""

_SESSION = "tokens"
_FORM = re.compile(r"jq_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_MOST_REMEMBERED = 10_000


class TokenRegistry:
    """Tokens of all tenants of a service. `store` must be opened for the tenant `SERVICE_TENANT`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: dict[str, tuple[float, TokenRecord, str]] = {}

    async def create(
        self,
        tenant: str,
        scope: Scope,
        *,
        viewer: str | None = None,
        note: str = "",
        expires_at: datetime | None = None,
    ) -> tuple[str, TokenRecord]:
        """Create a token for a caller of `tenant` with the rights of `scope`. Return (token, record). The token is not
        stored and cannot be shown again.

        With `viewer`, the token can read only texts that this character may know (None: all texts of the tenant). `note`
        is a text for people. `expires_at` is the time from which the token is refused (None: never).

        Raises ConfigError if `tenant` is empty or reserved, if `viewer` is given and `scope` is not play, or if
        `expires_at` is in the past or has no time zone.
        """
        now = self._clock.now()
        if not tenant.strip() or tenant == SERVICE_TENANT:
            raise ConfigError(f"tenant is {tenant!r}; choose another name.")
        if viewer is not None and scope is not Scope.PLAY:
            raise ConfigError(
                "A token that is bound to a viewer has the scope play; others could read past the viewer."
            )
        if expires_at is not None and (expires_at.tzinfo is None or expires_at <= now):
            raise ConfigError("expires_at is in the past or has no time zone; give a later time.")
        record = TokenRecord(
            token_id=secrets.token_hex(6),
            tenant=tenant,
            scope=scope,
            viewer=viewer,
            note=note,
            created_at=now,
            expires_at=expires_at,
        )
        token = f"jq_{record.token_id}_{secrets.token_urlsafe(32)}"
        await ensure_session(self._store, _SESSION, self._clock)
        await self._store.put_evidence(_SESSION, _to_evidence(record, _hash(token)))
        return token, record

    async def find(self, token: str) -> Principal | None:
        """Return the caller to whom a token belongs. Return None if the token is unknown, revoked or expired."""
        shape = _FORM.fullmatch(token)
        if shape is None:
            return None
        found = await self._load(shape[1])
        if found is None or not hmac.compare_digest(found[1], _hash(token)):
            return None
        record = found[0]
        is_over = record.expires_at is not None and record.expires_at <= self._clock.now()
        if record.revoked or is_over:
            return None
        return Principal(tenant=record.tenant, scope=record.scope, viewer=record.viewer, token_id=record.token_id)

    async def records(self) -> tuple[TokenRecord, ...]:
        """Return the records of all tokens in the order of their creation, including revoked ones."""
        try:
            found = await self._store.list_evidences(_SESSION, EvidenceFilter())
        except SessionNotFoundError:
            return ()
        return tuple(read[0] for each in found if (read := _from_evidence(each)) is not None)

    async def revoke(self, token_id: str) -> TokenRecord:
        """Revoke a token and return its record. A second call changes nothing. Raises ConfigError if there is no token
        with this id.
        """
        found = await self._read(token_id)
        if found is None:
            raise ConfigError(f"There is no token {token_id!r}; `jacquard operate tokens list` shows all of them.")
        record = replace(found[0], revoked=True)
        await self._store.put_evidence(_SESSION, _to_evidence(record, found[1]))
        self._known.pop(token_id, None)
        return record

    async def _load(self, token_id: str) -> tuple[TokenRecord, str] | None:
        known = self._known.get(token_id)
        if known is not None and monotonic() - known[0] < REMEMBERED_SECONDS:
            return known[1], known[2]
        found = await self._read(token_id)
        if found is None:
            self._known.pop(token_id, None)
            return None
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[token_id] = (monotonic(), *found)
        return found

    async def _read(self, token_id: str) -> tuple[TokenRecord, str] | None:
        try:
            evidence = await self._store.get_evidence(_SESSION, token_id)
        except SessionNotFoundError:
            return None
        return None if evidence is None else _from_evidence(evidence)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def _to_evidence(record: TokenRecord, digest: str) -> Evidence:
    told: dict[str, str | bool | None] = {
        "tenant": record.tenant,
        "scope": record.scope.value,
        "viewer": record.viewer,
        "note": record.note,
        "expires_at": None if record.expires_at is None else format_time(record.expires_at),
        "revoked": record.revoked,
        "sha256": digest,
    }
    return Evidence(
        evidence_id=record.token_id,
        type=EvidenceType.OTHER,
        source=EvidenceSource(kind=SourceKind.SYSTEM, name="token"),
        content="",
        metadata={name: value for name, value in told.items() if value is not None},
        created_at=record.created_at,
    )


def _from_evidence(evidence: Evidence) -> tuple[TokenRecord, str] | None:
    told: Mapping[str, object] = evidence.metadata
    ends = told.get("expires_at")
    try:
        record = TokenRecord(
            token_id=evidence.evidence_id,
            tenant=str(told["tenant"]),
            scope=Scope(str(told["scope"])),
            viewer=None if told.get("viewer") is None else str(told["viewer"]),
            note=str(told.get("note", "")),
            created_at=evidence.created_at,
            expires_at=None if ends is None else parse_time(str(ends)),
            revoked=bool(told.get("revoked")),
        )
        return record, str(told["sha256"])
    except (KeyError, ValueError, CodecError):
        return None
