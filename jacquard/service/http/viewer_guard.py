"""Guards of tokens that are bound to a viewer: they touch turns that were prepared for this viewer, and speak as it.

A turn's id leads to its recorded prompt and reply, and an engine answers whoever names it; such a token must not get there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prompt_snapshot import SNAPSHOT_KEY
from jacquard.service.http.operation import Call
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.core.errors import SessionNotFoundError, TurnNotFoundError
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import AuthorKind, Message


async def check_turn(call: Call, turn_id: str | None, *, is_committed: bool = False) -> None:
    """Raise TurnNotFoundError where the turn of this id is there and is not of the viewer of the token.

    None: the turn that waits for its reply, else the newest committed one (`is_committed`: that one in any case). Without a viewer
    nothing is read.
    """
    viewer = call.principal.viewer
    if viewer is None:
        return
    try:
        record = await _find(call, turn_id, is_committed)
    except (TurnNotFoundError, SessionNotFoundError):
        # The engine says so, or begins it.
        return
    if record is not None and not _is_of(record, viewer):
        raise TurnNotFoundError(call.session_id, record.turn_id)


def check_author(call: Call, message: Message) -> None:
    """Raise ConfigError for a message of another user than the viewer of the token: a prompt shows the facts about its user."""
    viewer, author = call.principal.viewer, message.author
    if viewer is not None and author is not None and author.kind is AuthorKind.USER and author.id != viewer:
        raise ConfigError(f"message: this token speaks as {viewer!r}; leave the name and author of the message out.")


async def _find(call: Call, turn_id: str | None, is_committed: bool) -> TurnRecord | None:
    if turn_id is not None:
        return await call.runtime.store.turn(call.session_id, turn_id)
    window = await call.runtime.store.window(call.session_id, message_limit=1)
    return (None if is_committed else window.pending) or window.previous


def _is_of(record: TurnRecord, viewer: str) -> bool:
    snapshot = (record.prompt or {}).get(SNAPSHOT_KEY)
    config: Any = snapshot.get("config") if isinstance(snapshot, Mapping) else None
    was_for = config.get("viewer") if isinstance(config, Mapping) else None
    return was_for == viewer and all(may_read(read_audience(each.extra), viewer) for each in record.messages)
