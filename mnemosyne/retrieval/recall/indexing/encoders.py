"""Chooses the embedder with which each scope of an index is searched, and replaces one embedder by another.

An embedder is a model that makes vectors of texts. A scope is one session or one world. A former embedder is one that made the
vectors of a scope, although another embedder is configured now. If the former embedder can be opened, it still embeds the queries
and new entries of this scope. Meanwhile the configured embedder indexes the same entries a second time, in a copy of the scope with
another name (`staged_scope`). When the copy is complete, it replaces the scope in one step. This module must not import a concrete
index or embedder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable

import anyio
from anyio import to_thread

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.protocols import Embedder, EntrySource, Index, VectorStore
from mnemosyne.retrieval.recall.indexing.indexer import Indexer, Progress
from mnemosyne.retrieval.recall.indexing.renamed_index import RenamedIndex
from mnemosyne.retrieval.text.persons import PersonFinder
from mnemosyne.schema.memory import staged_scope
from mnemosyne.values import dataclass

_log = open_log(__name__)

_MOST_SETTLED = 10_000

OpenEncoder = Callable[[str], Embedder | None]
"""Returns the embedder of a name, without loading its model. Returns None if this embedder is not available. May read files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoder:
    """An embedder (None: only words) with the indexer that uses it."""

    embedder: Embedder | None
    indexer: Indexer


