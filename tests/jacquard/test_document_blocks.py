"""The context blocks and system messages of a session's document are in its prompts."""

from __future__ import annotations

import pytest

from jacquard import BudgetExceededError, HistoryConfig, RuntimeConfig, SummaryConfig, open_runtime
from mnemosyne import document_from_json, export_session, import_session

pytestmark = pytest.mark.anyio


def document(blocks=(), messages=(), **fields):
    return document_from_json(
        {
            "schema_version": "1.0",
            "session": {
                "session_id": "s",
                "messages": list(messages)
                or [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}],
                "task_state": {"todo_list": {"tasks": []}},
            },
            "evidences": {
                "e1": {
                    "evidence_id": "e1",
                    "type": "rag_doc",
                    "source": {"kind": "rag", "name": "wiki"},
                    "content": "Line one.\nLine two.\nLine three.",
                }
            },
            "context_blocks": list(blocks),
            **fields,
        }
    )


def block(block_id, content="", priority="medium", block_type="instruction", **fields):
    return {"block_id": block_id, "block_type": block_type, "priority": priority, "content": content, **fields}


@pytest.fixture(params=["sqlite", "file"])
async def runtime(request, tmp_path):
    address = str(tmp_path / "store") if request.param == "sqlite" else f"file:{tmp_path / 'store'}"
    async with open_runtime(address, embedder="none") as opened:
        yield opened


BLOCKS = (
    block("rules", "Never name a price. <b>&", "must"),
    block("status", "The customer is a member since 2019.", "high", "state"),
    block("part", priority="low", block_type="evidence", refs=[{"evidence_id": "e1", "selector": "lines:2-2"}]),
    block("talk", "hello", "high", "conversation"),
    block("bare", ""),
)


async def test_blocks_of_a_document_are_assembled_in_every_turn(runtime):
    await import_session(runtime.store, document(BLOCKS))
    for _ in range(3):
        turn = await runtime.engine.prepare_turn("s", f"What now, for the {_}th time?")
        assert '<context_block id="rules" type="instruction" trust="user">' in turn.text
        assert "\nNever name a price. <b>&" in turn.text
        assert "The customer is a member since 2019." in turn.text
        assert "\nLine two.\n</context_block>" in turn.text
        decided = {each.title: each for each in turn.report.decisions if each.kind.value == "context_block"}
        assert {name: each.code for name, each in decided.items()} == {
            "rules": "must",
            "status": "fits",
            "part": "fits",
        }
        assert {each.first: each.code for each in turn.report.left_out} == {"talk": "duplicate", "bare": "empty"}
        await runtime.engine.commit_assistant_message("s", "Done.")
    left = await export_session(runtime.store, "s")
    given = {each.block_id: each for each in document(BLOCKS).context_blocks}
    kept = {each.block_id: each for each in left.context_blocks}
    assert {name: kept[name] for name in given} == given


async def test_what_a_turn_recorded_of_its_prompt_is_not_shown_again(runtime, tmp_path):
    await import_session(runtime.store, document(BLOCKS[:1]))
    first = await runtime.engine.prepare_turn("s", "One.")
    await runtime.engine.commit_assistant_message("s", "Done.")
    second = await runtime.engine.prepare_turn("s", "Two.")
    assert second.text.count("<context_block ") == first.text.count("<context_block ") == 1
    async with open_runtime(tmp_path / "other", embedder="none") as other:
        await import_session(other.store, await export_session(runtime.store, "s"))
        third = await other.engine.prepare_turn("s", "Three.")
        assert third.text.count("<context_block ") == 1


async def test_a_must_block_that_does_not_fit_is_named(runtime):
    await import_session(runtime.store, document([block("rules", "word " * 20_000, "must")]))
    with pytest.raises(BudgetExceededError, match="rules"):
        await runtime.engine.prepare_turn("s", "What now?")


async def test_a_block_of_low_priority_that_does_not_fit_has_its_line(runtime):
    await import_session(runtime.store, document([block("long", "word " * 20_000, "low"), block("short", "A word.")]))
    turn = await runtime.engine.prepare_turn("s", "What now?")
    assert "A word." in turn.text
    assert {each.title: each.code for each in turn.report.decisions}["long"] == "over_budget"


async def test_a_host_can_write_blocks_too(runtime):
    await import_session(runtime.store, document())
    (made,) = document([block("note", "Speak softly.", "must")]).context_blocks
    await runtime.store.put_context_blocks("s", (made,))
    assert "Speak softly." in (await runtime.engine.prepare_turn("s", "Hm?")).text


SYSTEM = "Answer as the harbour master. Code word: heron."


@pytest.mark.parametrize("summary", [True, False])
async def test_system_messages_are_in_every_prompt_and_in_no_summary(runtime, summary):
    talk = [{"role": "system", "content": SYSTEM}]
    for n in range(30):
        talk += [
            {"role": "user", "content": f"Boat {n} asks for a berth."},
            {"role": "assistant", "content": f"Berth {n} it is."},
        ]
    await import_session(runtime.store, document(messages=talk))
    config = RuntimeConfig(history=HistoryConfig(max_messages=8), summary=SummaryConfig(enabled=summary))
    starts = []
    for n in range(8):
        turn = await runtime.engine.prepare_turn("s", f"And boat {100 + n}?", config)
        assert turn.text.count("Code word: heron.") == 1
        (placed,) = (each for each in turn.messages if SYSTEM in each.content)
        assert placed.role == "system"
        (decided,) = (each for each in turn.report.decisions if each.block_id.endswith(".m1") or each.title == "system")
        assert decided.code == "must"
        assert "heron" not in turn.package.working_summary
        starts.append(turn.history_start)
        await runtime.engine.commit_assistant_message("s", "There is room.")
    assert len(set(starts)) < len(starts)


async def test_system_messages_follow_their_branch(runtime):
    await import_session(
        runtime.store, document(messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": "hello"}])
    )
    await runtime.engine.prepare_turn("s", "One.")
    await runtime.store.fork("s", None, "fresh")
    assert "heron" not in (await runtime.engine.prepare_turn("s", "Two.")).text
    await runtime.store.switch("s", "main")
    assert "heron" in (await runtime.engine.prepare_turn("s", "Three.")).text
