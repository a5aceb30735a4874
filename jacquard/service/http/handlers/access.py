"""Handlers for access: the bearer tokens of the caller's tenant, and the audit of its calls."""

from __future__ import annotations

from jacquard.core.errors import ConfigError
from jacquard.remote.bodies import AuditedCall, TokenAnswer, TokenRecord, TokenRequest
from jacquard.service.access.records import ServiceRecords
from jacquard.service.answers import Refusal
from jacquard.service.http.call import Call, handles


@handles
async def create_token(call: Call) -> TokenAnswer:
    """Create a token of the tenant. The answer is the only place that shows it."""
    sent = call.read(TokenRequest)
    token, record = await _records(call).tokens.create(
        call.principal.tenant, sent.scope, viewer=sent.viewer, note=sent.note, expires_at=sent.expires_at
    )
    return TokenAnswer(token=token, record=record)


@handles
async def list_tokens(call: Call) -> tuple[TokenRecord, ...]:
    """List the tokens of the tenant."""
    found = await _records(call).tokens.records()
    return tuple(record for record in found if record.tenant == call.principal.tenant)


@handles
async def revoke_token(call: Call) -> TokenRecord:
    """Revoke a token of the tenant. Raises Refusal if the tenant has no token with this id."""
    token_id, registry = call.ids["token_id"], _records(call).tokens
    if all(record.token_id != token_id for record in await list_tokens(call)):
        raise Refusal(404, "token_not_found", f"There is no token {token_id!r}; /api/v1/tokens lists all of them.")
    return await registry.revoke(token_id)


@handles
async def list_audited_calls(call: Call) -> tuple[AuditedCall, ...]:
    """List the newest audited calls of the tenant."""
    return await _records(call).audit.calls(call.principal.tenant, call.query["limit"])


def _records(call: Call) -> ServiceRecords:
    if call.records is None:
        raise ConfigError("This service runs without tenants, so it has no tokens; start it with --tenants.")
    return call.records
