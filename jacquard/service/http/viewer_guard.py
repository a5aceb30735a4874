"""Checks requests whose token is bound to a viewer (the character whose knowledge limits the caller). They may access
only turns that were prepared for this viewer, and may speak only as this viewer.

The engine returns the prompt and the reply of a turn to anyone who names the id of the turn. Therefore each request is
checked before it reaches the engine.
"""

from __future__ import annotations

from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.stored_turn import viewer_of
from jacquard.service.answers import Refusal
from jacquard.service.http.call import Call
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.chains.messages.message_parts import read_user
from mnemosyne.core.errors import BranchNotFoundError, SessionNotFoundError, TurnNotFoundError
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Message

_PAGE = 50


async def check_turn(call: Call, turn_id: str | None, *, is_committed: bool = False) -> None:
    """Check that a turn belongs to the viewer of the token. Raises TurnNotFoundError if the turn exists and belongs to
    another viewer.

    If `turn_id` is None, the pending turn is checked, or else the newest committed turn. If `is_committed` is true,
    None always means the newest committed turn. If the token has no viewer, nothing is checked.
    """
    viewer = call.principal.viewer
    if viewer is None:
        return
    try:
        record = await _find(call, turn_id, is_committed)
    except (TurnNotFoundError, SessionNotFoundError):
        # The engine reports a missing session, or starts it.
        return
    if record is not None and not _is_of(record, viewer):
        raise TurnNotFoundError(call.session_id, record.turn_id)


async def check_left_turns(call: Call, turn_id: str | None = None, *, branch_id: str | None = None) -> None:
    """Check that the session leaves no turns of another viewer behind if it goes back. Raises Refusal if there are such
    turns.

    The session continues after `turn_id` (None: before the first turn), or at the end of the branch `branch_id`. If the
    token has no viewer, nothing is checked.
    """
    viewer, store, session_id = call.principal.viewer, call.runtime.store, call.session_id
    if viewer is None:
        return
    try:
        common = await _find_common_depth(call, turn_id, branch_id)
        before: int | None = None
        while page := await store.turns(session_id, limit=_PAGE, before_depth=before):
            for each in reversed(page):
                if each.depth <= common:
                    return
                if not _is_of(await store.turn(session_id, each.turn_id), viewer):
                    sentence = (
                        f"Turn {each.turn_id!r} is not of this caller, which may leave only turns of its own behind."
                    )
                    raise Refusal(403, "viewer_bound", sentence)
            before = page[0].depth
    except (TurnNotFoundError, BranchNotFoundError, SessionNotFoundError):
        # The engine reports a missing turn.
        return


async def _find_common_depth(call: Call, turn_id: str | None, branch_id: str | None) -> int:
    """Return the depth up to which the active branch and the path to a turn, or to the head of a branch, are the same."""
    store, session_id = call.runtime.store, call.session_id
    kept: dict[str, int] = {}
    if branch_id is not None:
        kept = {span.branch_id: span.upto_depth for span in (await store.head(session_id, branch_id)).lineage}
    elif turn_id is not None:
        turn = await store.turn(session_id, turn_id)
        older = (await store.head(session_id, turn.branch_id)).lineage[1:]
        kept = {span.branch_id: span.upto_depth for span in older} | {turn.branch_id: turn.depth}
    active = (await store.head(session_id)).lineage
    return max((min(span.upto_depth, kept[span.branch_id]) for span in active if span.branch_id in kept), default=0)


def check_author(call: Call, message: Message) -> None:
    """Check that a message names no other user than the viewer of the token, because a prompt shows facts about the
    user of its message. Raises ConfigError if the message names another user.
    """
    viewer = call.principal.viewer
    if viewer is not None and read_user(message) not in ("", viewer):
        raise ConfigError(f"message: this token speaks as {viewer!r}; leave the name and author of the message out.")


async def _find(call: Call, turn_id: str | None, is_committed: bool) -> TurnRecord | None:
    if turn_id is not None:
        return await call.runtime.store.turn(call.session_id, turn_id)
    window = await call.runtime.store.window(call.session_id, message_limit=1)
    return (None if is_committed else window.pending) or window.previous


def _is_of(record: TurnRecord, viewer: str) -> bool:
    return viewer_of(record) == viewer and all(may_read(read_audience(each.extra), viewer) for each in record.messages)
