"""LangChain: EnsembleRetriever over BM25 and FAISS, ChatPromptTemplate, trim_messages. LangChain is imported here only."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from benchmarks.rivals.stacks.stack import (
    HISTORY_TOKENS,
    INSTRUCTION,
    Lines,
    Model,
    Turn,
    TurnRequest,
    format_document,
    list_roles,
    split_words,
)
from mnemosyne import CorpusDocument

_ROLES = {"human": "user", "ai": "assistant"}
_PROMPT = ChatPromptTemplate.from_messages(
    [("system", INSTRUCTION + "\n\nMemories:\n{memories}"), MessagesPlaceholder("history"), ("human", "{question}")]
)


class _Shared(Embeddings):
    """The embedder that all stacks share, as LangChain wants it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a list of numbers a text."""
        rows: list[list[float]] = self._model.documents(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the numbers of a query."""
        row: list[float] = self._model.query(text).tolist()
        return row


class LangChain:
    """BM25 (k as asked) and FAISS, equal weights, as the guide to hybrid search has it; `id_key` tells documents apart."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lines = Lines((), ())
        self._history: list[BaseMessage] = []
        self._ensembles: dict[int, EnsembleRetriever] = {}

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Fill FAISS with one call of the embedder, and BM25."""
        self._lines = Lines(documents, talk)
        self._history = [HumanMessage(text) if role == "user" else AIMessage(text) for role, text in list_roles(talk)]
        texts = [format_document(each) for each in documents]
        ids = [each.document_id for each in documents]
        metadatas = [{"id": name} for name in ids]
        self._faiss = FAISS.from_texts(texts, _Shared(self._model), metadatas=metadatas, ids=ids)
        self._bm25 = BM25Retriever.from_texts(texts, metadatas=metadatas, preprocess_func=split_words)
        self._ensembles = {}

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        found = self._ensemble(limit).invoke(query)
        return tuple(each.metadata["id"] for each in found[:limit])

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt."""
        ranked = self._lines.drop_shown(await self.recall(ask.query, ask.depth))
        evidence = self._lines.within(ranked, ask.limit, ask.tokens)
        history = trim_messages(
            self._history, max_tokens=HISTORY_TOKENS, token_counter=count_tokens_approximately, strategy="last"
        )
        prompt = _PROMPT.invoke(
            {
                "memories": "\n".join(self._lines[name] for name, _ in evidence),
                "history": history,
                "question": ask.query,
            }
        )
        messages = tuple((_ROLES.get(each.type, each.type), str(each.content)) for each in prompt.to_messages())
        return Turn(ranked=ranked, evidence=evidence, messages=messages)

    async def close(self) -> None:
        """Do nothing: all is in memory."""

    def _ensemble(self, limit: int) -> EnsembleRetriever:
        if limit not in self._ensembles:
            self._ensembles[limit] = EnsembleRetriever(
                retrievers=[
                    self._bm25.model_copy(update={"k": limit}),
                    self._faiss.as_retriever(search_kwargs={"k": limit}),
                ],
                weights=[0.5, 0.5],
                id_key="id",
            )
        return self._ensembles[limit]
