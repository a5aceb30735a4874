"""Explains in the receipt why a state is too large for a prompt, and how to make it smaller.

The state is a tree of values, and an op is one change of the state by a turn. The explanation names the newest op that
enlarged the largest shortened part of the state. It also names the command that takes the turn of this op back. This
module only reads the session and must not import a concrete store.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from jacquard.core.degradations import Degradation, DegradationCode
from jacquard.core.receipt import CutPart, StateCut
from mnemosyne.protocols import Store
from mnemosyne.schema.session import SessionHead
from mnemosyne.values import dataclass

TURNS_READ = 200
"""Number of the newest turns whose ops are searched."""
_NAMED_PARTS = 5
_PATH_CHARS = 100
_LEAST_CHARS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """Op that made a part of the state large.

    `op` and `path` are the fields of a JSON Patch operation. `chars` is the length of the operation's value as JSON
    text. `turn_id` is the turn that contains the op, and `parent_id` is the turn before `turn_id` (None: `turn_id` is
    the first turn).
    """

    op: str
    path: str
    chars: int
    turn_id: str
    parent_id: str | None


async def find_growth(store: Store, session_id: str, branch_id: str, part: CutPart) -> Growth | None:
    """Return the newest op that enlarged `part` of the state. Return None if no op of the newest TURNS_READ turns on
    the branch did.

    An op enlarges `part` if it adds an entry to `part`. It also does so if it writes a large value to `part`, to a
    place inside of `part`, or to a place that contains `part`.
    """
    turns = await store.turns(session_id, limit=TURNS_READ, branch_id=branch_id)
    for turn in reversed(turns):
        for op in reversed(turn.ops):
            if (chars := _count_added_chars(op, part)) is not None:
                path = str(op.get("path"))
                return Growth(op=str(op["op"]), path=path, chars=chars, turn_id=turn.turn_id, parent_id=turn.parent_id)
    return None


async def describe_state(store: Store, head: SessionHead, cut: StateCut | None) -> tuple[Degradation, ...]:
    """Return the degradation that the receipt shows for a shortened state, as a tuple of one item. Return an empty
    tuple if `cut` is None.

    `cut` lists the parts of the state that the prompt does not show completely (None: the whole state is shown). `head`
    is the newest turn of the branch.
    """
    if cut is None:
        return ()
    growth = await find_growth(store, head.session_id, head.branch_id, cut.biggest)
    return (describe_state_cut(head.session_id, cut, growth),)


def describe_state_cut(session_id: str, cut: StateCut, growth: Growth | None) -> Degradation:
    """Return the degradation that the receipt shows for a shortened state.

    `cut` lists the shortened parts. `growth` is the op that made the largest of these parts large (None: no op was
    found).
    """
    about = "about " if cut.is_estimated else ""
    return Degradation(
        code=DegradationCode.STATE_SHORTENED.value,
        detail=(
            f"The state takes {about}{cut.before_tokens:,} tokens and may take {cut.limit_tokens:,} of this prompt: it is shown "
            f"with {cut.after_tokens:,}. Not whole: {_parts(cut)}. {_describe_undo(session_id, cut.biggest, growth)}"
        ),
    )


def _count_added_chars(op: Mapping[str, Any], part: CutPart) -> int | None:
    path, verb = str(op.get("path", "")), op.get("op")
    if verb not in ("add", "replace") or "/$meta" in path:
        return None
    inside = f"{path}/".startswith(f"{part.path}/")
    if not inside and not f"{part.path}/".startswith(f"{path}/"):
        return None
    chars = len(json.dumps(op.get("value"), ensure_ascii=False, default=str))
    grows = inside and verb == "add" and part.unit != "characters"
    return chars if grows or chars >= max(_LEAST_CHARS, part.chars // 100) else None


def _parts(cut: StateCut) -> str:
    biggest = sorted(cut.parts, key=lambda part: -part.chars)
    named_parts = [
        f"{_clip(part.path)} ({part.shown:,} of {part.total:,} {part.unit})" for part in biggest[:_NAMED_PARTS]
    ]
    more = len(biggest) - len(named_parts)
    return ", ".join(named_parts) + (f" and {more:,} more (state_cut in the receipt)" if more else "")


def _describe_undo(session_id: str, part: CutPart, growth: Growth | None) -> str:
    shorter = "a reply may SET a shorter value, or POP or DELETE what is no longer needed"
    if growth is None:
        return (
            f"No op of the last {TURNS_READ} turns made {_clip(part.path)} so large: it came with the pack, an import or an older "
            f"turn. To make it smaller, {shorter}."
        )
    before = growth.parent_id or "start"
    command = shlex.join(
        ["jacquard", "play", "fork", "--session", session_id, "--at", before, "--name", f"before-{growth.turn_id}"]
    )
    return (
        f"The newest op that made {_clip(part.path)} so large: {growth.op} {_clip(growth.path)} ({growth.chars:,} characters), "
        f"turn {growth.turn_id}. To take that turn back: {command}. To go on from here, {shorter}."
    )


def _clip(path: str) -> str:
    if not path:
        return "the status"
    return path if len(path) <= _PATH_CHARS else f"{path[: _PATH_CHARS - 1]}…"
