"""Operations on access: the bearer tokens of the own tenant, and the audit of calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jacquard.core.errors import ConfigError
from jacquard.service.access.audit import AuditedCall
from jacquard.service.access.records import ServiceRecords
from jacquard.service.access.tokens import TokenRecord
from jacquard.service.answers import Refusal
from jacquard.service.http.operation import Call, Operation, Query
from jacquard.service.values import Scope


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRequest:
    """A token to make for the own tenant: what it allows, for which viewer, until when."""

    scope: Scope = Scope.PLAY
    viewer: str | None = None
    note: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenAnswer:
    """A new token, which is not shown again, and what is known of it."""

    token: str
    record: TokenRecord


async def create_token(call: Call) -> TokenAnswer:
    """Make a token."""
    sent = call.read(TokenRequest)
    token, record = await _records(call).tokens.create(
        call.principal.tenant, sent.scope, viewer=sent.viewer, note=sent.note, expires_at=sent.expires_at
    )
    return TokenAnswer(token=token, record=record)


async def list_tokens(call: Call) -> tuple[TokenRecord, ...]:
    """List the tokens of the tenant."""
    found = await _records(call).tokens.records()
    return tuple(record for record in found if record.tenant == call.principal.tenant)


async def revoke_token(call: Call) -> TokenRecord:
    """Revoke a token of the tenant; Refusal for another tenant's."""
    token_id, registry = call.ids["token_id"], _records(call).tokens
    if all(record.token_id != token_id for record in await list_tokens(call)):
        raise Refusal(404, "token_not_found", f"There is no token {token_id!r}; /api/v1/tokens lists all of them.")
    return await registry.revoke(token_id)


async def list_calls(call: Call) -> tuple[AuditedCall, ...]:
    """List the audited calls of the tenant."""
    return await _records(call).audit.calls(call.principal.tenant, call.query["limit"])


def _records(call: Call) -> ServiceRecords:
    if call.records is None:
        raise ConfigError("This service runs without tenants, so it has no tokens; start it with --tenants.")
    return call.records


OPERATIONS = (
    Operation(
        name="create_token",
        method="POST",
        path="/api/v1/tokens",
        doc="Make a token for the own tenant; it is shown in this answer alone. A call that is made again makes another one.",
        run=create_token,
        scope=Scope.ADMIN,
        body=TokenRequest,
        answer=TokenAnswer,
        status=201,
        errors=(ConfigError,),
        is_repeatable=False,
    ),
    Operation(
        name="list_tokens",
        method="GET",
        path="/api/v1/tokens",
        doc="Return what is known of the tokens of the own tenant, in the order in which they were made.",
        run=list_tokens,
        scope=Scope.ADMIN,
        answer=tuple[TokenRecord, ...],
        errors=(ConfigError,),
    ),
    Operation(
        name="revoke_token",
        method="DELETE",
        path="/api/v1/tokens/{token_id}",
        doc="Revoke a token of the own tenant; every process refuses it within two seconds.",
        run=revoke_token,
        scope=Scope.ADMIN,
        answer=TokenRecord,
        errors=(ConfigError,),
    ),
    Operation(
        name="list_audited_calls",
        method="GET",
        path="/api/v1/audits/calls",
        doc="List who of the own tenant has read what only the host may see, or erased: the newest calls, oldest first.",
        run=list_calls,
        scope=Scope.ADMIN,
        answer=tuple[AuditedCall, ...],
        query=(Query(name="limit", doc="At most so many.", kind=int, default=50, least=1, most=1_000),),
        errors=(ConfigError,),
    ),
)
