"""Locks of sessions that hold among machines: advisory locks of PostgreSQL, each on a connection that is lent for it.

The room exists because a file's lock ends at its machine. The server lets go of a lock when its connection ends, however it
does, so nothing has to expire. It must not import a store; psycopg is met here as in the other `postgres_*` rooms.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import psycopg
from anyio import CapacityLimiter, to_thread

from mnemosyne.errors import StoreBusyError, StoreUnavailableError
from mnemosyne.stores.locate import PostgresAddress

_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.1
_THREADS = 8
_KEPT = 4
Driver = psycopg.Connection[tuple[bool]]


class PostgresSessionLocks:
    """Locks of the sessions of one tenant in one schema of a database.

    Whoever waits looks again after 5 ms, then ever more seldom, at least every 100 ms. `wait_seconds` bounds the wait. Up to
    four connections are kept open between calls.
    """

    def __init__(self, address: PostgresAddress, *, tenant: str = "default", wait_seconds: float = 60.0) -> None:
        self._address = address
        self._tenant = tenant
        self._wait_seconds = wait_seconds
        self._threads = CapacityLimiter(_THREADS)
        self._idle: list[Driver] = []

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[None]:
        """Hold a session as long as the block lasts; StoreBusyError, StoreUnavailableError."""
        key = self._key(session_id)
        driver = await to_thread.run_sync(self._connected, limiter=self._threads)
        held = False
        try:
            await self._acquire(driver, key)
            held = True
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._give_back, driver, key if held else None, limiter=self._threads)

    async def close(self) -> None:
        """Close the connections that are kept."""
        idle, self._idle = self._idle, []
        for driver in idle:
            await to_thread.run_sync(driver.close, limiter=self._threads)

    def _key(self, session_id: str) -> int:
        named = "\0".join(("jacquard", self._address.schema, self._tenant, session_id))
        return int.from_bytes(hashlib.sha256(named.encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True)

    async def _acquire(self, driver: Driver, key: int) -> None:
        until = anyio.current_time() + self._wait_seconds
        wait = _FIRST_WAIT_SECONDS
        while not await to_thread.run_sync(self._try, driver, key, limiter=self._threads):
            if anyio.current_time() >= until:
                raise StoreBusyError(self._address.shown, self._wait_seconds)
            await anyio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)

    def _connected(self) -> Driver:
        if self._idle:
            return self._idle.pop()
        try:
            return psycopg.connect(self._address.conninfo, autocommit=True)
        except psycopg.Error as error:
            raise StoreUnavailableError(
                self._address.shown, "no lock of a session can be had: " + _plain(error)
            ) from None

    def _try(self, driver: Driver, key: int) -> bool:
        try:
            row = driver.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        except psycopg.Error as error:
            raise StoreUnavailableError(
                self._address.shown, "no lock of a session can be had: " + _plain(error)
            ) from None
        return row is not None and row[0]

    def _give_back(self, driver: Driver, key: int | None) -> None:
        """Let go of a lock; a connection whose lock is in doubt is closed, which lets go of it as well."""
        try:
            if key is None or len(self._idle) >= _KEPT:
                driver.close()
                return
            driver.execute("SELECT pg_advisory_unlock(%s)", (key,))
            self._idle.append(driver)
        except psycopg.Error:
            driver.close()


def _plain(error: psycopg.Error) -> str:
    return type(error).__name__
