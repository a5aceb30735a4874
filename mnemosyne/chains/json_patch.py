"""Applies JSON Patch to plain trees, so that a store can rebuild a past state from its op log (the recorded changes).

The log contains JSON Patches, so a store needs no rules of filament to apply them. Only `filament.state.changes.patch` applies a
patch, because the rebuilt state must equal the state that the turn had, also in the order of keys. This module raises the errors
of mnemosyne in place of the errors of filament.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import filament.state.changes.patch
from filament.errors import OpError
from mnemosyne.core.errors import StateOpError


def replay_ops(tree: Mapping[str, Any], ops: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `tree` after `ops`, in order (RFC 6902: `add`, `replace` and `remove`). `tree` is not changed.

    Only the mappings and lists on the path to a change are copied; everything else is shared.

    Raises:
        StateOpError: for the first op that cannot be applied, and if the result is not a mapping.
    """
    try:
        root = filament.state.changes.patch.apply_patch(dict(tree), ops)
    except OpError as error:
        raise StateOpError(error.index, error.op, error.reason, error.code) from error
    if not isinstance(root, dict):
        raise StateOpError(0, "replace ''", "the root of a state must be a mapping")
    return root
