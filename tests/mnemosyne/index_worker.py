"""One of several processes on one store and one index folder; it reads commands, a JSON list a line, and answers each with a line.

open STORE INDEX TIER
sync SCOPE...     bring the index up to date with the store, as between turns
recall TEXT       a recall of the session and its world, which brings in what is new and holds it back
close             write what is held back, and wait for the next `open` or the end of the input
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
from anyio import to_thread
from recall_parts import LetterEmbedder, question

from mnemosyne import CalibratedEstimator, SqliteStore, StoreError
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever

TIERS = {
    "memory": {"held_rows": 16},
    "big": {"memory_rows": -1, "held_rows": 16},
    "import": {"memory_rows": -1, "delta_rows": 0},
}


def open_index(folder: str | Path, tier: str) -> TieredIndex:
    return TieredIndex(folder, **TIERS[tier])  # type: ignore[arg-type]


def open_retriever(store: SqliteStore, index: TieredIndex) -> HybridRetriever:
    return HybridRetriever(store, index, LetterEmbedder(), CalibratedEstimator(), inline_vectors=1_000)


async def serve() -> None:
    while line := await to_thread.run_sync(sys.stdin.readline):
        _, database, folder, tier = json.loads(line)
        await serve_one(database, folder, tier)


async def serve_one(database: str, folder: str, tier: str) -> None:
    store, index = SqliteStore(database), open_index(folder, tier)
    retriever = open_retriever(store, index)
    while line := await to_thread.run_sync(sys.stdin.readline):
        what, *words = json.loads(line)
        try:
            if what == "sync":
                for scope in words:
                    await retriever.sync(scope, lambda done, total: print(json.dumps(["fed", done]), flush=True))
            elif what == "recall":
                await retriever.recall(question(words[0]))
            else:
                break
        except StoreError as error:
            print(json.dumps(["gone", str(error)]), flush=True)
            continue
        print(json.dumps(["done", *index.faults()]), flush=True)
    await index.close()
    await store.close()
    print(json.dumps(["closed", *index.faults()]), flush=True)


if __name__ == "__main__":
    anyio.run(serve)
