"""Decides which lore entries a viewer may know in a state, and selects entries by category.

Only this module decides who may know an entry, and it decides before recall. So a hidden entry is never ranked, never
shown to a selector, and never has to be removed afterwards. The module must not import stores or indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.chains.audience import audience_of_entry, may_read
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.schema.memory import TAKES_FROM_RECALL, LoreCategory, MemoryEntry
from mnemosyne.schema.session import SessionHead


def hidden_entries(
    gated: Iterable[MemoryEntry],
    viewer: str | None,
    state: Mapping[str, Any] | StateView,
    head: SessionHead | None = None,
) -> frozenset[str]:
    """Return the ids of the entries that `viewer` must not know, or whose conditions are false in `state`.

    `gated` has the entries with viewers or conditions (`Store.gated_entries`). If `viewer` is None, every entry that names
    viewers is hidden.

    An entry can also take another entry out of recall (`takes_from_recall`), for example because it is an edit of the other
    entry. The other entry is then hidden. If the taking entry belongs to a turn, it has this effect only if the turn is on
    the path to `head`, the end of a branch.
    """
    view = state if isinstance(state, StateView) else view_state(state)
    known = tuple(gated)
    taken = (
        entry.metadata[TAKES_FROM_RECALL]
        for entry in known
        if TAKES_FROM_RECALL in entry.metadata and (head is None or not entry.depth or _is_on_path(entry, head))
    )
    return frozenset(entry.entry_id for entry in known if not may_know(entry, viewer, view)).union(taken)


def _is_on_path(entry: MemoryEntry, head: SessionHead) -> bool:
    return any(span.branch_id == entry.branch_id and (entry.depth or 0) <= span.upto_depth for span in head.lineage)


def may_know(entry: MemoryEntry, viewer: str | None, view: StateView) -> bool:
    """Return whether `viewer` may know `entry` in the state of `view`."""
    if not may_read(audience_of_entry(entry), viewer):
        return False
    return not entry.when or all(view.holds(condition) for condition in entry.when)


def gated_entries(lore: Iterable[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    """Return the entries of `lore` that have viewers or conditions, in order."""
    return tuple(entry for entry in lore if entry.viewers or entry.when)


def entries_by_category(
    lore: Iterable[MemoryEntry], category: LoreCategory, hidden: frozenset[str] = frozenset()
) -> tuple[MemoryEntry, ...]:
    """Return the entries of `category` that are not in `hidden`: highest priority first, equal priorities ordered by id."""
    wanted = category.value
    chosen = (entry for entry in lore if entry.kind == wanted and entry.entry_id not in hidden)
    return tuple(sorted(chosen, key=lambda entry: (-entry.priority, entry.entry_id)))
