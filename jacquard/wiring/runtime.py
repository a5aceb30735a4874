"""Opens a runtime: a store with its index, embedder and models, and an engine that works on them.

A package with large dependencies is imported only when a setting names it.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from anyio import to_thread

from jacquard.adapters.observe.streams import TracedRetriever
from jacquard.config.input_limits import check_user_message
from jacquard.config.sections import LimitsConfig, ObservabilityConfig, RuntimeConfig
from jacquard.core.errors import ConfigError, JacquardError
from jacquard.core.protocols import LlmAdapter, PairScorer
from jacquard.memory.consolidate.consolidator import Progress, ignore_progress
from jacquard.pipeline.planning.actions import read_input
from jacquard.pipeline.worlds import BARE_WORLDS
from jacquard.templating.sets import forget_rendered_texts
from jacquard.turns.engine import ContextEngine
from jacquard.turns.parts import NO_PARTS, HostParts
from jacquard.wiring.parts.embedder import EmbeddingWorkers, find_language
from jacquard.wiring.parts.embedder import open_embedder as open_embedder
from jacquard.wiring.parts.ingest import IngestServices
from jacquard.wiring.parts.models import open_reranker as open_reranker
from jacquard.wiring.parts.models import open_selector as open_selector
from jacquard.wiring.parts.named_parts import open_token_estimator as open_token_estimator
from jacquard.wiring.parts.observability import Observability, open_observability
from jacquard.wiring.parts.runtime_parts import RuntimeRequest, open_runtime_parts
from jacquard.wiring.process_tuning import ProcessTuning
from jacquard.wiring.world_notes import WORLDS_FILE, WorldNotes
from mnemosyne.core.errors import SessionExistsError, SessionNotFoundError
from mnemosyne.evidence.sweep import sweep_expired
from mnemosyne.host_parts import SystemClock
from mnemosyne.privacy.forget import ErasurePlan, ErasureReport, MemoryLocations, forget, plan_erasure
from mnemosyne.protocols import ArchivedSession, Index, Store, StoreUpkeep
from mnemosyne.retrieval.embedding.prefetching import PrefetchingEmbedder
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.recall.indexing.indexer import FIT
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import SessionStart
from mnemosyne.schema.session import SessionHead
from mnemosyne.schema.world import NumericalAction, WorldPack
from mnemosyne.stores.locate import DEFAULT_TENANT, INDEX_NAME, StoreLocation, locate_store
from mnemosyne.stores.open import store_at
from mnemosyne.values import dataclass

SETTLE_SECONDS = 60.0
"""Maximum time that an erasure waits for the engine's background work, in seconds."""


