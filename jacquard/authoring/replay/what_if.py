"""Replays a session under another configuration, turn by turn. The store is only read.

This module is separate from `replay` because a longer history needs messages that are not in a turn's record. Each turn
follows the replay of the previous turn. The replay of the previous turn states where the history starts, and has the
prompt with which the next prompt may share its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anyio import to_thread

from jacquard.authoring.replay.replay import (
    TurnDiff,
    compare_decisions,
    lay_out_with,
    list_block_order,
    replay_prompt,
    reuse_degraded_blocks,
)
from jacquard.config.sections import RuntimeConfig
from jacquard.core.blocks import Block, SkeinTemplate
from jacquard.core.errors import BudgetExceededError, ConfigError
from jacquard.core.receipt import Report
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot
from jacquard.pipeline.record.stored_turn import report_of
from jacquard.pipeline.skeleton.history import history_limits, trim_history
from jacquard.pipeline.skeleton.messages import find_speakers, history_blocks
from jacquard.pipeline.weaving.assemble import PromptMessage, prefix
from jacquard.pipeline.weaving.degrade import apply_degradations
from jacquard.pipeline.weaving.prompt import Prompt, complete
from jacquard.pipeline.worlds import build_bare_world
from jacquard.templating import open_templates
from jacquard.templating.files import TemplateRoot
from jacquard.templating.layouts import load_layout
from jacquard.templating.profiles import AUTO, STORY_ID, load_profile
from mnemosyne.protocols import Store, TokenEstimator
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

TALK_TURNS = 200
"""Number of earlier turns that are read if the history limits differ."""


@dataclass(slots=True)
class Baseline:
    """Replay of the previous turn: the start of its history and its prompt."""

    turn_id: str | None = None
    history_start: str | None = None
    messages: tuple[PromptMessage, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIf:
    """Replays recorded turns under `config`. `roots` are the folders of templates; the pack's own folder comes first."""

    store: Store
    config: RuntimeConfig
    estimator: TokenEstimator
    roots: Sequence[TemplateRoot]

    def start(self) -> Baseline:
        """Return the empty baseline of the first turn."""
        return Baseline()

    async def turn(self, record: TurnRecord, snapshot: PromptSnapshot, left: Baseline) -> TurnDiff:
        """Return the difference of one turn. `left` is the baseline of the previous turn and is changed to this turn."""
        report = report_of(record)
        base = TurnDiff(
            turn_id=record.turn_id,
            before_tokens=report.budget.used_tokens,
            after_tokens=0,
            before_shared=report.prefix.shared_tokens,
            after_shared=0,
        )
        before = left if left.turn_id == record.parent_id else Baseline()
        try:
            old, new, left.history_start = await self.prompts(record, snapshot, left)
        except (BudgetExceededError, ConfigError) as error:
            return replace(base, fault=str(error))
        shared = _count_shared_tokens(new, before.messages, self.estimator.estimate)
        left.turn_id, left.messages = record.turn_id, new.assembled.messages
        return replace(
            base,
            after_tokens=new.assembled.tokens,
            after_shared=shared,
            decisions=compare_decisions(old.decisions, new.decisions),
            moved=list_block_order(old) != list_block_order(new),
        )

    async def prompts(
        self, record: TurnRecord, snapshot: PromptSnapshot, left: Baseline
    ) -> tuple[Prompt, Prompt, str | None]:
        """Return (recorded prompt, prompt under `config`, start of its history).

        Raises ConfigError if the turn was prepared for another viewer, and the errors of `replay_prompt`.
        """
        if self.config.viewer not in (None, snapshot.runtime.viewer):
            made_for = snapshot.runtime.viewer or "nobody in particular"
            raise ConfigError(
                f"It was prepared for {made_for}, and its record holds what {made_for} may know: weave it for "
                f"{self.config.viewer} instead."
            )
        history, start = await self._history(record, snapshot, left)
        count, report = self.estimator.estimate, report_of(record)
        layout = snapshot.layout
        if self.config.layout != snapshot.runtime.layout:
            layout = await to_thread.run_sync(self._load_other_layout, snapshot, report)
        other = self.config.template_id not in (None, snapshot.source.template_id)
        templates = await to_thread.run_sync(open_templates, self.roots) if other else None
        path = report.stream_b.path
        prompt_layout = await to_thread.run_sync(
            lambda: lay_out_with(
                snapshot, self.config, count, layout=layout, templates=templates, history=history, stream_b=path
            )
        )
        carried = await apply_degradations(prompt_layout.orders, count=count, shortener=None)
        blocks = {**carried.blocks, **reuse_degraded_blocks(snapshot, self.config)}
        new = await to_thread.run_sync(complete, prompt_layout, blocks)
        return await to_thread.run_sync(replay_prompt, snapshot, count), new, start

    def _load_other_layout(self, snapshot: PromptSnapshot, report: Report) -> SkeinTemplate:
        named = self.config.layout
        if named == AUTO:
            named = load_profile(report.profile or STORY_ID, self.roots).layout
        return replace(load_layout(named, self.roots), boundary=snapshot.layout.boundary)

    async def _history(
        self, record: TurnRecord, snapshot: PromptSnapshot, before: Baseline
    ) -> tuple[tuple[Block, ...] | None, str | None]:
        """Return the conversation of the other window and its start; None if the window is the same."""
        stored = (record.prompt or {}).get("history_start")
        limits = history_limits(self.config)
        if limits == history_limits(snapshot.runtime):
            return None, stored if isinstance(stored, str) else None
        turns = await self.store.turns(
            record.session_id, limit=TALK_TURNS, branch_id=record.branch_id, before_depth=record.depth
        )
        said = tuple(
            WindowMessage(message=message, turn_id=turn.turn_id, branch_id=turn.branch_id, depth=turn.depth)
            for turn in turns
            for message in turn.messages
        )
        report = report_of(record)
        start = before.history_start if before.turn_id == record.parent_id else None
        count = self.estimator.estimate
        shown = await to_thread.run_sync(trim_history, said, start, limits, count)
        names = _world_of(snapshot.source.variables)
        profile = await to_thread.run_sync(load_profile, report.profile or STORY_ID, self.roots)
        speakers = find_speakers((each.message for each in shown), names, profile, self.config.layers.agent)
        blocks = history_blocks(shown, names, count, record.session_id, profile, speakers)
        return blocks, shown[0].message.message_id if shown else None


def _world_of(variables: Mapping[str, Any]) -> WorldPack:
    """Return a world that only has the names of player and narrator."""
    return replace(
        build_bare_world("replayed"), persona=variables.get("persona") or {}, user_name=variables.get("user_name") or ""
    )


def _count_shared_tokens(prompt: Prompt, before: Sequence[PromptMessage], count: Callable[[str], int]) -> int:
    said = [{"role": message.role, "content": message.content} for message in before]
    return prefix(prompt.assembled, said, count).shared_tokens
