"""Every message of a session is in the prompt, in the range of its summary, or named in the receipt."""

from __future__ import annotations

import pytest

from jacquard import BudgetConfig, HistoryConfig, RuntimeConfig, SummaryConfig, open_runtime
from mnemosyne import SessionStart

pytestmark = pytest.mark.anyio

SMALL = BudgetConfig(max_input_tokens=1_400, reserved_reply_tokens=300)


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none") as opened:
        await opened.store.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
        yield opened


async def accounted(runtime, turn):
    """Return the depths of the turns of which some message is neither shown, nor summarized, nor named."""
    kept = {each.block_id for each in turn.report.decisions if each.action.value != "dropped"}
    dropped = {each.block_id for each in turn.report.decisions if each.action.value == "dropped"}
    named = [
        (int(each.first), int(each.last))
        for each in turn.report.left_out
        if each.what == "turns" and each.code == "unshown"
    ]
    window = await runtime.store.window("s", message_limit=1)
    summary = window.summary.summary.extra["upto"]["depth"] if window.summary and turn.package.working_summary else 0
    missing = set()
    for record in await runtime.store.turns("s", limit=1_000):
        is_named = any(first <= record.depth <= last for first, last in named)
        for message in record.messages:
            if message.message_id not in kept | dropped and not is_named and record.depth > summary:
                missing.add(record.depth)
    return missing


@pytest.mark.parametrize(
    "config",
    [
        RuntimeConfig(history=HistoryConfig(max_messages=6)),
        RuntimeConfig(history=HistoryConfig(max_messages=6), summary=SummaryConfig(enabled=False)),
        RuntimeConfig(history=HistoryConfig(max_messages=30), budget=SMALL),
        RuntimeConfig(history=HistoryConfig(max_messages=30), budget=SMALL, summary=SummaryConfig(enabled=False)),
        RuntimeConfig(history=HistoryConfig(max_messages=0)),
        RuntimeConfig(history=HistoryConfig(max_messages=4), summary=SummaryConfig(trigger_message_count=6)),
    ],
    ids=["count", "count, no summary", "budget", "budget, no summary", "no history", "early summary"],
)
async def test_no_message_is_lost_in_silence(runtime, config):
    for n in range(24):
        turn = await runtime.engine.prepare_turn("s", f"I look at stone {n}. " + "It is grey and round. " * 6, config)
        assert await accounted(runtime, turn) == set()
        if n % 5 != 3:
            await runtime.engine.commit_assistant_message("s", f"Stone {n} is wet. " + "The sea is near. " * 6)


async def test_turns_that_nothing_shows_are_named_as_a_range(runtime):
    config = RuntimeConfig(history=HistoryConfig(max_messages=6), summary=SummaryConfig(enabled=False))
    for n in range(9):
        turn = await runtime.engine.prepare_turn("s", f"I look at stone {n}.", config)
        await runtime.engine.commit_assistant_message("s", "It is wet.")
    (gone,) = turn.report.left_out
    assert (gone.what, gone.code, gone.first) == ("turns", "unshown", "1")
    assert gone.count == int(gone.last)
    assert f"Turns 1 to {gone.last}" in gone.reason


async def test_a_summary_that_had_to_be_thinned_says_so(runtime):
    summary = SummaryConfig(trigger_message_count=4, preserve_recent_messages=2, max_summary_tokens=60)
    config = RuntimeConfig(history=HistoryConfig(max_messages=6), summary=summary)
    for n in range(30):
        turn = await runtime.engine.prepare_turn("s", f"I look at stone {n}.", config)
        await runtime.engine.commit_assistant_message("s", f"Stone {n} is wet.")
    covered, thinned = turn.report.left_out
    assert (covered.what, covered.code) == ("turns", "summarized")
    assert (thinned.what, thinned.code) == ("summary", "summary_thinned")
    shown = len(turn.package.working_summary.splitlines())
    assert thinned.count + shown == covered.count
