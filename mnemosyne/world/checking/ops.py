"""Checks that the ops of an action can run: they are tried on the state at the start of play, by filament's own rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from filament import apply_ops, parse_op
from filament.errors import OpError
from mnemosyne.world.checking.state import StateTree
from mnemosyne.world.format.faults import FaultList, SourceLocation


def check_ops(ops: Iterable[tuple[SourceLocation, list[Any]]], tree: StateTree, faults: FaultList) -> None:
    """Record every op of an action that does not run on `tree`; each sees the effect of those before it.

    Of a POP only the list is looked up: whether it has an entry is known only in play.
    """
    root: Any = tree.root
    for place, raw in ops:
        if tree.find(raw[1]) is None:
            near = tree.nearest(raw[1]) or "; add it to the state with its starting value"
            faults.add(place, f"changes {raw[1]!r}, which is not in the state{near}")
        elif tree.is_sound and raw[0] != "POP":
            try:
                root = apply_ops(root, [parse_op(raw)]).tree
            except OpError as error:
                faults.add(place, f"can never run: {error.reason}; change the op or the state")