class Encoders:
    """The configured embedder, and the former embedders whose vectors are still searched.

    `open_former` opens an embedder by the name that the index has stored for a scope. If the index has stored no name, the scope
    is searched with the configured embedder. `vectors` stores vectors that several hosts share. If an embedder knows a smaller
    share of a text than `least_fitness`, it does not embed the text.
    """

    def __init__(
        self,
        source: EntrySource,
        index: Index,
        embedder: Embedder | None,
        *,
        least_fitness: float,
        open_former: OpenEncoder,
        vectors: VectorStore | None = None,
        persons: PersonFinder | None = None,
    ) -> None:
        self._persons = persons
        self._source, self._embedder, self._least_fitness = source, embedder, least_fitness
        self._open_former, self._vectors = open_former, vectors
        self._index = index
        self.configured = self._make(embedder, index)
        self._next = self._make(embedder, RenamedIndex(index, staged_scope)).indexer
        self._former: dict[str, Encoder | None] = {}
        self._settled = set[str]()
        self._opening = anyio.Lock()
        self._building: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._below: Encoders | None = None
        self._own_scopes: Callable[[], Collection[str]] = frozenset

    def overlay(self, source: EntrySource, index: Index, own_scopes: Callable[[], Collection[str]]) -> Encoders:
        """Return encoders for an overlay. They read the scopes that `own_scopes` names from `source`, and index them in
        `index` with the configured embedder. For all other scopes they ask this object.
        """
        made = Encoders(
            source,
            index,
            self._embedder,
            least_fitness=self._least_fitness,
            open_former=lambda name: None,
            persons=self._persons,
        )
        made._below, made._own_scopes = self, own_scopes
        return made

    def _find_owner(self, scope: str) -> Encoders:
        return self if self._below is None or scope in self._own_scopes() else self._below

    def is_former(self, encoder: Encoder) -> bool:
        """Return whether an encoder has another embedder than the configured one."""
        return encoder is not self.configured and (self._below is None or self._below.is_former(encoder))

    async def find_serving(self, scope: str) -> Encoder:
        """Return the encoder with which `scope` is searched: the one whose embedder made the vectors of `scope`. If this embedder
        is not available, or there are no vectors, return the configured encoder.
        """
        if (owner := self._find_owner(scope)) is not self:
            return await owner.find_serving(scope)
        if self._embedder is None or scope in self._settled:
            return self.configured
        name = await self._index.encoder_of(scope)
        if name in ("", self._embedder.name):
            if len(self._settled) >= _MOST_SETTLED:
                self._settled.clear()
            self._settled.add(scope)
            return self.configured
        return await self._open(name) or self.configured

    async def group_scopes(self, scopes: Iterable[str]) -> list[tuple[Encoder, list[str]]]:
        """Return pairs (encoder, scopes): each encoder with those of `scopes` that are searched with it. The encoders are in the
        order in which `scopes` needs them first.
        """
        found: dict[int, tuple[Encoder, list[str]]] = {}
        for scope in scopes:
            encoder = await self.find_serving(scope)
            found.setdefault(id(encoder), (encoder, []))[1].append(scope)
        return list(found.values())

    def embedders(self) -> tuple[Embedder, ...]:
        """Return the configured embedder and the former embedders that are open in this process."""
        known = (self.configured, *self._former.values())
        return tuple(each.embedder for each in known if each is not None and each.embedder is not None)

    async def lacks_encoder(self, scope: str) -> bool:
        """Return whether the vectors of a scope were made by an embedder that is not available."""
        if (owner := self._find_owner(scope)) is not self:
            return await owner.lacks_encoder(scope)
        if self._embedder is None or scope in self._settled:
            return False
        name = await self._index.encoder_of(scope)
        return name not in ("", self._embedder.name) and await self._open(name) is None

    async def feed(self, scope: str, before_vectors: Callable[[], Awaitable[None]] | None = None) -> None:
        """Index the new entries of `scope`. If `scope` is searched with a former embedder, then replace this embedder by the
        configured one. Do nothing if `scope` was not searched in this process before.

        `before_vectors` is awaited between words and vectors.
        """
        indexers = [each.indexer for each in (self.configured, *self._former.values()) if each is not None]
        if not any(indexer.is_used(scope) for indexer in indexers):
            return
        serving = await self.find_serving(scope)
        await serving.indexer.feed(scope, before_vectors)
        if serving is not self.configured:
            await self.change(scope)

    def give_up(self, encoder: Encoder) -> None:
        """Stop using the former embedder of `encoder`, because its model cannot be loaded. Do nothing if it is the configured
        embedder.
        """
        if encoder is self.configured or encoder.embedder is None:
            return
        if self._below is not None:
            self._below.give_up(encoder)
        else:
            self._former[encoder.embedder.name] = None

    async def change(self, scope: str, progress: Progress | None = None) -> str:
        """Make the vectors of `scope` by the configured embedder while the former vectors are in use, then replace the former.

        Return '' if this was finished or there was nothing to do, else the reason. The call may be cancelled; the next call
        continues. Raises IndexUnavailableError if the index cannot be written.
        """
        async with self._building[scope]:
            serving = await self.find_serving(scope)
            if serving is self.configured or self._embedder is None:
                return ""
            if self._index.snapshot_of(scope):
                # The next snapshot has the vectors of the embedder with which it is made.
                return ""
            staged = staged_scope(scope)
            if await self._index.encoder_of(staged) not in ("", self._embedder.name):
                # Begun for yet another embedder.
                await self._index.drop(staged)
                self._next.forget(scope)
            fault = await self._stage(self._next, scope, progress)
            if fault:
                return fault
            async with serving.indexer.hold(scope):
                # What was written meanwhile; nobody can add to the scope now.
                if fault := await self._stage(self._next, scope, None):
                    return fault
                former = await self._index.encoder_of(scope)
                await self._index.adopt(scope, staged)
                for indexer in (self._next, serving.indexer, self.configured.indexer):
                    indexer.forget(scope)
                self.configured.indexer.use(scope)
                self._settled.add(scope)
            _log.info("%s: the index has the vectors of %s now, not of %s", scope, self._embedder.name, former)
            return ""

    async def index_into(self, scope: str, index: Index) -> None:
        """Index a scope from the source into another index, with the configured embedder.

        Raises:
            EmbedderUnavailableError: if the model is not available.
            IndexUnavailableError: if `index` cannot be written.
        """
        result = await self._make(self._embedder, index).indexer.index_new(scope)
        if result.fault:
            raise EmbedderUnavailableError(result.fault)

    def forget(self, scope: str) -> None:
        """Drop the caches of a scope that was dropped from the index or is about to be."""
        self._settled.discard(scope)
        for encoder in (self.configured, *filter(None, self._former.values())):
            encoder.indexer.forget(scope)
        self._next.forget(scope)

    async def _stage(self, indexer: Indexer, scope: str, progress: Progress | None) -> str:
        result = await indexer.index_new(scope, progress=progress)
        if not result.fault and not result.behind:
            result = await indexer.fill_vectors(scope)
        return result.fault or ("the index was dropped meanwhile; the next call begins again" if result.behind else "")

    async def _open(self, name: str) -> Encoder | None:
        async with self._opening:
            if name not in self._former:
                embedder = await to_thread.run_sync(self._open_former, name)
                usable = embedder is not None and embedder.name == name
                self._former[name] = self._make(embedder, self._index) if usable else None
        return self._former[name]

    def _make(self, embedder: Embedder | None, index: Index) -> Encoder:
        indexer = Indexer(
            self._source,
            index,
            embedder,
            least_fitness=self._least_fitness,
            vectors=self._vectors,
            persons=self._persons,
        )
        return Encoder(embedder=embedder, indexer=indexer)
