"""The contract suite of `mnemosyne.protocols.Store`: subclass it, say how to open a store, and run pytest.

    from mnemosyne.testing.store import StoreContract

    class TestMyStore(StoreContract):
        async def make_store(self, folder: Path) -> Store:
            return MyStore(folder / "my.db")

`make_store` is called with a fresh folder for each test, and again with the same folder where a test asks what is left
after `close`; set `persistent = False` for a store that keeps nothing. Tests run under the anyio pytest plugin, so the
`anyio_backend` fixture decides on the event loop. `test_rule_<n>_...` belongs to rule n of the protocol; the others test
what the docstring of a method promises.
"""

from __future__ import annotations

import pytest

from mnemosyne.testing.store_memory import StoreMemory
from mnemosyne.testing.store_rules import StoreRules
from mnemosyne.testing.store_runs import StoreRuns


class StoreContract(StoreRules, StoreMemory, StoreRuns):
    """What every Store must do; see the module's docstring for how to use it."""

    pytestmark = pytest.mark.anyio
