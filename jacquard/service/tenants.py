"""Keeps one runtime (the engine with its store) open for each tenant that a process serves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Self

import anyio
from anyio.abc import TaskGroup, TaskStatus

from jacquard.config.sections import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.service.history import ServiceHistory
from jacquard.service.quotas import TenantQuotas
from jacquard.wiring.runtime import Runtime, open_runtime
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.schema.event import Event
from mnemosyne.stores.locate import DEFAULT_TENANT
from mnemosyne.values import dataclass

_log = open_log(__name__)


@dataclass(kw_only=True, slots=True)
class _OpenTenant:
    runtime: Runtime
    closing: anyio.Event
    closed: anyio.Event = field(default_factory=anyio.Event)
    users: int = 0


class TenantRuntimes:
    """Opens the runtime of a tenant at its first request, and keeps it open for later requests.

    If there are more than about `limits.open_tenants` runtimes, the idle one that was unused for longest is closed. Each
    runtime is opened and closed in a task of its own, because its background work belongs to the task that opened it.
    `watch` receives the events of all runtimes. `settings_file` is the file of the settings (None: unknown). Use the object in
    `async with`; leaving the block waits for running writes.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        engine: RuntimeConfig,
        watch: Callable[[Event], None] = lambda _: None,
        settings_file: Path | None = None,
    ) -> None:
        self._settings, self._engine, self._watch = settings, engine, watch
        self.settings_file = settings_file
        self.history = ServiceHistory(max(1, settings.limits.open_tenants))
        self.quotas = TenantQuotas(settings)
        self._open: OrderedDict[str, _OpenTenant] = OrderedDict()
        self._opening: anyio.Lock
        self._tasks: TaskGroup

    @property
    def settings(self) -> ServiceSettings:
        """Settings of the service."""
        return self._settings

    @property
    def reviews(self) -> bool:
        """True if a memory that a model proposes waits for a person's decision."""
        return self._engine.memory.review

    async def __aenter__(self) -> Self:
        # An application is built before there is an event loop.
        self._opening, self._tasks = anyio.Lock(), anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        for opened in self._open.values():
            opened.closing.set()
        self._open.clear()
        await self._tasks.__aexit__(None, None, None)

    @asynccontextmanager
    async def use(self, tenant: str = DEFAULT_TENANT) -> AsyncIterator[Runtime]:
        """Yield the runtime of a tenant. The runtime stays open during the block.

        Raises WorldPackError, StoreUnavailableError or ConfigError if the world, the store or a setting cannot be used.
        """
        opened = await self._acquire(tenant)
        try:
            yield opened.runtime
        finally:
            opened.users -= 1

    @property
    def processes(self) -> int:
        """Number of processes that serve the same store, including this one."""
        return self._settings.workers

    async def check(self) -> None:
        """Read from the store of the default tenant. Any error that this raises means that the service cannot be used now."""
        async with self.use() as runtime:
            with suppress(SessionNotFoundError):
                await runtime.store.head("readiness")

    async def warm(self) -> None:
        """Load models and index the world ahead, so that the first turn does not wait for them. Errors are only logged.

        In a service with tenants this does nothing, because each tenant is opened at its first request.
        """
        if self._settings.tenants:
            return
        try:
            async with self.use() as runtime:
                world = runtime.world
                if world is not None:
                    await runtime.import_world()
                    await runtime.sync()
                await runtime.warm("" if world is None else world.instruction, tune_process=False)
        except Exception as error:
            # Requests that need it get the detailed error.
            _log.warning("models and world could not be loaded ahead (%s): %s", type(error).__name__, error)

    async def _acquire(self, tenant: str) -> _OpenTenant:
        opened = self._open.get(tenant)
        if opened is None:
            async with self._opening:
                opened = self._open.get(tenant) or await self._start(tenant)
        opened.users += 1
        self._open.move_to_end(tenant)
        return opened

    async def _start(self, tenant: str) -> _OpenTenant:
        idle = [name for name, opened in self._open.items() if not opened.users]
        for name in idle[: max(0, len(self._open) - self._settings.limits.open_tenants + 1)]:
            closing = self._open.pop(name)
            closing.closing.set()
            await closing.closed.wait()
        outcome: _OpenTenant | Exception = await self._tasks.start(self._hold, tenant)
        if isinstance(outcome, Exception):
            raise outcome
        self._open[tenant] = outcome
        return outcome

    async def _hold(self, tenant: str, *, task_status: TaskStatus[_OpenTenant | Exception]) -> None:
        """Keep a tenant's runtime open until it is to be closed; an error while opening goes to the request."""
        given, opened = self._settings, None
        try:
            async with open_runtime(
                given.store, world=given.world, embedder=given.embedder, config=self._engine, tenant=tenant, bare=True
            ) as runtime:
                runtime.watchers.events.on_all(self._watch)
                runtime.watchers.events.on_all(lambda event: self.history.of(tenant).count_event(event))
                self.quotas.limit_sessions(tenant, runtime.store)
                opened = _OpenTenant(runtime=runtime, closing=anyio.Event())
                task_status.started(opened)
                await opened.closing.wait()
        except Exception as error:
            if opened is not None:
                raise
            task_status.started(error)
        finally:
            if opened is not None:
                opened.closed.set()
