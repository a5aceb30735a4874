"""LlamaIndex: QueryFusionRetriever over FAISS and BM25, ChatMemoryBuffer. LlamaIndex is imported here only."""

from __future__ import annotations

from collections.abc import Sequence
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
    list_roles,
)
from mnemosyne import CorpusDocument

_WIDTH = 384
_BATCH = 512
_PROMPT = ChatPromptTemplate([ChatMessage(role="system", content=INSTRUCTION + "\n\nMemories:\n{memories}")])


class _Shared(BaseEmbedding):
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
        self._lines = Lines(documents, talk)
        self._memory = ChatMemoryBuffer.from_defaults(
            chat_history=[ChatMessage(role=role, content=text) for role, text in list_roles(talk)],
            token_limit=HISTORY_TOKENS,
        )
        nodes = [
            TextNode(
                id_=each.document_id,
                text=format_document(each),
                metadata={"id": each.document_id},
                excluded_embed_metadata_keys=["id"],
                excluded_llm_metadata_keys=["id"],
            )
            for each in documents
        ]
        storage = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(_WIDTH)))
        self._vectors = VectorStoreIndex(nodes, storage_context=storage, embed_model=_Shared(self._model))
        self._nodes = nodes
        self._bm25 = BM25Retriever.from_defaults(
            nodes=nodes, similarity_top_k=min(50, len(nodes)), stemmer=Stemmer.Stemmer("english"), language="english"
        )
        self._fusions = {}

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        found = self._fusion(limit).retrieve(query)
        return tuple(each.node.metadata["id"] for each in found)

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt."""
        ranked = self._lines.drop_shown(await self.recall(ask.query, ask.depth))
        evidence = self._lines.within(ranked, ask.limit, ask.tokens)
        system = _PROMPT.format_messages(memories="\n".join(self._lines[name] for name, _ in evidence))
        messages = [*system, *self._memory.get(), ChatMessage(role="user", content=ask.query)]
        return Turn(
            ranked=ranked,
            evidence=evidence,
            messages=tuple((str(each.role.value), str(each.content)) for each in messages),
        )

    async def close(self) -> None:
        """Do nothing: all is in memory."""

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
