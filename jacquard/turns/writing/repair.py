"""Repairs a session's state with the host's own ops (changes of the state), recorded as a turn without messages.

Therefore a repair belongs to its branch and is listed in the op log. A fork before the turn undoes the repair. This
module must not import a concrete store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from filament import OpLimits
from filament.state.changes.judge import JudgedOps
from filament.state.verdicts import Authority, OpVerdict
from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import LimitsConfig
from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prepared_turn import turn_id_of
from jacquard.pipeline.schedule import event_words
from jacquard.turns.parts import EngineParts
from mnemosyne.chains.event import quest_events
from mnemosyne.chains.state import judge_reply_ops
from mnemosyne.chains.unanswered_inputs import head_after, with_unanswered
from mnemosyne.core import codec
from mnemosyne.core.errors import StateOpError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.schema.event import EventType
from mnemosyne.schema.record import SessionWindow, TurnCommit, TurnRecord
from mnemosyne.schema.session import SessionHead, TurnKind, TurnStatus
from mnemosyne.values import dataclass

REPAIR = "repair"
"""Key of the reason in the report of a turn that repairs the state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepairResult:
    """Result of a repair: its turn, the session's version after it, the ops as JSON Patch, and a verdict on each op."""

    turn_id: str
    version: int
    ops: tuple[Mapping[str, Any], ...]
    verdicts: tuple[OpVerdict, ...]


async def repair_state(
    parts: EngineParts,
    emitter: EventEmitter,
    limits: LimitsConfig,
    session_id: str,
    ops: Sequence[Any],
    reason: str,
    branch_id: str | None,
) -> RepairResult:
    """Apply the host's `ops` to the state at the head of a branch. A turn that waits for its reply is closed without a
    reply.

    `branch_id` is the branch (None: the active branch), `limits` are the limits of the state's size, and `reason` is
    recorded with the repair. Raises ConfigError if there are no ops or if they change nothing. Raises StateOpError if
    an op is refused. If an error is raised, nothing was written.
    """
    window = await parts.store.window(session_id, message_limit=1, branch_id=branch_id)
    if (pending := window.pending) is not None:
        window = replace(with_unanswered(window), head=head_after(window.head, pending))
    bounds = OpLimits(state_chars=limits.state_chars)
    judge = partial(judge_reply_ops, window.state, list(ops), limits=bounds, authority=Authority.HOST)
    judged = await calculate(judge, size=size_of(window.state, ops))
    if (bad := judged.refused) is not None:
        raise StateOpError(bad.number, bad.op, bad.reason, bad.code)
    if not judged.patch:
        raise ConfigError("A repair needs at least one op, such as ['SET', 'location', 'the jetty'].")
    head, turn_id = await _write(parts, window, judged, reason)
    await emitter.emit(
        EventType.PERSISTED, session_id, turn_id, what="repaired", version=head.version, ops=len(judged.patch)
    )
    return RepairResult(turn_id=turn_id, version=head.version, ops=judged.patch, verdicts=judged.verdicts)


async def _write(parts: EngineParts, window: SessionWindow, judged: JudgedOps, reason: str) -> tuple[SessionHead, str]:
    """Write the turn of a repair; return the head after it and its id."""
    head, at, store = window.head, parts.clock.now(), parts.store
    text = json.dumps([REPAIR, *judged.patch], ensure_ascii=False)
    record = TurnRecord(
        turn_id=turn_id_of(head.session_id, head.branch_id, head.turn_id, head.depth + 1, text),
        session_id=head.session_id,
        branch_id=head.branch_id,
        depth=head.depth + 1,
        parent_id=head.turn_id,
        kind=TurnKind.NUMERICAL,
        status=TurnStatus.PREPARED,
        messages=(),
        # Focus and schedule of texts continue over the repair.
        plan=None if window.previous is None else window.previous.plan,
        created_at=at,
    )
    entries = quest_events(window.state, judged.tree, record, at)
    report = {REPAIR: reason, "verdicts": codec.to_plain(judged.verdicts), "events": event_words(entries)}
    prepared = await store.save_prepared(record, expected_version=head.version)
    commit = TurnCommit(
        turn_id=record.turn_id, messages=(), ops=judged.patch, state=judged.tree, entries=entries, report=report
    )
    after = await store.commit_turn(head.session_id, commit, expected_version=prepared.version)
    return after, record.turn_id