@dataclass(kw_only=True, slots=True)
class Runtime:
    """An open store with its index and an engine. `open_runtime` opens and closes it."""

    engine: ContextEngine
    store: Store
    index: Index
    retriever: HybridRetriever
    embedder: PrefetchingEmbedder | None
    world: WorldPack | None
    """Pack that was named when the runtime was opened (None: no pack was named). The packs of earlier sessions are in
    the store (`world_of`).
    """
    notes: WorldNotes
    intake: IngestServices
    models: Sequence[LlmAdapter | PairScorer] = ()
    worlds: Mapping[str, WorldPack] = field(default_factory=dict)
    """World id -> pack, for packs that the engine knows without the store. This is only the named pack."""
    watchers: Observability = field(default_factory=lambda: open_observability(ObservabilityConfig()))
    tuning: ProcessTuning = field(default_factory=ProcessTuning)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    opening: WorldPack | None = None
    """Initial world of a new session: the named world, or an empty one if the settings name a profile.

    None: a session can only be started in a named world.
    """

    @asynccontextmanager
    async def overlay(self) -> AsyncIterator[Runtime]:
        """Yield a runtime that reads the same data and writes nothing to the store.

        Sessions that it starts, packs that it stores and turns that it prepares are kept in memory until the end of the
        block.
        """
        async with self.engine.parts.overlay() as parts, ContextEngine(parts, self.engine.config) as engine:
            found = parts.curation.retriever
            retriever = found.traced if isinstance(found, TracedRetriever) else found
            assert isinstance(retriever, HybridRetriever)
            notes = replace(self.notes, named=None)
            yield replace(self, engine=engine, store=parts.store, retriever=retriever, notes=notes)

    async def world_of(self, session_id: str) -> WorldPack:
        """Return the pack of a session's world from the store.

        Raises SessionNotFoundError if the session is unknown. Raises WorldUnavailableError if the pack is missing or
        cannot be read.
        """
        return await self.engine.worlds.world((await self.store.head(session_id)).world_id)

    async def ensure_session(self, session_id: str, *, index: bool = True) -> SessionHead:
        """Return the head (newest turn and version) of a session. If the session does not exist, it is created from
        `opening`.

        If the session has no world, it gets the named world. If `index` is true, the index is opened and updated, so
        that the first turn need not wait for the index. Vectors of another embedding model stay in use.

        Raises SessionNotFoundError if the session does not exist and `opening` is None. Raises ConfigError if the
        session belongs to another world than the named one.
        """
        head = await self._head_of(session_id)
        if index:
            await self.sync(session_id, change_encoder=False)
        return head

    async def _head_of(self, session_id: str) -> SessionHead:
        if self.world is not None:
            await self.import_world()
        try:
            head = await self.store.head(session_id)
        except SessionNotFoundError:
            if self.opening is None:
                raise
            try:
                return await self.engine.start_session(session_id, self.opening)
            except SessionExistsError:
                # Another first call was faster; this one continues with its session.
                head = await self.store.head(session_id)
        if self.world is None or head.world_id == self.world.world_id:
            return head
        return await self._adopt(head, self.world)

    async def _adopt(self, head: SessionHead, world: WorldPack) -> SessionHead:
        """Give the named world to a session without a pack; raises ConfigError for a session of another world."""
        if head.world_id not in BARE_WORLDS or head.world_id in self.worlds:
            raise ConfigError(
                f"Session {head.session_id!r} lives in world {head.world_id!r}, not in {world.world_id!r}. "
                "Leave --world out, or choose another session."
            )
        return await self.store.adopt_world(
            head.session_id, world.world_id, world.locale, world.state, instead_of=(head.world_id,)
        )

    async def plan_erasure(self, erasure: Erasure) -> ErasurePlan:
        """Return what an erasure would remove. Nothing is changed."""
        return await plan_erasure(self._memory_locations(), erasure)

    async def forget(self, erasure: Erasure) -> ErasureReport:
        """Erase data from the store, index, originals and caches, and prove the erasure by a search.

        Before the erasure, the background work of this engine must end. Raises JacquardError if this work does not end
        in time; then nothing was erased.
        """
        with self.retriever.hold_feed():
            if not await self.engine.settle(SETTLE_SECONDS):
                raise JacquardError(
                    "Work of this engine is still running and might write again; nothing was erased. Try again."
                )
            return await forget(self._memory_locations(), erasure)

    def _memory_locations(self) -> MemoryLocations:
        caches = [self.engine.parts.waiting.clear, forget_rendered_texts]
        if self.embedder is not None:
            caches.append(self.embedder.forget)
        return self.intake.place(self.store, self.index, self.retriever, caches)

    async def sweep(self, session_id: str | None = None) -> dict[str, int]:
        """Empty the expired evidence of the session `session_id` (None: of all sessions). Return session id -> number
        of emptied evidence items.
        """
        named = None if session_id is None else (session_id,)
        return await sweep_expired(self.store, SystemClock(), vault=self.intake.vault, session_ids=named)

    async def archive_session(self, session_id: str) -> ArchivedSession:
        """Pack the rows of a session in the store, drop the index of the session, and return the archive. The next turn
        of the session opens and indexes the session again.

        If the session is archived already, nothing changes. Raises SessionNotFoundError if the session is unknown.
        Raises ConfigError if the store keeps no archives, or if the session has evidence that will expire.
        """
        store = self._upkeep()
        done = await store.archive(session_id, at=SystemClock().now())
        if done is not None:
            # The store now shows no entries of it, so its index becomes empty.
            await self.retriever.rebuild(session_scope(session_id), force=True)
            await self.index.drop(session_scope(session_id))
            return done
        for found in await store.archived_sessions(limit=1, session_id=session_id):
            return found
        raise ConfigError(
            f"Session {session_id!r} has evidence that will expire, and only open sessions are swept; archive it after "
            "`jacquard operate sweep`."
        )

    async def open_archived(self, session_id: str) -> bool:
        """Open an archived session, as its next turn would. Return whether the session was archived.

        Raises SessionNotFoundError if the session is unknown. Raises ConfigError if the store keeps no archives.
        """
        return await self._upkeep().open_archived(session_id)

    async def archived_sessions(self, *, after: str = "", limit: int = 50) -> tuple[ArchivedSession, ...]:
        """Return at most `limit` archived sessions, ordered by id. Only ids after `after` are returned."""
        return await self._upkeep().archived_sessions(after=after, limit=limit)

    def _upkeep(self) -> StoreUpkeep:
        if not isinstance(self.store, StoreUpkeep):
            raise ConfigError("This store keeps no archives; SQLite and PostgreSQL do.")
        return self.store

    async def import_world(self) -> int:
        """Make the named pack the current version of its world in the store. Return the number of changed lore entries.

        Raises ConfigError if no world pack was named.
        """
        if self.world is None:
            raise ConfigError("No world pack was named.")
        changed = await self.engine.worlds.store_pack(self.world)
        await to_thread.run_sync(self.notes.remember, self.world.world_id)
        return changed

    async def reload_world(self) -> WorldPack:
        """Read the folder of the named pack again, and make the pack the current version of its world. Return the pack.

        Raises ConfigError if no folder was named, and WorldPackError if the pack has faults; then nothing changes.
        """
        world = await to_thread.run_sync(self.notes.load_named)
        if world is None or self.world is None:
            raise ConfigError("No folder of a world pack was named.")
        if self.opening is self.world:
            self.opening = world
        self.world, self.worlds = world, {world.world_id: world}
        self.engine.worlds.replace_given(world)
        await self.import_world()
        return world

    async def import_session(self, start: SessionStart) -> SessionHead:
        """Create the session in `start` with its turns, and return its head. If the session exists already, append the
        turns that it lacks.

        If a world was named and the session has no world, the session gets the named world. Raises ConfigError if the
        session belongs to another world.
        """
        world = self.world if start.world_id in BARE_WORLDS else None
        if world is not None:
            await self.import_world()
            start = replace(start, world_id=world.world_id, locale=world.locale, state=world.state)
        try:
            return await self.store.create_session(start)
        except SessionExistsError:
            head = await self.store.head(start.session_id)
            if world is not None and head.world_id != world.world_id:
                await self._adopt(head, world)
            return await self.store.append_turns(start.session_id, start.turns, start.entries)

    async def sync(
        self, session_id: str | None = None, progress: Progress = ignore_progress, *, change_encoder: bool = True
    ) -> None:
        """Update the index from the store: for the named session and its world, or for the named world if `session_id`
        is None.

        Vectors of another embedding model may be in use. If `change_encoder` is true, they are replaced now by vectors
        of the configured model. If it is false, they are replaced in the background after turns.
        """
        scopes = [] if self.world is None else [world_scope(self.world.world_id)]
        if session_id is not None:
            head = await self.store.head(session_id)
            scopes = [world_scope(head.world_id), session_scope(session_id)]
        for scope in scopes:
            await self.retriever.sync(scope, progress, change_encoder=change_encoder)

    async def warm(self, text: str = "", *, tune_process: bool = True) -> None:
        """Load the models now, and the packages that the index needs, so that no turn waits for them.

        The embedder is loaded if it knows the language of `text`, or if `text` is empty. If `tune_process` is true, the
        whole process is tuned for short waits (see `ProcessTuning`). Pass False if the host tunes the process itself.
        """
        await self.index.warm()
        if self.embedder is not None and (not text or await self.embedder.fitness(text) >= FIT):
            await self.retriever.warm()
        for model in self.models:
            await model.warm()
        if tune_process:
            await to_thread.run_sync(self.tuning.tune)

    async def action(self, session_id: str, user_message: str) -> tuple[NumericalAction | None, tuple[str, ...]]:
        """Return (action, names): the numerical action that the input means in the session's world, and the names of
        all actions.

        `action` is None if the input means no action. Raises InputTooLargeError if the input is too long for a turn.
        """
        check_user_message(user_message, self.limits)
        world = await self.world_of(session_id)
        found = await to_thread.run_sync(read_input, user_message, world)
        return found.action, tuple(action.action_id for action in world.actions)


