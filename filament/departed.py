"""Ids of things that are no more: an id that a model has once seen never names something else.

They are kept in the root's `$meta.gone` as `{id: name}`, so that they follow the branch with the state. A thing may come
back under its id as long as it bears the same name (taken out of one bag and put into another); made ids (`item_7`) are
not made again. Pure; imports `described`, `pointer` and `rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from filament.described import EMPTY, META, meta_of
from filament.pointer import join_pointer
from filament.rules import GONE


def departed(tree: Any) -> Mapping[str, str]:
    """Return the ids of things that are no more, with the names that they bore (empty if none)."""
    gone = meta_of(tree).get(GONE)
    return gone if isinstance(gone, Mapping) else EMPTY


def departures(tree: Any, left: Mapping[str, str], back: Iterable[str]) -> list[dict[str, Any]]:
    """Return the JSON Patch that notes who left (id -> name) and strikes out who came back; empty if nobody did."""
    if not isinstance(tree, Mapping):
        return []
    known = departed(tree)
    changes = [{"op": "remove", "path": join_pointer((META, GONE, name))} for name in back if name in known]
    if not left:
        return changes
    if META not in tree:
        return [*changes, {"op": "add", "path": f"/{META}", "value": {GONE: dict(left)}}]
    if GONE not in meta_of(tree):
        return [*changes, {"op": "add", "path": f"/{META}/{GONE}", "value": dict(left)}]
    entered = ({"op": "add", "path": join_pointer((META, GONE, name)), "value": label} for name, label in left.items())
    return [*changes, *entered]
