"""LlamaIndex: QueryFusionRetriever over FAISS and BM25, ChatMemoryBuffer. LlamaIndex is imported here only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import faiss
import Stemmer
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.faiss import FaissVectorStore
from pydantic import PrivateAttr

from benchmarks.rivals.stacks.stack import (
    HISTORY_TOKENS,
    INSTRUCTION,
    Lines,
    Model,
    Turn,
    TurnRequest,
    format_document,
)
from mnemosyne.formats.corpora.corpus import CorpusDocument

_WIDTH = 384
_BATCH = 512
_PROMPT = ChatPromptTemplate([ChatMessage(role="system", content=INSTRUCTION + "\n\nMemories:\n{memories}")])


class _SharedEmbeddings(BaseEmbedding):
    """The embedder that all stacks share, as LlamaIndex wants it; big batches, so that it can sort them by length."""

    _model: Any = PrivateAttr()

    def __init__(self, model: Model) -> None:
        super().__init__(model_name="shared", embed_batch_size=_BATCH)
        self._model = model

    def _get_query_embedding(self, query: str) -> list[float]:
        row: list[float] = self._model.query(query).tolist()
        return row

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = self._model.documents(texts).tolist()
        return rows


class LlamaIndex:
    """Reciprocal rank fusion of both retrievers, the query as it is (`num_queries=1`), so that no model is asked."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lines = Lines((), ())
        self._fusions: dict[int, QueryFusionRetriever] = {}

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Make nodes, a vector index over FAISS, and BM25 with the English stemmer."""
        self._lines, self._window = Lines(documents, talk), len(talk)
        await self.open_history(to_messages(self._lines.roles))
        nodes = to_nodes(documents)
        storage = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(_WIDTH)))
        self._vectors = VectorStoreIndex(nodes, storage_context=storage, embed_model=_SharedEmbeddings(self._model))
        self._nodes = nodes
        self._count_words()

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        found = self._fusion(limit).retrieve(query)
        return tuple(each.node.metadata["id"] for each in found)

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt."""
        ranked = self._lines.drop_shown(await self.recall(ask.query, ask.depth))
        evidence = self._lines.within(ranked, ask.limit, ask.tokens)
        system = _PROMPT.format_messages(memories="\n".join(self._lines[name] for name, _ in evidence))
        history = (await self.read_history())[-self._window :] if self._window else []
        messages = [*system, *history, ChatMessage(role="user", content=ask.query)]
        return Turn(
            ranked=ranked,
            evidence=evidence,
            messages=tuple((str(each.role.value), str(each.content)) for each in messages),
        )

    async def commit(self, query: str, reply: str) -> None:
        """Append both messages to the session and the index of vectors; BM25 is built again, because it cannot add."""
        said = self._lines.add_turn(query, reply)
        nodes = to_nodes(said)
        self._vectors.insert_nodes(nodes)
        self._nodes.extend(nodes)
        self._count_words()
        await self.append_history(to_messages(zip(("user", "assistant"), map(format_document, said), strict=True)))

    async def settle(self) -> None:
        """Do nothing: `commit` does it all."""

    async def discard(self) -> None:
        """Nothing is kept of a turn that is not committed."""

    async def close(self) -> None:
        """Do nothing: all is in memory."""

    async def open_history(self, messages: list[ChatMessage]) -> None:
        """Start the session with these messages."""
        self._memory = ChatMemoryBuffer.from_defaults(chat_history=messages, token_limit=HISTORY_TOKENS)

    async def read_history(self) -> list[ChatMessage]:
        """Return the session so far, oldest first, as far as the buffer's limit allows."""
        return list(self._memory.get())

    async def append_history(self, messages: Sequence[ChatMessage]) -> None:
        """Add the messages of a turn, and let as many of the oldest go: the buffer counts all that it holds each time."""
        self._memory.put_messages(list(messages))
        self._memory.set(self._memory.get_all()[-self._window :] if self._window else [])

    def _count_words(self) -> None:
        self._bm25 = BM25Retriever.from_defaults(
            nodes=self._nodes,
            similarity_top_k=min(50, len(self._nodes)),
            stemmer=Stemmer.Stemmer("english"),
            language="english",
        )
        self._fusions = {}

    def _fusion(self, limit: int) -> QueryFusionRetriever:
        if limit not in self._fusions:
            # The words counted stay the same; only how many are handed out changes.
            lexical = BM25Retriever(
                existing_bm25=self._bm25.bm25,
                stemmer=Stemmer.Stemmer("english"),
                similarity_top_k=min(limit, len(self._nodes)),
            )
            lexical.corpus = self._bm25.corpus
            self._fusions[limit] = QueryFusionRetriever(
                [self._vectors.as_retriever(similarity_top_k=limit), lexical],
                llm=MockLLM(),
                mode="reciprocal_rerank",
                similarity_top_k=limit,
                num_queries=1,
                use_async=False,
            )
        return self._fusions[limit]


def to_messages(roles: Iterable[tuple[str, str]]) -> list[ChatMessage]:
    """Return (role, text) as LlamaIndex's messages."""
    return [ChatMessage(role=role, content=text) for role, text in roles]


def to_nodes(documents: Sequence[CorpusDocument]) -> list[TextNode]:
    """Return documents as nodes whose id is not part of their text."""
    return [
        TextNode(
            id_=each.document_id,
            text=format_document(each),
            metadata={"id": each.document_id},
            excluded_embed_metadata_keys=["id"],
            excluded_llm_metadata_keys=["id"],
        )
        for each in documents
    ]
