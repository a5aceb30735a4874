"""Locks sessions across machines, by advisory locks of PostgreSQL. All locks of one engine are on one connection.

A file lock works only on one machine. The server releases a lock when its connection ends, for whatever reason, so
locks need no expiry. The server notices within half a minute that a host is silent. This module must not import a
store.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any

import anyio
import psycopg
from psycopg.conninfo import conninfo_to_dict

from mnemosyne.core.errors import StoreBusyError, StoreUnavailableError
from mnemosyne.core.off_loop import on_loop
from mnemosyne.stores.locate import PostgresAddress
from mnemosyne.stores.threads import run_shielded
from mnemosyne.values import dataclass

_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.1
_THREADS = 2
_LINE: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""Settings that detect a dead connection soon. Settings in the address take precedence."""

_SERVERS_SIDE = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
Driver = psycopg.Connection[tuple[bool]]


@dataclass(slots=True)
class _Claim:
    """One caller's request for a lock. `driver` is the connection that holds it; `is_over`: the caller has gone."""

    session_id: str
    key: int
    is_first: bool = False
    driver: Driver | None = None
    is_over: bool = False


class PostgresSessionLocks:
    """Locks for the sessions of one tenant in one schema of a database.

    A waiting caller tries again after 5 ms, then at growing intervals of at most 100 ms, for `wait_seconds` in total.
    One connection serves all sessions. If the connection is lost, its locks are lost too, and the next call opens
    another. A connection pooler between host and server must use session pooling, as for the store itself.
    """

    def __init__(self, address: PostgresAddress, *, tenant: str = "default", wait_seconds: float = 60.0) -> None:
        self._address = address
        self._tenant = tenant
        self._wait_seconds = wait_seconds
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="session-locks")
        self._driver: Driver | None = None
        self._one = Lock()
        self._claimed: dict[int, _Claim] = {}
        self._is_closed = False

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[None]:
        """Hold the lock of a session during the block.

        Raises StoreBusyError if the lock is not free after `wait_seconds`. Raises StoreUnavailableError if the server
        cannot be used.
        """
        claim = _Claim(session_id=session_id, key=self._key(session_id))
        try:
            await self._acquire(claim)
            yield
        finally:
            if claim.is_first:
                await run_shielded(self._threads, partial(self._give_back, claim))

    async def close(self) -> None:
        """Close the connection, which releases its locks. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        await run_shielded(self._threads, self._close_driver)
        self._threads.shutdown(wait=False)

    def _key(self, session_id: str) -> int:
        named = "\0".join(("jacquard", self._address.schema, self._tenant, session_id))
        return int.from_bytes(hashlib.sha256(named.encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True)

    async def _acquire(self, claim: _Claim) -> None:
        until = monotonic() + self._wait_seconds
        wait = _FIRST_WAIT_SECONDS
        while not await self._try(claim):
            if monotonic() >= until:
                raise StoreBusyError(self._address.shown, self._wait_seconds, session_id=claim.session_id)
            await on_loop(anyio.sleep, wait)
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)

    async def _try(self, claim: _Claim) -> bool:
        """Return whether the lock is this caller's now. Only one caller at a time asks, because the server would give
        its own connection the same lock again and again.
        """
        claim.is_first = self._claimed.setdefault(claim.key, claim) is claim
        if not claim.is_first:
            return False
        return await run_shielded(self._threads, partial(self._take, claim))

    def _take(self, claim: _Claim) -> bool:
        """Request a lock, unless its caller has gone meanwhile; if the connection turns out to be lost, request it on
        another.
        """
        with self._one:
            if claim.is_over:
                return False
            was_open = self._driver is not None
            try:
                return self._query_lock(claim)
            except psycopg.Error as error:
                if not (was_open and self._is_lost()):
                    raise self._unavailable_error(error) from None
            try:
                return self._query_lock(claim)
            except psycopg.Error as error:
                raise self._unavailable_error(error) from None

    def _query_lock(self, claim: _Claim) -> bool:
        if self._driver is None:
            self._driver = self._connect()
        row = self._driver.execute("SELECT pg_try_advisory_lock(%s)", (claim.key,)).fetchone()
        if row is not None and row[0]:
            claim.driver = self._driver
        return claim.driver is not None

    def _is_lost(self) -> bool:
        """Return whether the connection is lost; then its locks are lost as well, and it is dropped."""
        if self._driver is not None and self._driver.closed:
            self._drop()
        return self._driver is None

    def _connect(self) -> Driver:
        wanted: dict[str, Any] = _LINE | conninfo_to_dict(self._address.conninfo)
        driver: Driver = psycopg.connect(**wanted, autocommit=True)
        driver.execute(_SERVERS_SIDE)
        return driver

    def _give_back(self, claim: _Claim) -> None:
        """Release a lock; if that fails, close the connection, which releases it."""
        with self._one:
            claim.is_over = True
            self._claimed.pop(claim.key, None)
            if claim.driver is None or claim.driver is not self._driver:
                return
            try:
                claim.driver.execute("SELECT pg_advisory_unlock(%s)", (claim.key,))
            except psycopg.Error:
                self._drop()

    def _close_driver(self) -> None:
        with self._one:
            self._drop()

    def _drop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def _unavailable_error(self, error: psycopg.Error) -> StoreUnavailableError:
        said = self._address.without_secrets(" ".join(str(error).split())) or type(error).__name__
        return StoreUnavailableError(self._address.shown, f"sessions cannot be locked ({said})")
