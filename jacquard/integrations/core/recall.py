"""Searches the memory of a session, for retrievers of frameworks. The rules on who may know what are the same as in a
turn.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.bridge import EngineBridge
from jacquard.pipeline.curation.recall_query import find_hidden_entries, may_recall
from jacquard.sync import SyncEngine
from mnemosyne import Chain, RetrievalQuery
from mnemosyne.chains.state import view_state
from mnemosyne.chains.uris import entry_uri
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RecalledText:
    """Memory that a search found, with its complete text.

    `uri` is the address of the memory, and `source` is its kind (such as `lore_chain`). Scores can be compared only
    within one search.
    """

    text: str
    uri: str
    entry_id: str
    source: str
    title: str
    score: float

    @property
    def metadata(self) -> dict[str, Any]:
        """All fields except the text, as metadata of a framework's document."""
        return {
            "uri": self.uri,
            "entry_id": self.entry_id,
            "source": self.source,
            "title": self.title,
            "score": self.score,
        }


class SessionRecall:
    """Searches the memory of one session: its messages, narratives and events, and the lore of its world.

    `viewer` is the character who asks (None: nobody in particular). Memories that this character must not know are left
    out before the search, as in a turn. Raises ConfigError if `limit` is below 1.
    """

    def __init__(
        self, engine: ContextEngine | SyncEngine, session_id: str, *, viewer: str | None = None, limit: int = 5
    ) -> None:
        if limit < 1:
            raise ConfigError(f"limit is {limit}; a recall returns at least 1 text.")
        self._bridge = EngineBridge(engine)
        self._session_id, self._viewer, self._limit = session_id, viewer, limit

    async def recall(self, text: str, limit: int | None = None) -> tuple[RecalledText, ...]:
        """Return the memories that match `text` best, the best first, at most `limit`.

        Raises SessionNotFoundError if the session does not exist. Raises WorldUnavailableError if the pack of the
        session's world is missing.
        """
        return await self._bridge.run(self._recall, text, limit or self._limit)

    def recall_blocking(self, text: str, limit: int | None = None) -> tuple[RecalledText, ...]:
        """Do the same as `recall`, for callers without an event loop.

        Raises ConfigError if the engine's event loop is not running, or if this thread runs it.
        """
        return self._bridge.run_blocking(self._recall, text, limit or self._limit)

    async def _recall(self, text: str, limit: int) -> tuple[RecalledText, ...]:
        engine = self._bridge.engine
        parts, session_id = engine.parts, self._session_id
        window = await parts.store.window(session_id, message_limit=1)
        world = await engine.worlds.world(window.head.world_id)
        restricted = await parts.store.gated_entries((world_scope(world.world_id), session_scope(session_id)))
        hidden = find_hidden_entries(world, restricted, window.state, self._viewer, head=window.head)
        query = RetrievalQuery(
            text=text,
            world_id=world.world_id,
            session_id=session_id,
            lineage=window.head.lineage,
            depth=window.head.depth,
            exclude=hidden,
            limit=limit,
            weights=dict.fromkeys(Chain, 1.0),
            may_know=partial(
                may_recall,
                viewer=self._viewer,
                view=view_state(window.state),
                most=engine.config.prune.max_sensitivity,
                now=parts.clock.now(),
            ),
        )
        found = (await parts.curation.retriever.recall(query)).candidates[:limit]
        texts: list[RecalledText] = []
        for candidate in found:
            for entry in await parts.store.entries(candidate.scope, [candidate.entry_id]):
                texts.append(
                    RecalledText(
                        text=entry.text,
                        uri=entry_uri(entry),
                        entry_id=entry.entry_id,
                        source=candidate.source,
                        title=candidate.title,
                        score=candidate.score,
                    )
                )
        return tuple(texts)
