"""Applies JSON Patch to plain trees: a store replays an op log with it.

A store rebuilds any past state from resolved ops without knowing anchors, flat paths or `$meta` rules: those were
resolved when the op was first applied. The patch is applied by `filament.state.changes.patch`, the only place that does
so, because the rebuilt state must equal the one that the turn saw, down to the order of keys. This module adds the
errors of mnemosyne. Besides `chains.state` and `world`, no other module of mnemosyne imports filament.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import filament.state.changes.patch
from filament.errors import OpError
from mnemosyne.core.errors import StateOpError


def replay_ops(tree: Mapping[str, Any], ops: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `tree` after the ops, in order (RFC 6902: `add`, `replace` and `remove`); `tree` is not changed.

    Only the path to a change is copied; everything else is shared. StateOpError names the first op that does not fit,
    or states that the result is not a mapping.
    """
    try:
        root = filament.state.changes.patch.apply_patch(dict(tree), ops)
    except OpError as error:
        raise StateOpError(error.index, error.op, error.reason, error.code) from error
    if not isinstance(root, dict):
        raise StateOpError(0, "replace ''", "the root of a state must be a mapping")
    return root
