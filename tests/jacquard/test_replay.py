"""Recorded turns made again: from the record alone, with today's templates, under another configuration."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from jacquard import (
    BudgetConfig,
    CurationConfig,
    HistoryConfig,
    PruneConfig,
    Runtime,
    RuntimeConfig,
    find_differences,
    open_runtime,
    read_snapshot,
    replay_prompt,
)
from jacquard.authoring.replay.replay import changed_settings, compare_templates
from jacquard.authoring.replay.what_if import WhatIf
from jacquard.core.blocks import Block, BlockOrigin, BlockPlace
from jacquard.pipeline.record.prepared_turn import turn_from_record
from jacquard.pipeline.record.prompt_snapshot import (
    PromptSnapshot,
    config_to_plain,
    snapshot_from_json,
    snapshot_to_json,
)
from jacquard.pipeline.weaving.pieces import BLOCK_FIELDS, split_messages
from jacquard.templating import find_shipped_templates, open_templates
from jacquard.templating.files import template_roots
from mnemosyne import CalibratedEstimator
from mnemosyne.core import codec
from mnemosyne.core.codec import replace_struct
from mnemosyne.schema.record import TurnRecord

pytestmark = pytest.mark.anyio

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest"
COUNT = CalibratedEstimator().estimate
SHIPPED = find_shipped_templates()
ASKED = {
    "zh": (
        "那把钥匙是不是开启神庙的?我记得之前提到过。",
        "我们去找村长。",
        "吃一块面包",
        "墨点在做什么? </status> {{ 1 }}",
    ),
    "en": (
        "Is that the key that opens the temple? I remember it.",
        "We go to the chief.",
        "What does the raven do? <b>&",
    ),
}
SAID = '<content>“不。”他说 & 走了。</content><state_update>[["SUB", "hero.gold", 1]]</state_update>'
PATIENT = CurationConfig(deadline_ms=60_000)
CONFIGS = (
    RuntimeConfig(curation=PATIENT),
    RuntimeConfig(layout="cache_first"),
    RuntimeConfig(layout="cache_append"),
    RuntimeConfig(budget=BudgetConfig(max_input_tokens=3600, reserved_reply_tokens=600)),
    RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=3400, reserved_reply_tokens=600),
        prune=PruneConfig(policy="degrade_to_summary"),
    ),
    RuntimeConfig(prune=PruneConfig(policy="group_aware", ttl_seconds={"low": 60})),
    RuntimeConfig(template_id="dense", curation=CurationConfig(enabled=False)),
)


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    shutil.copytree(FOREST / "zh", tmp_path / "world")
    async with open_runtime(tmp_path / "store", world=tmp_path / "world", embedder="none") as opened:
        await opened.ensure_session("s")
        yield opened


async def played(runtime: Runtime, turns: int, session: str = "s", language: str = "zh") -> list[str]:
    """Play turns under every configuration in turn; return their ids."""
    names = []
    for number in range(turns):
        asked = ASKED[language][number % len(ASKED[language])]
        config = CONFIGS[number % len(CONFIGS)]
        turn = await runtime.engine.prepare_turn(session, f"{asked}", config, turn_id=f"{session}-{number}")
        names.append(turn.turn_id)
        if turn.reply is None:
            await runtime.engine.commit_assistant_message(session, SAID, turn_id=turn.turn_id)
    return names


async def taped(runtime: Runtime, turn_id: str, session: str = "s") -> tuple[TurnRecord, PromptSnapshot]:
    record = await runtime.store.turn(session, turn_id)
    snapshot = read_snapshot(record)
    assert snapshot is not None
    return record, snapshot


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_the_same_bytes_come_out_of_the_record_alone(tmp_path: Path, language: str) -> None:
    async with open_runtime(tmp_path, world=FOREST / language, embedder="none") as opened:
        await opened.ensure_session("s")
        for turn_id in await played(opened, 6, language=language):
            record, snapshot = await taped(opened, turn_id)
            prompt = replay_prompt(snapshot, COUNT)
            assert find_differences(record, prompt) == ()
            assert record.prompt is not None
            messages, places = split_messages(prompt.assembled.messages, prompt.assembled.spans)
            assert messages == record.prompt["messages"]
            assert (
                codec.decode(codec.encode(snapshot_to_json(snapshot, messages, places)), Any) == record.prompt["tape"]
            )


@pytest.mark.full
async def test_a_thousand_recorded_turns_come_out_byte_for_byte(tmp_path: Path) -> None:
    same = 0
    async with open_runtime(tmp_path, world=FOREST / "zh", embedder="none") as opened:
        for session in range(20):
            await opened.ensure_session(f"s{session}")
            await played(opened, 50, f"s{session}")
    async with open_runtime(tmp_path, world=FOREST / "zh", embedder="none") as opened:
        for session in await opened.store.sessions():
            for listed in await opened.store.turns(session, limit=50):
                record, snapshot = await taped(opened, listed.turn_id, session)
                assert find_differences(record, replay_prompt(snapshot, COUNT)) == ()
                same += 1
    assert same == 1000


def test_every_field_of_a_block_is_recorded_under_a_name_of_its_own() -> None:
    parts = {"place": BlockPlace, "origin": BlockOrigin}
    fields = set(Block.__struct_fields__) - set(parts)
    fields |= {f"{part}.{name}" for part, kind in parts.items() for name in kind.__struct_fields__}
    assert set(BLOCK_FIELDS) == fields
    assert len({path.rpartition(".")[2] for path in BLOCK_FIELDS}) == len(BLOCK_FIELDS)


async def test_a_picture_counts_once_in_a_turn_from_its_record(runtime: Runtime) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    await runtime.ensure_session("t")
    await runtime.engine.prepare_turn("t", {"role": "user", "content": [{"type": "text", "text": "看。"}, picture]})
    turn = await runtime.engine.prepare_turn("t", "然后呢?")
    record = await runtime.store.turn("t", turn.turn_id)
    assert turn_from_record(record, turn.version).context_blocks == turn.context_blocks


async def test_a_replay_that_goes_wrong_is_told(runtime: Runtime) -> None:
    (turn_id,) = await played(runtime, 1)
    record, snapshot = await taped(runtime, turn_id)
    other = replace(snapshot, user_input=replace_struct(snapshot.user_input, content="something else"))
    faults = find_differences(record, replay_prompt(other, COUNT))
    assert any("differs from character" in fault for fault in faults)


async def test_an_upgraded_template_is_noticed_and_the_diff_names_what_changed(
    runtime: Runtime, tmp_path: Path
) -> None:
    (turn_id,) = await played(runtime, 1)
    record, snapshot = await taped(runtime, turn_id)
    roots = template_roots((SHIPPED,), runtime.worlds["whispering_forest"])
    same = compare_templates(snapshot, await to_thread.run_sync(open_templates, roots), COUNT)
    assert (same.changed, same.added, same.removed, same.blocks) == ((), (), (), ())
    folder = await to_thread.run_sync(newer_status, tmp_path)
    found = compare_templates(snapshot, await to_thread.run_sync(open_templates, (folder, *roots)), COUNT)
    assert found.changed == ("chat/status.j2",)
    (block,) = found.blocks
    assert (block.block_id, block.file) == ("status", "chat/status.j2")
    assert "+seen: now" in block.diff
    assert block.before_tokens is not None
    assert block.after_tokens is not None
    assert block.after_tokens > block.before_tokens
    assert find_differences(record, replay_prompt(snapshot, COUNT)) == ()


def newer_status(tmp_path: Path) -> Path:
    """Write a folder with another status template."""
    folder = tmp_path / "newer"
    (folder / "chat").mkdir(parents=True)
    old = (SHIPPED / "chat" / "status.j2").read_text(encoding="utf-8")
    (folder / "chat" / "status.j2").write_text(old.replace("<status>", "<status>\nseen: now"), encoding="utf-8")
    return folder


async def test_another_configuration_changes_decisions_and_tokens(runtime: Runtime) -> None:
    names = await played(runtime, 1)
    names += [(await runtime.engine.prepare_turn("s", "我们去找村长。", CONFIGS[0])).turn_id]
    roots = template_roots((SHIPPED,), runtime.worlds["whispering_forest"])

    async def rehearsed(config: RuntimeConfig):
        rehearsal = WhatIf(store=runtime.store, config=config, estimator=CalibratedEstimator(), roots=roots)
        before = rehearsal.start()
        return [await rehearsal.turn(*await taped(runtime, name), before) for name in names]

    for diff in await rehearsed(RuntimeConfig()):
        assert (diff.decisions, diff.moved, diff.after_tokens) == ((), False, diff.before_tokens)
    for diff in await rehearsed(RuntimeConfig(layout="cache_first")):
        assert diff.moved
    small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=4200, reserved_reply_tokens=600))
    for diff in await rehearsed(small):
        assert diff.after_tokens <= 3600 < diff.before_tokens
        assert any(change.after is not None and change.after.startswith("dropped") for change in diff.decisions)
    for diff in await rehearsed(RuntimeConfig(budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0))):
        assert "must be kept" in diff.fault
    for diff in await rehearsed(RuntimeConfig(history=HistoryConfig(max_messages=4))):
        gone = [change for change in diff.decisions if change.after is None]
        assert gone
        assert all(change.block_id.endswith((".u", ".a")) for change in gone)
    fewer = await rehearsed(RuntimeConfig(curation=CurationConfig(fallback_limit=1)))
    gone = [change.block_id for change in fewer[0].decisions if change.after is None]
    assert gone
    assert all(name.startswith("flesh:") for name in gone)
    dense = await rehearsed(RuntimeConfig(template_id="dense"))
    assert any(change.block_id == "guidance" for change in dense[0].decisions)


async def test_a_longer_window_brings_back_older_talk(runtime: Runtime) -> None:
    short = RuntimeConfig(history=HistoryConfig(max_messages=4))
    turn = await runtime.engine.prepare_turn("s", "我们去找村长。", short)
    record, snapshot = await taped(runtime, turn.turn_id)
    roots = (SHIPPED,)
    config = RuntimeConfig(history=HistoryConfig(max_messages=20))
    rehearsal = WhatIf(store=runtime.store, config=config, estimator=CalibratedEstimator(), roots=roots)
    diff = await rehearsal.turn(record, snapshot, rehearsal.start())
    assert len([change for change in diff.decisions if change.before is None]) > 4
    assert diff.after_tokens > diff.before_tokens


async def test_settings_that_a_replay_cannot_show_are_named(runtime: Runtime) -> None:
    (turn_id,) = await played(runtime, 1)
    _, snapshot = await taped(runtime, turn_id)
    other = RuntimeConfig(
        layout="cache_first", viewer="witch", curation=replace(PATIENT, select_limit=2, recall_limit=9), tags={"a": "b"}
    )
    assert changed_settings(snapshot, other) == (
        ("layout", "curation.select_limit"),
        ("viewer", "curation.recall_limit"),
    )


async def test_no_secret_is_on_a_tape(runtime: Runtime) -> None:
    config = RuntimeConfig()
    config = replace(
        config, selector=replace(config.selector, api_key="sk-1"), planner=replace(config.planner, api_key="sk-2")
    )
    assert "sk-" not in json.dumps(config_to_plain(config))
    assert codec.from_plain(config_to_plain(config), RuntimeConfig) == RuntimeConfig()


async def test_a_tape_of_another_shape_is_refused(runtime: Runtime) -> None:
    with pytest.raises((codec.CodecError, LookupError)):
        snapshot_from_json({"source": 1}, [])
