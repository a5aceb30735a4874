"""Limits the number of ops in a reply, the size of their values, and the size of the state.

An op is one change of the state that a reply asks for. The whole state is written as JSON once, to measure it. After that,
only the added and the removed values of each op are measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from filament.payload import MAX_DEPTH
from filament.state.changes.ops import ARITHMETIC, Op, Verb
from filament.state.conventions import is_pair, is_scalar
from filament.state.pointer import Tokens, look_up, split_pointer
from filament.state.verdicts import Refusal, RefusedError

SMALL_VALUE_CHARS = 100
"""Maximum size of a value that may replace a number, text or flag in a state that is already too large."""
_SHRINKING = frozenset((Verb.DELETE, Verb.POP))
_STORING = frozenset((Verb.SET, Verb.INSERT, Verb.PUSH))


@dataclass(frozen=True, kw_only=True, slots=True)
class OpLimits:
    """Limits on the changes that one reply may make to a state.

    Sizes are in characters of JSON (`json_chars`). A limit that is None does not apply.
    """

    reply_ops: int | None = None
    """Maximum number of ops of one reply that are judged."""
    op_value_chars: int | None = None
    """Maximum size of the value of one op."""
    state_chars: int | None = None
    """Maximum size of the whole state. An op that would exceed it is refused. Some ops are never refused, so that a state
    that is already too large can be used and made smaller. These are DELETE, POP, calculations, and ops that replace a
    number, text or flag by a value of at most 100 characters.
    """


NO_LIMITS = OpLimits()


def json_chars(value: Any) -> int:
    """Return the number of characters of `value` as JSON without blanks. Characters beyond ASCII count as one."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def change_chars(tree: Any, change: Mapping[str, Any]) -> int:
    """Return how many characters `change`, one JSON Patch op, adds to the size of `tree`. Call this before applying the op."""
    tokens = split_pointer(change["path"])
    new = json_chars(change["value"]) if "value" in change else 0
    if not tokens:
        return new - json_chars(tree)
    owner, key = look_up(tree, tokens[:-1])[1], tokens[-1]
    name = json_chars(key) + 1 if isinstance(owner, Mapping) else 0
    if change["op"] == "remove":
        return -(json_chars(look_up(owner, (key,))[1]) + name + (len(owner) > 1))
    if change["op"] == "replace" or (isinstance(owner, Mapping) and key in owner):
        return new - json_chars(look_up(owner, (key,))[1])
    return new + name + (len(owner) > 0)


def check_value_size(op: Op, limits: OpLimits) -> None:
    """Raise RefusedError if the value of `op` is larger than the limit."""
    if limits.op_value_chars is None:
        return
    size = json_chars(op.value)
    if size > limits.op_value_chars:
        reason = (
            f"its value takes {size:,} characters of JSON, and one op may take {limits.op_value_chars:,} "
            "(limits.op_value_chars); say it shorter, or in several ops"
        )
        raise RefusedError(Refusal.VALUE_TOO_LARGE, reason)


def check_state_size(op: Op, changes: Sequence[Mapping[str, Any]], tree: Any, chars: int, limits: OpLimits) -> None:
    """Raise RefusedError if the state would be larger than the limit after `changes`, the JSON Patch ops of `op`.

    `tree` is the state before the changes, and `chars` is its size. `OpLimits.state_chars` names the ops that are never
    refused.
    """
    if limits.state_chars is None:
        return
    grown = sum(change_chars(tree, change) for change in changes)
    if grown <= 0 or chars + grown <= limits.state_chars or _is_always_allowed(op, changes, tree):
        return
    reason = (
        f"with it the state takes {chars + grown:,} characters of JSON, and the limit is {limits.state_chars:,} "
        "(limits.state_chars); DELETE, POP or shorten what is no longer needed first"
    )
    raise RefusedError(Refusal.STATE_TOO_LARGE, reason)


def _is_always_allowed(op: Op, changes: Sequence[Mapping[str, Any]], tree: Any) -> bool:
    if op.verb in _SHRINKING or op.verb in ARITHMETIC:
        return True
    return all(change["op"] == "replace" and _is_small_change(change, tree) for change in changes)


def _is_small_change(change: Mapping[str, Any], tree: Any) -> bool:
    value, old = change["value"], look_up(tree, split_pointer(change["path"]))[1]
    is_leaf = all(is_scalar(each) or is_pair(each) for each in (value, old))
    return is_leaf and json_chars(value) <= SMALL_VALUE_CHARS


def check_depth(op: Op, tokens: Tokens, tree: Any) -> None:
    """Raise RefusedError if `op` would nest values deeper than a prompt can show.

    `tokens` is the path in `tree` to the place that `op` changes. A value that is not nested deeper than the old value at
    this place is always allowed.
    """
    if op.verb not in _STORING:
        return
    within = 2 if op.verb is Verb.PUSH else 0  # the list of a container, and the place in it
    deep = len(tokens) + within + depth_of(op.value)
    if deep <= MAX_DEPTH:
        return
    found, old = look_up(tree, tokens)
    if within or not found or deep > len(tokens) + depth_of(old):
        reason = f"it would be nested {deep} levels deep, and the limit is {MAX_DEPTH}; keep the state flatter"
        raise RefusedError(Refusal.TOO_DEEP, reason)


def depth_of(value: Any) -> int:
    """Return how many levels of mappings and lists `value` has: 0 for a scalar, 1 for a list of scalars."""
    deepest, stack = 0, [(value, 0)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        inner = node.values() if isinstance(node, Mapping) else node if isinstance(node, list | tuple) else ()
        stack.extend((each, depth + 1) for each in inner)
    return deepest
