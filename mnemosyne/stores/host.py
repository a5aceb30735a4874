"""Lets an engine use a store that a host implements. The engine runs in worker threads; the host's methods need the event loop."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, cast

from mnemosyne.core.off_loop import is_built_in, on_loop
from mnemosyne.protocols import Store, combined_reads
from mnemosyne.schema.record import ChosenInputs, TurnInputs


def reachable_store(store: Store) -> Store:
    """Return a store whose methods may be awaited inside `in_worker`: `store` itself, or one around a host's own store."""
    return store if is_built_in(store) else cast(Store, _HostStore(store))


class _HostStore:
    """A host's store, whose methods always run on the event loop."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return partial(_call, value) if inspect.iscoroutinefunction(getattr(Store, name, None)) else value

    async def turn_inputs(self, session_id: str, **options: Any) -> TurnInputs:
        return cast(TurnInputs, await self._combined("turn_inputs", session_id, **options))

    async def chosen_inputs(self, session_id: str, *args: Any, **options: Any) -> ChosenInputs:
        return cast(ChosenInputs, await self._combined("chosen_inputs", session_id, *args, **options))

    async def depths_with_system_messages(self, session_id: str, **options: Any) -> tuple[int, ...]:
        return cast("tuple[int, ...]", await self._combined("depths_with_system_messages", session_id, **options))

    async def _combined(self, name: str, *args: Any, **options: Any) -> Any:
        return await _call(getattr(combined_reads(self._inner), name), self._inner, *args, **options)


async def _call(method: Any, *args: Any, **options: Any) -> Any:
    return await on_loop(partial(method, *args, **options))
