"""A simple model of a store's turn tree, with which the random runs compare a real store.

The model is a few dicts, without storage and optimisation. The module imports the schema and the errors, never a
store.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from mnemosyne.values import dataclass


@dataclass
class ModelBranch:
    """One branch: the ids of all committed turns from the first turn to the head, and the turn that waits for a reply."""

    path: list[str] = field(default_factory=list)
    pending: str | None = None


@dataclass
class ModelTree:
    """One session as a store must return it."""

    branches: dict[str, ModelBranch] = field(default_factory=lambda: {"main": ModelBranch()})
    active: str = "main"
    version: int = 1
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gains: dict[str, int] = field(default_factory=dict)
    abandoned: set[str] = field(default_factory=set)

    @property
    def committed(self) -> set[str]:
        """The ids of all committed turns."""
        return {turn_id for branch in self.branches.values() for turn_id in branch.path}

    def prepare(self, branch_id: str, turn_id: str, text: str) -> None:
        """Make `turn_id` the pending turn of a branch."""
        self._abandon(branch_id)
        self.abandoned.discard(turn_id)
        self.branches[branch_id].pending = turn_id
        self.texts[turn_id] = (text,)
        self.version += 1

    def commit(self, branch_id: str, turn_id: str, text: str, gain: int) -> None:
        """Commit the pending turn of a branch."""
        branch = self.branches[branch_id]
        branch.pending = None
        branch.path.append(turn_id)
        self.texts[turn_id] += (text,)
        self.gains[turn_id] = gain
        self.version += 1

    def close(self, branch_id: str) -> None:
        """Commit the pending turn of a branch without a reply, as a store does when another turn follows."""
        branch = self.branches[branch_id]
        if branch.pending is not None:
            branch.path.append(branch.pending)
            self.gains[branch.pending] = 0
            branch.pending = None

    def append(self, branch_id: str, turn_id: str, texts: tuple[str, ...], gain: int) -> None:
        """Commit a finished turn."""
        self._abandon(branch_id)
        self.branches[branch_id].path.append(turn_id)
        self.texts[turn_id] = texts
        self.gains[turn_id] = gain
        self.version += 1

    def fork(self, turn_id: str | None, branch_id: str) -> None:
        """Open the branch `branch_id` after the committed turn `turn_id`."""
        path: list[str] = []
        if turn_id is not None:
            source = next(branch.path for branch in self.branches.values() if turn_id in branch.path)
            path = source[: source.index(turn_id) + 1]
        self.branches[branch_id] = ModelBranch(path=path)
        self.active = branch_id
        self.version += 1

    def switch(self, branch_id: str) -> None:
        """Make `branch_id` the active branch."""
        if branch_id != self.active:
            self.active = branch_id
            self.version += 1

    def contents(self, branch_id: str) -> list[str]:
        """Return the texts of a branch, oldest first."""
        return [text for turn_id in self.branches[branch_id].path for text in self.texts[turn_id]]

    def said(self, branch_id: str) -> list[str]:
        """Return the texts of a branch, oldest first, with the texts that wait for a reply."""
        pending = self.branches[branch_id].pending
        return [*self.contents(branch_id), *(() if pending is None else self.texts[pending])]

    def state(self, path: list[str]) -> dict[str, Any]:
        """Return the state after the turns of `path`: the sum of their gains."""
        return {"hero": {"gold": sum(self.gains[turn_id] for turn_id in path)}}

    def _abandon(self, branch_id: str) -> None:
        pending, self.branches[branch_id].pending = self.branches[branch_id].pending, None
        if pending is not None:
            self.abandoned.add(pending)
