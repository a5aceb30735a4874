"""Refuses writing operations of a tenant that has used up a quota: sessions, entries, stored bytes, or turns a minute.

An operation is refused before it writes anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic

from jacquard.config.service import ServiceSettings
from jacquard.config.tenant_sections import TenantSettings
from jacquard.core.errors import QuotaExceededError, TurnRateError
from mnemosyne.protocols import SessionLimit, Store, StoreUpkeep

_REMEMBERING = frozenset(
    {
        "accept_proposal",
        "add_lore",
        "consolidate",
        "continue_session",
        "ingest",
        "put_world",
        "record_tool_call",
        "remember",
        "remember_memory",
        "supersede_memory",
    }
)
"""Operations that add entries."""

_TURNS = frozenset({"prepare_turn", "retry", "swipe", "summarize", "consolidate"})
"""Operations that prepare a turn or call a model."""

_STORING = frozenset(
    {
        "start_session",
        "adopt_messages",
        "put_document",
        "edit_message",
        "edit_memory",
        "edit_lore",
        "import_files",
        "mark_memory",
        "put_world_files",
        "run_evaluation",
        "set_state",
        "repair_state",
        "upsert_tasks",
    }
)
"""Other operations that store texts of the caller or made of them."""

WRITING = _REMEMBERING | _TURNS | _STORING
"""Operations that are checked against quotas. Commits of replies are not checked, so the reply to a prepared turn can
always be committed.
"""

_MINUTE_SECONDS = 60.0
_COUNTED_SECONDS = 10.0
_MEASURED_SECONDS = 600.0
_ADVICE = {
    "sessions": "Erase sessions that are not needed (`jacquard memory erase --session ID`), or raise the setting.",
    "entries": "Forget memories or lore that are not needed, or raise the setting.",
    "stored_bytes": "Erase or archive sessions (`jacquard operate archive`), or raise the setting.",
}


class TenantQuotas:
    """Checks the operations of one process against the quotas of their tenants.

    The number of entries is counted again after ten seconds, and stored bytes after ten minutes. A store that cannot count
    (files, memory, a plugin) is only checked for turns a minute. The limit of sessions is enforced by the store itself
    (`limit_sessions`).
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._turns: dict[str, deque[float]] = {}
        self._figures: dict[tuple[str, str], tuple[float, int]] = {}

    def limit_sessions(self, tenant: str, store: Store) -> None:
        """Make the opened store of a tenant refuse sessions beyond the quota. A store that cannot count refuses none."""
        most = self._settings.of_tenant(tenant).sessions
        if most and isinstance(store, StoreUpkeep):
            store.limit_sessions(SessionLimit(most, lambda: self._refusal(tenant, "sessions", most)))

    async def check(self, operation: str, tenant: str, store: Store) -> None:
        """Check whether a tenant may carry out an operation now.

        Raises QuotaExceededError if the quota of entries or bytes is used up. Raises TurnRateError if the tenant has
        begun too many turns in a minute.
        """
        quota = self._settings.of_tenant(tenant)
        if operation not in WRITING:
            return
        if isinstance(store, StoreUpkeep):
            await self._check_stored(operation, quota, tenant, store)
        if operation in _TURNS and quota.turns_a_minute:
            self._count_turn(tenant, quota.turns_a_minute)

    async def _check_stored(self, operation: str, quota: TenantSettings, tenant: str, store: StoreUpkeep) -> None:
        if operation in _REMEMBERING and quota.entries:
            await self._limit(
                tenant, "entries", quota.entries, _COUNTED_SECONDS, lambda: store.count_entries(quota.entries)
            )
        if quota.stored_bytes:

            async def measure() -> int:
                return (await store.usage()).stored_bytes

            await self._limit(tenant, "stored_bytes", quota.stored_bytes, _MEASURED_SECONDS, measure)

    async def _limit(
        self, tenant: str, what: str, limit: int, seconds: float, measure: Callable[[], Awaitable[int]]
    ) -> None:
        known = self._figures.get((tenant, what))
        if known is None or monotonic() - known[0] >= seconds:
            known = self._figures[tenant, what] = (monotonic(), await measure())
        if known[1] >= limit:
            raise self._refusal(tenant, what, limit)

    def _count_turn(self, tenant: str, limit: int) -> None:
        recent, now = self._turns.setdefault(tenant, deque()), monotonic()
        while recent and now - recent[0] >= _MINUTE_SECONDS:
            recent.popleft()
        if len(recent) >= limit:
            seconds = max(1, round(_MINUTE_SECONDS - (now - recent[0])))
            raise TurnRateError(tenant, limit, self._setting(tenant, "turns_a_minute"), seconds)
        recent.append(now)

    def _refusal(self, tenant: str, what: str, limit: int) -> QuotaExceededError:
        return QuotaExceededError(tenant, what, limit, self._setting(tenant, what), _ADVICE[what])

    def _setting(self, tenant: str, what: str) -> str:
        place = f"by_tenant.{tenant}" if tenant in self._settings.by_tenant else "each_tenant"
        return f"service.{place}.{what}"
