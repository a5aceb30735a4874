"""Handlers for the operator: the settings in force with their sources, and the health of the store."""

from __future__ import annotations

from anyio import to_thread

from jacquard.config.in_force import settings_of_service
from jacquard.core.errors import ConfigError
from jacquard.remote.bodies import HealthAnswer, HealthFinding, SettingInForce
from jacquard.service.http.call import Call, handles
from jacquard.service.upkeep.doctor import Doctor

_NOT_A_TENANTS = (
    "This service has tenants, and a token is of one of them; run `jacquard operate doctor` on its machine."
)


@handles
async def list_settings(call: Call) -> tuple[SettingInForce, ...]:
    """List the settings of the service. Raises ConfigError in a service with tenants."""
    _check_operator(call)
    return await to_thread.run_sync(_read_settings, call)


def _read_settings(call: Call) -> tuple[SettingInForce, ...]:
    known = settings_of_service(call.settings, call.runtime.engine.config)
    return tuple(SettingInForce(name=name, value=value, source=source) for name, value, source in known)


@handles
async def check_health(call: Call) -> HealthAnswer:
    """Check the store and its surroundings. Raises ConfigError in a service with tenants."""
    _check_operator(call)
    found = await Doctor(store=call.settings.store, embedder=call.settings.embedder).examine()
    return HealthAnswer(
        is_well=found.is_well,
        store=found.store,
        kind=found.kind,
        embedder=found.embedder,
        packages=found.packages,
        findings=tuple(
            HealthFinding(code=each.code, severity=each.severity.value, what=each.what, do=each.do)
            for each in found.findings
        ),
    )


def _check_operator(call: Call) -> None:
    if call.settings.tenants:
        raise ConfigError(_NOT_A_TENANTS)
