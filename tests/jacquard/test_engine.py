"""The engine end to end on real parts: SQLite, LanceDB, LiteLLM against a real HTTP server."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from deadline_parts import deadline_by_hand
from servers.openai_server import OpenAiServer

from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    ConfigError,
    CurationConfig,
    HistoryConfig,
    RuntimeConfig,
    SelectorConfig,
    SummaryConfig,
    create_context_engine,
    open_runtime,
)
from mnemosyne import MemoryStore, Message, Role, load_world
from mnemosyne.core.errors import TurnNotFoundError, TurnNotPendingError

pytestmark = pytest.mark.anyio

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "zh"
SEED_QUESTION = "那把钥匙是不是开启神庙的?我记得之前提到过。"
SAME_SCENE = "神庙的钥匙到底在谁手里?"
PLACES = (
    "沼泽",
    "石桥",
    "断崖",
    "松林",
    "旧井",
    "磨坊",
    "河滩",
    "瀑布",
    "洞口",
    "废塔",
    "草甸",
    "山脊",
    "渡船",
    "果园",
    "墓地",
    "谷仓",
)
OTHER_SCENE = "给墨点喂点东西,它叫个不停。"


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", world=FOREST, embedder="none") as opened:
        await opened.ensure_session("s")
        yield opened


def asking(server, **curation):
    curation.setdefault("deadline_ms", 20_000)
    return RuntimeConfig(
        selector=SelectorConfig(model="openai/x", api_base=server.api_base), curation=CurationConfig(**curation)
    )


async def timed_out(opened, server, text):
    """A turn whose deadline is over as soon as the selector is asked."""
    with deadline_by_hand(asking(server).curation) as deadline:
        return await deadline.missed(server, lambda: opened.engine.prepare_turn("s", text))


async def test_the_flash_selector_is_asked_and_its_choice_is_the_flesh(tmp_path):
    with OpenAiServer("match:翡翠") as server:
        config = asking(server)
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as opened:
            await opened.ensure_session("s")
            await opened.warm(SEED_QUESTION)
            turn = await opened.engine.prepare_turn("s", SEED_QUESTION)
    stream = turn.report.stream_b
    assert (stream.path.value, stream.model) == ("selected", "openai/x")
    assert "lore_temple_key" in stream.selected
    assert '<context_layer type="probabilistic" model="openai/x">' in turn.text
    assert {c.code for c in stream.candidates} == {"selected", "not_selected"}
    assert {e.evidence_id for e in turn.evidences} == {b.refs[0].evidence_id for b in turn.context_blocks if b.refs}
    assert turn.package.evidence[0].source_uri.startswith("mnemosyne://")


@pytest.mark.parametrize(("next_input", "path"), [(SAME_SCENE, "prefetched"), (OTHER_SCENE, "fallback")])
async def test_what_came_late_serves_the_next_turn_only_if_the_scene_matches(tmp_path, next_input, path):
    with OpenAiServer("slow:1") as server:
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=asking(server)) as opened:
            await opened.ensure_session("s")
            await opened.warm(SEED_QUESTION)
            first = await timed_out(opened, server, SEED_QUESTION)
            assert (first.report.stream_b.path.value, first.report.stream_b.code) == ("fallback", "deadline")
            assert first.report.stream_b.selected != ()
            assert '<context_layer type="probabilistic" model="heuristic">' in first.text
            assert "<status>" in first.text
            assert await opened.engine.settle(20)
            await opened.engine.commit_assistant_message("s", "他没有回答。")
            if path == "fallback":
                second = await timed_out(opened, server, next_input)
            else:
                second = await opened.engine.prepare_turn("s", next_input)
            assert second.report.stream_b.path.value == path


async def test_a_late_result_outlives_the_process_but_not_another_branch(tmp_path):
    with OpenAiServer("slow:1") as server:
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=asking(server)) as opened:
            await opened.ensure_session("s")
            await opened.warm(SEED_QUESTION)
            first = await timed_out(opened, server, SEED_QUESTION)
            assert await opened.engine.settle(20)
            await opened.engine.commit_assistant_message("s", "他没有回答。")
        async with open_runtime(tmp_path, world=FOREST, embedder="none") as opened:
            await opened.store.fork("s", "p040", "elsewhere")
            other = await opened.engine.prepare_turn("s", SAME_SCENE)
            assert other.report.stream_b.path.value == "heuristic"
            await opened.store.switch("s", "main")
            again = await opened.engine.prepare_turn("s", SAME_SCENE)
            assert again.report.stream_b.path.value == "prefetched"
            assert first.turn_id in again.report.stream_b.reason


async def test_the_same_request_is_answered_from_its_record_and_another_anew(runtime):
    first = await runtime.engine.prepare_turn("s", SEED_QUESTION)
    assert await runtime.engine.prepare_turn("s", SEED_QUESTION) == first
    other = await runtime.engine.prepare_turn("s", SEED_QUESTION, RuntimeConfig(layout="cache_first"))
    assert other.turn_id == first.turn_id
    assert other.report.layout == "cache_first"


async def test_an_id_of_the_hosts_own_is_answered_once_also_after_the_commit(runtime):
    first = await runtime.engine.prepare_turn("s", SEED_QUESTION, turn_id="mine")
    await runtime.engine.commit_assistant_message("s", "好。", turn_id="mine")
    again = await runtime.engine.prepare_turn("s", SEED_QUESTION, turn_id="mine")
    assert again.messages == first.messages
    assert (await runtime.store.head("s")).turn_id == "mine"


async def test_an_input_that_another_followed_takes_no_reply_any_more(runtime):
    first = await runtime.engine.prepare_turn("s", SEED_QUESTION)
    await runtime.engine.prepare_turn("s", OTHER_SCENE)
    with pytest.raises(TurnNotPendingError):
        await runtime.engine.commit_assistant_message("s", "好。", turn_id=first.turn_id)
    revived = await runtime.engine.prepare_turn("s", SEED_QUESTION)
    assert (await runtime.engine.commit_assistant_message("s", "好。")).turn_id == revived.turn_id


async def test_a_commit_without_a_prepared_turn_is_refused(runtime):
    with pytest.raises(TurnNotFoundError):
        await runtime.engine.commit_assistant_message("s", "好。")


async def test_a_commit_on_another_branch_changes_that_branchs_state(runtime):
    await runtime.engine.prepare_turn("s", OTHER_SCENE, turn_id="on_main")
    await runtime.store.fork("s", "p001", "early")
    await runtime.engine.prepare_turn("s", "我先去睡。", turn_id="on_early")
    reply = '<content>好。</content><state_update>[["SUB", "hero.gold", 5]]</state_update>'
    done = await runtime.engine.commit_assistant_message("s", reply, turn_id="on_main")
    assert done.refused is None
    after = await runtime.store.state_at("s", "on_main")
    before = await runtime.store.state_at("s", "p040")
    assert _value(after["hero"]["gold"]) == _value(before["hero"]["gold"]) - 5


def _value(field):
    return field[0] if isinstance(field, list) else field


async def test_a_budget_that_is_too_small_writes_nothing(runtime):
    head = await runtime.store.head("s")
    small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=100))
    with pytest.raises(BudgetExceededError) as caught:
        await runtime.engine.prepare_turn("s", SEED_QUESTION, small)
    assert {"instruction", "status"} <= {name for name, _ in caught.value.blocks}
    assert await runtime.store.head("s") == head
    assert (await runtime.store.window("s", message_limit=2)).pending is None


async def test_a_tight_budget_is_kept_and_what_went_is_named(runtime):
    tight = RuntimeConfig(budget=BudgetConfig(max_input_tokens=3600, reserved_reply_tokens=600))
    turn = await runtime.engine.prepare_turn("s", SEED_QUESTION, tight)
    assert turn.report.budget.used_tokens <= 3000
    dropped = [d for d in turn.report.decisions if d.action.value == "dropped"]
    assert dropped
    assert all(d.reason for d in dropped)
    for decision in dropped:
        assert decision.block_id not in {span.block_id for span in turn.report.spans}


async def test_a_tool_loop_gets_the_prompt_again_with_its_tail_untouched(runtime):
    turn = await runtime.engine.prepare_turn("s", SEED_QUESTION)
    tail = [{"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]}, {"role": "tool", "content": "<raw>"}]
    messages = await runtime.engine.assemble("s", turn.turn_id, tail)
    assert messages == [*({"role": m.role, "content": m.content} for m in turn.messages), *tail]


async def test_a_numerical_turn_is_over_at_once_and_never_recalled(runtime):
    turn = await runtime.engine.prepare_turn("s", "吃一块面包")
    assert turn.reply
    assert turn.report.stream_b.path.value == "skipped"
    assert (await runtime.store.head("s")).turn_id == turn.turn_id
    later = await runtime.engine.prepare_turn("s", "我吃过面包了吗?")
    # The value that it ended is a fact of the state; what was said in it is no memory.
    recalled = [each.entry_id for each in later.report.stream_b.candidates if turn.turn_id in each.entry_id]
    assert all(name.startswith(f"{turn.turn_id}.state.") for name in recalled)


async def test_what_was_just_said_is_found_by_the_next_turn_once_it_left_the_window(runtime):
    await runtime.engine.prepare_turn("s", "我把暗号告诉阿苇:青石渡口的第七只白鹭。")
    await runtime.engine.commit_assistant_message("s", "阿苇记住了。")
    for place in PLACES:
        await runtime.engine.prepare_turn("s", f"我去{place}看看。")
        told = f"你绕到{place}背面,{place}的影子落在苔藓上,有人在{place}边刻了一道记号。"
        await runtime.engine.commit_assistant_message("s", told * 6)
    short = RuntimeConfig(history=HistoryConfig(max_messages=8), summary=SummaryConfig(enabled=False))
    turn = await runtime.engine.prepare_turn("s", "我说过的暗号是哪一只白鹭?", short)
    assert "第七只白鹭" in "".join(m.content for m in turn.messages)
    assert any("白鹭" in c.preview for c in turn.report.stream_b.candidates if c.chosen)


async def test_calls_on_one_session_are_serial_and_none_is_lost(runtime):
    results = []

    async def play(n):
        turn = await runtime.engine.prepare_turn("s", f"第{n}次敲门", turn_id=f"turn{n}")
        results.append(turn)

    async with anyio.create_task_group() as group:
        for n in range(6):
            group.start_soon(play, n)
    assert len({turn.turn_id for turn in results}) == 6
    assert (await runtime.store.window("s", message_limit=2)).pending is not None


class InterruptedStore:
    """Another writer of the session comes between, the first time."""

    def __init__(self, inner):
        self.inner, self.calls = inner, []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def save_prepared(self, record, *, expected_version, **held):
        self.calls.append(expected_version)
        if len(self.calls) == 1:
            await self.inner.append_messages(record.session_id, (Message(role=Role.USER, content="墨叫了一声。"),))
        return await self.inner.save_prepared(record, expected_version=expected_version, **held)


async def test_a_stale_write_is_decided_again_once():
    store = InterruptedStore(MemoryStore())
    async with create_context_engine(store, world=load_world(FOREST)) as engine:
        turn = await engine.prepare_turn("s", SEED_QUESTION)
    assert "version_conflict" in {degradation.code for degradation in turn.report.degradations}
    first, second = store.calls
    assert second > first
    await store.close()


async def test_an_input_must_say_something(runtime):
    with pytest.raises(ConfigError, match="empty"):
        await runtime.engine.prepare_turn("s", Message(role=Role.USER, content=" \n"))


async def test_a_session_of_another_world_is_not_mixed_up(runtime, tmp_path):
    async with open_runtime(tmp_path / "store", world=FOREST.parent / "en", embedder="none") as other:
        with pytest.raises(ConfigError, match="lives in world 'whispering_forest'"):
            await other.ensure_session("s")


async def test_no_call_blocks_the_event_loop(runtime):
    from blockbuster import blockbuster_ctx

    with blockbuster_ctx(scanned_modules=["jacquard", "mnemosyne", "filament"]):
        turn = await runtime.engine.prepare_turn("s", SEED_QUESTION)
        await runtime.engine.commit_assistant_message("s", "好。")
        await runtime.engine.assemble("s", turn.turn_id)
