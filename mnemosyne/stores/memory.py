"""The store in memory: for tests, for hosts that store nothing, and for trying things out.

It implements the Store protocol over the ledgers of one process. Nothing is written to a file; one operation runs after
the other, on the event loop, or in a worker thread where a session's state is large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import anyio
import anyio.lowlevel

from mnemosyne.core.off_loop import calculate
from mnemosyne.damage import DamageLog
from mnemosyne.schema.erasure import AuditRecord
from mnemosyne.stores.ledger.erase import Dataset, RewritePlan
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.rows import Change
from mnemosyne.stores.ledger.store import LedgerStore

T = TypeVar("T")


class MemoryStore(LedgerStore):
    """A Store whose sessions exist as long as this instance and the views of other tenants on it.

    For what a method does and raises, see `mnemosyne.protocols.Store`. Rule 1 cannot hold; all others do. Use an
    instance on one event loop only.
    """

    def __init__(self, tenant: str = "default") -> None:
        self._tenants: dict[str, MemoryBackend] = {}
        self._open(tenant)

    def _open(self, tenant: str) -> None:
        self.tenant = tenant
        self._log = DamageLog()
        super().__init__(self._tenants.setdefault(tenant, MemoryBackend(tenant)))

    @property
    def damage_log(self) -> DamageLog:
        """The notes on damaged records that reads have passed by."""
        return self._log

    def for_tenant(self, tenant: str) -> MemoryStore:
        """Return a view of the same memory for another tenant; neither sees the other's data."""
        view = MemoryStore.__new__(MemoryStore)
        view._tenants = self._tenants
        view._open(tenant)
        return view


class MemoryBackend:
    """Stores the ledgers of one tenant in a dict."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._ledgers: dict[str, Ledger] = {}
        self._audits: tuple[AuditRecord, ...] = ()
        self._floor = 0
        self._one_at_a_time = anyio.Lock()

    async def read(self, scopes: Sequence[str], work: Callable[[Sequence[Ledger]], T]) -> T:
        """Run `work` on the current ledgers."""
        async with self._one_at_a_time:
            ledgers = [self._ledgers.get(scope) or Ledger() for scope in scopes]
            found: T = await calculate(work, ledgers, size=_state_chars(ledgers))
            return found

    async def write(self, scope: str, name: str, work: Callable[[Ledger], T]) -> T:
        """Run `work` that changes one ledger."""
        async with self._one_at_a_time:
            ledger = self._ledgers.get(scope) or Ledger(floor=self._floor)
            done: tuple[T, tuple[Change, ...]] = await calculate(ledger.run, work, size=_state_chars([ledger]))
            if done[1]:
                self._ledgers[scope] = ledger
            return done[0]

    async def read_all(self, work: Callable[[Dataset], T]) -> T:
        """Run `work` on all ledgers."""
        async with self._one_at_a_time:
            return work(self._dataset())

    async def rewrite(self, work: Callable[[Dataset], tuple[T, RewritePlan]]) -> T:
        """Let `work` replace ledgers."""
        async with self._one_at_a_time:
            result, rewriting = work(self._dataset())
            for scope, ledger in rewriting.ledgers.items():
                if ledger is None:
                    del self._ledgers[scope]
                else:
                    self._ledgers[scope] = ledger
            self._audits = (*self._audits, rewriting.audit)
            self._floor = rewriting.floor
            return result

    async def close(self) -> None:
        """Do nothing: no resource is held, and other views keep the data."""
        await anyio.lowlevel.checkpoint()

    def _dataset(self) -> Dataset:
        return Dataset(ledgers=self._ledgers, audits=self._audits, floor=self._floor)


def _state_chars(ledgers: Sequence[Ledger]) -> int:
    """Return the size of the largest head state, which reads and writes decode and encode."""
    return max((len(state) for ledger in ledgers for state in ledger.states.values()), default=0)
