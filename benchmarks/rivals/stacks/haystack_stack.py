"""Haystack: one pipeline of BM25 and embedding retriever, joiner and prompt builder. Haystack is imported here only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

from benchmarks.rivals.stacks.stack import INSTRUCTION, Lines, Model, Turn, TurnRequest, format_document
from mnemosyne.formats.corpora.corpus import CorpusDocument

_SYSTEM = INSTRUCTION + "\n\nMemories:\n{% for line in memories %}{{ line }}\n{% endfor %}"


@component
class _QueryEmbedder:
    """The embedder that all stacks share, as a component."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Return the numbers of a query."""
        return {"embedding": self._model.query(text).tolist()}


@component
class _Budget:
    """Keeps as many of the joined documents as fit."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    @component.output_types(memories=list[str], ranked=list[str], evidence=list[tuple[str, int]])
    def run(self, documents: list[Document], limit: int, tokens: int) -> dict[str, Any]:
        """Return their lines, the ranking, and what is kept with its cost."""
        ranked = self._lines.drop_shown([each.id for each in documents])
        evidence = self._lines.within(ranked, limit, tokens)
        return {
            "memories": [self._lines[name] for name, _ in evidence],
            "ranked": list(ranked),
            "evidence": list(evidence),
        }


class Haystack:
    """The hybrid pipeline of the tutorial, without its ranking model; vectors are of length 1, so the dot product does."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Embed everything in one call, write it, and join the pipelines."""
        self._lines = Lines(documents, talk)
        self._store = InMemoryDocumentStore(return_embedding=False, shared=False)
        self._write(documents)
        self._search = _build_search(self._store, self._model)
        self._turns = _build_search(self._store, self._model)
        self._turns.add_component("budget", _Budget(self._lines))
        variables = ["memories", "question"]
        self._turns.add_component("prompt", ChatPromptBuilder(variables=variables, required_variables=variables))
        self._turns.connect("joiner.documents", "budget.documents")
        self._turns.connect("budget.memories", "prompt.memories")

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        found = self._search.run(_build_request(query, limit))
        return tuple(each.id for each in found["joiner"]["documents"])

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt."""
        given = {
            **_build_request(ask.query, ask.depth),
            "budget": {"limit": ask.limit, "tokens": ask.tokens},
            "prompt": {"question": ask.query, "template": _build_template(self._lines.roles)},
        }
        found = self._turns.run(given)
        return Turn(
            ranked=tuple(found["budget"]["ranked"]),
            evidence=tuple(found["budget"]["evidence"]),
            messages=tuple((each.role.value, each.text) for each in found["prompt"]["prompt"]),
        )

    async def commit(self, query: str, reply: str) -> None:
        """Write both messages; the session so far is part of the next turn's template."""
        self._write(self._lines.add_turn(query, reply))

    async def settle(self) -> None:
        """Do nothing: `commit` does it all."""

    async def discard(self) -> None:
        """Nothing is kept of a turn that is not committed."""

    async def close(self) -> None:
        """Do nothing: all is in memory."""

    def _write(self, documents: Sequence[CorpusDocument]) -> None:
        vectors = self._model.documents([format_document(each) for each in documents])
        self._store.write_documents(
            [
                Document(id=each.document_id, content=format_document(each), embedding=vector.tolist())
                for each, vector in zip(documents, vectors, strict=True)
            ]
        )


def _build_template(roles: Sequence[tuple[str, str]]) -> list[ChatMessage]:
    return [
        ChatMessage.from_system(_SYSTEM),
        *(
            ChatMessage.from_user("{% raw %}" + text + "{% endraw %}")
            if role == "user"
            else ChatMessage.from_assistant(text)
            for role, text in roles
        ),
        ChatMessage.from_user("{{ question }}"),
    ]


def _build_search(store: InMemoryDocumentStore, model: Model) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("embedder", _QueryEmbedder(model))
    pipeline.add_component("vectors", InMemoryEmbeddingRetriever(store))
    pipeline.add_component("words", InMemoryBM25Retriever(store))
    pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
    pipeline.connect("embedder.embedding", "vectors.query_embedding")
    pipeline.connect("vectors.documents", "joiner.documents")
    pipeline.connect("words.documents", "joiner.documents")
    return pipeline


def _build_request(query: str, depth: int) -> dict[str, Any]:
    return {
        "embedder": {"text": query},
        "vectors": {"top_k": depth},
        "words": {"query": query, "top_k": depth},
        "joiner": {"top_k": depth},
    }
