"""The contract suite of `mnemosyne.protocols.Store`: subclass `StoreContract`, define how to open a store, and run
pytest.

    from mnemosyne.testing.store import StoreContract

    class TestMyStore(StoreContract):
        async def make_store(self, folder: Path, tenant: str = "default") -> Store:
            return MyStore(folder / "my.db", tenant=tenant)

Each test calls `make_store` with a fresh folder. Some tests call it again with the same folder, to see what is left
after `close`, what another tenant sees, or what another process writes. For the other process, the test class is
imported from its file and instantiated again. Set `persistent = False` for a store that keeps nothing after `close`.

The tests run under the anyio pytest plugin, so the `anyio_backend` fixture decides on the event loop.
`test_rule_<n>_...` tests rule n of the protocol; the other tests check what the docstrings of the methods promise.
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
    """Tests for every Store. The docstring of the module shows how to use them."""

    pytestmark = pytest.mark.anyio
