"""The shipped contract suites, on the parts of this plugin: `pytest contracts.py`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from jacquard_sample.pruner import ExplainingPruner
from jacquard_sample.redactor import BadgeRedactor
from jacquard_sample.stores import open_store

from jacquard import RuntimeConfig, create_context_engine
from jacquard.config.settings import config_from_mapping
from jacquard.testing.pruner import PrunerContract
from jacquard.testing.smoke import EngineSmoke
from jacquard.wiring.runtime import open_embedder
from mnemosyne import MemoryStore
from mnemosyne.testing.redactor import RedactorContract
from mnemosyne.testing.store import StoreContract

NAMED: RuntimeConfig = config_from_mapping(
    {
        "token_estimator": "sample",
        "planner": {"name": "sample"},
        "selector": {"name": "sample"},
        "prune": {"policy": "sample"},
        "redaction": {"redactor": "sample"},
    }
)


@pytest.fixture
def anyio_backend():
    return "asyncio"


class TestStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default"):
        return open_store(f"sample:{folder}", tenant=tenant, create=True)


class TestRedactor(RedactorContract):
    def make_redactor(self):
        return BadgeRedactor()


class TestPruner(PrunerContract):
    def make_pruner(self):
        return ExplainingPruner()


class TestEngine(EngineSmoke):
    @asynccontextmanager
    async def open_engine(self):
        async with create_context_engine(MemoryStore(), config=NAMED, embedder=open_embedder("sample")) as engine:
            yield engine
