"""mem0: `Memory` with `infer=False` (no model is asked) over Qdrant in a local folder. mem0 is imported here only."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

_FOLDER = tempfile.TemporaryDirectory(prefix="jacquard-rivals-")
# mem0 makes a folder in the user's home and opens a client of its telemetry when it is imported, unless these are set.
os.environ.update(MEM0_DIR=_FOLDER.name, MEM0_TELEMETRY="False")

from mem0 import Memory  # noqa: E402
from mem0.embeddings.base import EmbeddingBase  # noqa: E402

from benchmarks.rivals.stacks.by_hand import PlainVector  # noqa: E402
from benchmarks.rivals.stacks.stack import Lines, Model, format_document  # noqa: E402
from mnemosyne.formats.corpora.corpus import CorpusDocument  # noqa: E402

_WIDTH = 384
_SCOPE = {"user_id": "bench"}


class _SharedEmbeddings(EmbeddingBase):
    """The embedder that all stacks share, as mem0 wants it; `ready` has the vectors of texts that are added next."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model
        self.ready: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: Literal["add", "search", "update"] | None = None) -> list[float]:
        """Return the numbers of a text."""
        if memory_action == "search":
            query: list[float] = self._model.query(text).tolist()
            return query
        return self.ready[text]


class Mem0(PlainVector):
    """Cosine over the memories in Qdrant; the prompt is put together by hand, as in the guides of mem0."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._memory: Any = None
        self._documents: dict[str, str] = {}
        self._opened = 0

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Open an empty memory and add everything; the vectors are made in one call."""
        self._lines = Lines(documents, talk)
        await self.close()
        self._opened += 1
        folder = Path(_FOLDER.name) / str(self._opened)
        # The model is only named: with `infer=False` it is not called. The embedder is replaced by the shared one.
        unused = {"provider": "openai", "config": {"api_key": "unused"}}
        store = {"path": str(folder / "qdrant"), "collection_name": "bench", "embedding_model_dims": _WIDTH}
        folder.mkdir()
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "llm": unused,
                "embedder": unused,
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = self._embeddings = _SharedEmbeddings(self._model)
        self._documents = {}
        self._sync_files("OFF")
        self._append(documents)
        self._sync_files("FULL")

    async def close(self) -> None:
        """Close the memory."""
        if self._memory is not None:
            self._memory.vector_store.client.close()
            self._memory.close()
            self._memory = None

    def _append(self, said: Sequence[CorpusDocument]) -> None:
        texts = [format_document(each) for each in said]
        self._embeddings.ready = dict(zip(texts, self._model.documents(texts).tolist(), strict=True))
        added = self._memory.add([{"role": "user", "content": text} for text in texts], infer=False, **_SCOPE)
        names = (each.document_id for each in said)
        self._documents.update(zip((each["id"] for each in added["results"]), names, strict=True))

    def _sync_files(self, mode: str) -> None:
        # Each memory is two transactions in two databases, so 100,000 would take an hour to add if each waited for the disk.
        store = self._memory.vector_store.client._client.collections["bench"].storage
        for connection in (self._memory.db.connection, store.storage):
            connection.execute(f"PRAGMA synchronous = {mode}")

    def _rank_nearest(self, query: str, limit: int) -> list[str]:
        # The threshold of 0.1 would leave out some of the memories that the other stacks return.
        found = self._memory.search(query, top_k=limit, filters=_SCOPE, threshold=0.0)
        return [self._documents[each["id"]] for each in found["results"]]
