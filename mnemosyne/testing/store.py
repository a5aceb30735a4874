"""The contract suite of `mnemosyne.protocols.Store`: subclass it, say how to open a store, and run pytest.

    from mnemosyne.testing.store import StoreContract

    class TestMyStore(StoreContract):
        async def make_store(self, folder: Path, tenant: str = "default") -> Store:
            return MyStore(folder / "my.db", tenant=tenant)

`make_store` is called with a fresh folder for each test, and again with the same folder where a test asks what is left
after `close`, what another tenant sees, or what another process writes (there the class is imported from its file and
instantiated again; set `persistent = False` for a store that stores nothing). Tests run under the anyio pytest plugin,
so the `anyio_backend` fixture decides on the event loop. `test_rule_<n>_...` belongs to rule n of the protocol; the
others test what the docstring of a method promises.
"""

from __future__ import annotations

import pytest

from mnemosyne.testing.stores.concurrency import StoreConcurrency
from mnemosyne.testing.stores.documents import StoreDocuments
from mnemosyne.testing.stores.erasure import StoreErasure
from mnemosyne.testing.stores.lineage import StoreLineage
from mnemosyne.testing.stores.memory import StoreMemory
from mnemosyne.testing.stores.parts import StoreParts
from mnemosyne.testing.stores.replies import StoreReplies
from mnemosyne.testing.stores.rules import StoreRules
from mnemosyne.testing.stores.runs import StoreRuns
from mnemosyne.testing.stores.turn_inputs import StoreTurnInputs
from mnemosyne.testing.stores.worlds import StoreWorlds


class StoreContract(
    StoreRules,
    StoreMemory,
    StoreRuns,
    StoreTurnInputs,
    StoreDocuments,
    StoreParts,
    StoreLineage,
    StoreErasure,
    StoreReplies,
    StoreWorlds,
    StoreConcurrency,
):
    """Rules for every Store; the module's docstring shows how to use it."""

    pytestmark = pytest.mark.anyio
