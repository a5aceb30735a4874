"""Handlers for the operator: settings in force, health of the store, figures of the last hours, and users.

The admin of a tenant gets what concerns its own data, without places of the host. The operator of a service with tenants reads
the rest on the host.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread

from jacquard.config.in_force import settings_of_service, settings_of_tenant
from jacquard.core.errors import ConfigError
from jacquard.memory.verbs.find import has_words
from jacquard.remote.bodies import (
    HealthAnswer,
    HealthFinding,
    MetricsAnswer,
    SettingInForce,
    UserOutline,
    UserPage,
)
from jacquard.service.host_paths import hide_places
from jacquard.service.http.call import Call, handles
from jacquard.service.upkeep.doctor import Doctor
from mnemosyne.core.codec import to_plain
from mnemosyne.schema.memory import is_profile_session

EARLIEST = datetime.min.replace(tzinfo=UTC)


@handles
async def list_settings(call: Call) -> tuple[SettingInForce, ...]:
    """List the settings that the caller may see, each with its source."""
    return await to_thread.run_sync(_read_settings, call)


def _read_settings(call: Call) -> tuple[SettingInForce, ...]:
    turns = call.runtime.engine.config
    if call.settings.tenants:
        known = settings_of_tenant(call.settings, turns, call.principal.tenant)
        return tuple(
            SettingInForce(name=name, value=hide_places(to_plain(value)), source=source)
            for name, value, source in known
        )
    try:
        found = tuple(settings_of_service(call.settings, turns, file=call.tenants.settings_file))
    except (ConfigError, OSError):
        # The file was changed since the start, and cannot be read any more.
        found = tuple(settings_of_service(call.settings, turns))
    return tuple(SettingInForce(name=name, value=value, source=source) for name, value, source in found)


@handles
async def check_health(call: Call) -> HealthAnswer:
    """Check the store and its surroundings; for a tenant, only its own data."""
    doctor = Doctor(store=call.settings.store, embedder=call.settings.embedder, config=call.tenants.settings_file)
    is_tenant = call.settings.tenants
    found = await (doctor.examine_tenant(call.principal.tenant) if is_tenant else doctor.examine())

    def show(text: str) -> Any:
        return hide_places(text) if is_tenant else text

    return HealthAnswer(
        is_well=found.is_well,
        store=show(found.store),
        kind=found.kind,
        embedder=found.embedder,
        packages=found.packages,
        findings=tuple(
            HealthFinding(code=each.code, severity=each.severity.value, what=show(each.what), do=show(each.do))
            for each in found.findings
        ),
    )


@handles
async def get_metrics(call: Call) -> MetricsAnswer:
    """Return the figures of the tenant in the last minutes."""
    return await to_thread.run_sync(
        call.tenants.history.of(call.principal.tenant).summarize, call.query["minutes"], call.tenants.processes
    )


@handles
async def list_users(call: Call) -> UserPage:
    """List a page of users; a query may limit it to users whose ids contain its words."""
    wanted, after, limit = call.query["query"], call.query["after"], call.query["limit"]
    sessions: Counter[str] = Counter()
    newest: dict[str, datetime] = {}
    for each in await call.runtime.store.outlines():
        if each.user_id is not None:
            sessions[each.user_id] += not is_profile_session(each.session_id)
            newest[each.user_id] = max(newest.get(each.user_id, EARLIEST), each.at or EARLIEST)
    found = [name for name in sorted(sessions) if name > after and has_words(name, wanted)]
    items = tuple(
        UserOutline(user_id=name, sessions=sessions[name], at=None if newest[name] == EARLIEST else newest[name])
        for name in found[:limit]
    )
    return UserPage(items=items, next=found[limit - 1] if len(found) > limit else None)