@asynccontextmanager
async def open_runtime(
    store: str | Path | None = None,
    *,
    world: str | Path | WorldPack | None = None,
    embedder: str = "auto",
    config: RuntimeConfig | None = None,
    tenant: str = DEFAULT_TENANT,
    bare: bool = False,
    parts: HostParts = NO_PARTS,
    workers: EmbeddingWorkers | None = None,
) -> AsyncIterator[Runtime]:
    """Open a store and an engine on it.

        async with open_runtime("saves", world="worlds/mine") as runtime:
            await runtime.ensure_session("s1")
            turn = await runtime.engine.prepare_turn("s1", "Hello.")

    Args:
        store: any address of `mnemosyne.stores.open.open_store` (None: the folder `.jacquard`).
        world: pack (setting) of new sessions. When its first session starts, it becomes the current version of its world in
            the store. If it is None, new sessions need `bare` or a `profile` in the settings; they start without a pack.
        embedder: `auto` (the model of an installed package, else the search compares only words), `none`, the name of such a
            package, a model folder, `onnx:` followed by one of these two, a remote model in litellm's notation, or the name
            of a plugin.
        config: the settings (None: the defaults).
        tenant: owner of the sessions.
        bare: start sessions without a pack.
        parts: parts of the engine that the host brings.
        workers: other processes that embed the indexed texts, for bulk work.

    Raises WorldPackError if the pack has faults, StoreUnavailableError if the store cannot be opened, and ConfigError
    if the settings cannot be carried out.
    """
    settings = config or RuntimeConfig()
    location = await to_thread.run_sync(locate_store, store, tenant)
    async with _index_folder(location) as folder:
        notes = WorldNotes(file=folder.parent / WORLDS_FILE, named=world if isinstance(world, str | Path) else None)
        pack = world if isinstance(world, WorldPack) else await to_thread.run_sync(notes.load_named)
        opened = await to_thread.run_sync(partial(store_at, location, tenant=tenant))
        language = await find_language(opened, pack) if embedder == "auto" else None
        request = RuntimeRequest(
            store=opened,
            location=location,
            index_folder=folder,
            tenant=tenant,
            settings=settings,
            embedder=embedder,
            language=language,
            world=pack,
            is_bare=bare,
            host=parts,
            workers=workers,
        )
        made = await to_thread.run_sync(open_runtime_parts, request)
        tuning = ProcessTuning()
        try:
            async with ContextEngine(made.engine, settings) as engine:
                yield Runtime(
                    engine=engine,
                    store=made.engine.store,
                    index=made.recall.index,
                    retriever=made.recall.retriever,
                    embedder=made.recall.embedder,
                    world=pack,
                    notes=notes,
                    intake=made.intake,
                    models=made.models,
                    worlds=made.engine.worlds,
                    watchers=made.watchers,
                    tuning=tuning,
                    limits=settings.limits,
                    opening=pack or made.engine.opening,
                )
        finally:
            tuning.release()
            await made.close()


@asynccontextmanager
async def _index_folder(location: StoreLocation) -> AsyncIterator[Path]:
    """Yield the folder of a store's index; that of a store in memory is removed afterwards."""
    if location.index is not None:
        yield location.index
        return
    made = await to_thread.run_sync(mkdtemp)
    try:
        yield Path(made) / INDEX_NAME
    finally:
        await to_thread.run_sync(rmtree, made)


Workshop = Runtime
"""Former name of `Runtime`, until November 2026."""


def open_workshop(
    store: str | Path | None = None,
    *,
    world: str | Path | WorldPack | None = None,
    embedder: str = "auto",
    config: RuntimeConfig | None = None,
    tenant: str = DEFAULT_TENANT,
) -> AbstractAsyncContextManager[Runtime]:
    """Return the result of `open_runtime`, with a DeprecationWarning. This is the former name of the function."""
    warnings.warn("open_workshop is called open_runtime now", DeprecationWarning, stacklevel=2)
    return open_runtime(store, world=world, embedder=embedder, config=config, tenant=tenant)
