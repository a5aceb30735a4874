"""LangChain: EnsembleRetriever over BM25 and FAISS, ChatPromptTemplate, trim_messages. LangChain is imported here only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from rank_bm25 import BM25Okapi

from benchmarks.rivals.stacks.stack import (
    HISTORY_TOKENS,
    INSTRUCTION,
    Lines,
    Model,
    Turn,
    TurnRequest,
    format_document,
    split_words,
)
from mnemosyne.formats.corpora.corpus import CorpusDocument

_ROLES = {"human": "user", "ai": "assistant"}
_PROMPT = ChatPromptTemplate.from_messages(
    [("system", INSTRUCTION + "\n\nMemories:\n{memories}"), MessagesPlaceholder("history"), ("human", "{question}")]
)


class _SharedEmbeddings(Embeddings):
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
    """BM25 (k as asked) and FAISS, equal weights, as the guide to hybrid search has it; `id_key` identifies
    documents.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lines = Lines((), ())
        self._window = 0
        self._history: list[BaseMessage] = []
        self._ensembles: dict[int, EnsembleRetriever] = {}

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Fill FAISS with one call of the embedder, and BM25."""
        self._lines, self._window = Lines(documents, talk), len(talk)
        self._history = to_messages(self._lines.roles)
        self._documents = to_documents(documents)
        texts = [each.page_content for each in self._documents]
        ids = [each.document_id for each in documents]
        metadatas = [each.metadata for each in self._documents]
        self._faiss = FAISS.from_texts(texts, _SharedEmbeddings(self._model), metadatas=metadatas, ids=ids)
        self._words = [split_words(text) for text in texts]
        self._count_words()

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        return self._search(query, limit)

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt."""
        return self.build_turn(ask)

    def build_turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt."""
        ranked = self._lines.drop_shown(self._search(ask.query, ask.depth))
        evidence = self._lines.within(ranked, ask.limit, ask.tokens)
        history = trim_messages(
            self.read_history()[-self._window :] if self._window else [],
            max_tokens=HISTORY_TOKENS,
            token_counter=count_tokens_approximately,
            strategy="last",
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

    async def commit(self, query: str, reply: str) -> None:
        """Append both messages to the session, FAISS and BM25."""
        said = self._lines.add_turn(query, reply)
        found = to_documents(said)
        self._faiss.add_documents(found, ids=[each.document_id for each in said])
        self._documents.extend(found)
        self._words.extend(split_words(each.page_content) for each in found)
        self._count_words()
        self.append_history(to_messages(zip(("user", "assistant"), map(format_document, said), strict=True)))

    async def settle(self) -> None:
        """Do nothing: `commit` does it all."""

    async def discard(self) -> None:
        """Nothing is kept of a turn that is not committed."""

    async def close(self) -> None:
        """Do nothing: all is in memory."""

    def read_history(self) -> Sequence[BaseMessage]:
        """Return the session so far, oldest first."""
        return self._history

    def append_history(self, messages: Sequence[BaseMessage]) -> None:
        """Add the messages of a turn to the session."""
        self._history.extend(messages)

    def _search(self, query: str, limit: int) -> tuple[str, ...]:
        found = self._ensemble(limit).invoke(query)
        return tuple(each.metadata["id"] for each in found[:limit])

    def _count_words(self) -> None:
        # `BM25Retriever` cannot add; its own vectorizer is filled again, with words that are split already.
        self._bm25 = BM25Retriever(vectorizer=BM25Okapi(self._words), docs=self._documents, preprocess_func=split_words)
        self._ensembles = {}

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


def to_messages(roles: Iterable[tuple[str, str]]) -> list[BaseMessage]:
    """Return (role, text) as LangChain's messages."""
    return [HumanMessage(text) if role == "user" else AIMessage(text) for role, text in roles]


def to_documents(documents: Sequence[CorpusDocument]) -> list[Document]:
    """Return documents as LangChain's, with their id as metadata."""
    return [Document(page_content=format_document(each), metadata={"id": each.document_id}) for each in documents]
