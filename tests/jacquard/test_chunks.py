"""Replies in chunks, tails of tool loops, and the correction of the token estimate: the pure parts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jacquard import ChunkConflictError, ConfigError, MissingChunksError, ToolPairError
from jacquard.core.calibration import add_token_counts, correction_of
from jacquard.pipeline.record.tools import check_tasks
from jacquard.pipeline.weaving.tool_pairs import check_pairs, tail_tokens
from jacquard.turns.writing.chunks import MOST_HELD_CHARS, ChunkBuffer
from mnemosyne import ModelUsage, ModelUsageStage, Task

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ("s", "t1", "")


@given(st.text(max_size=60), st.data())
def test_any_order_and_any_repetition_gives_the_same_reply(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)) | {0, len(text)})
    parts = list(enumerate(text[a:b] for a, b in pairwise(cuts))) or [(0, "")]
    desk = ChunkBuffer()
    for index, part in [*data.draw(st.permutations(parts)), *data.draw(st.lists(st.sampled_from(parts), max_size=5))]:
        desk.add(KEY, index, part, NOW)
    assert desk.whole(KEY, NOW) == text


def test_replies_of_sessions_turns_and_messages_do_not_mix():
    desk = ChunkBuffer()
    keys = [("s", "t1", ""), ("s", "t2", ""), ("r", "t1", ""), ("s", "t1", "second")]
    for number, key in enumerate(keys):
        desk.add(key, 0, str(number), NOW)
    assert [desk.whole(key, NOW) for key in keys] == ["0", "1", "2", "3"]
    assert desk.turns("s") == (("t1", ""), ("t2", ""), ("t1", "second"))
    assert desk.drop(keys[0]) == 1
    assert desk.whole(keys[0], NOW) is None


def test_a_chunk_that_says_otherwise_is_refused_and_a_gap_is_named():
    desk = ChunkBuffer(max_chars=10)
    assert desk.add(KEY, 0, "a", NOW)
    assert not desk.add(KEY, 0, "a", NOW)
    with pytest.raises(ChunkConflictError, match="another text"):
        desk.add(KEY, 0, "b", NOW)
    with pytest.raises(ChunkConflictError, match="negative"):
        desk.add(KEY, -1, "b", NOW)
    with pytest.raises(ChunkConflictError, match="characters"):
        desk.add(KEY, 1, "x" * 10, NOW)
    desk.add(KEY, 3, "d", NOW)
    with pytest.raises(MissingChunksError) as caught:
        desk.whole(KEY, NOW)
    assert caught.value.missing == (1, 2)


def test_a_reply_that_grows_no_more_is_forgotten_once():
    desk = ChunkBuffer(expire_seconds=60)
    desk.add(KEY, 0, "a", NOW)
    desk.add(KEY, 1, "b", NOW + timedelta(seconds=50))
    assert desk.whole(KEY, NOW + timedelta(seconds=100)) == "ab"
    assert desk.pop_expired(NOW + timedelta(seconds=111)) == (KEY,)
    assert desk.pop_expired(NOW + timedelta(seconds=111)) == ()
    assert desk.whole(KEY, NOW + timedelta(seconds=111)) is None


def test_a_session_has_few_replies_under_way_and_keeps_those_that_grow():
    desk = ChunkBuffer()
    desk.add(("other", "t", ""), 0, "a", NOW)
    for number in range(20):
        desk.add(KEY, number, "a", NOW)
        desk.add(("s", "t1", f"m{number}"), 0, "a", NOW)
    assert desk.whole(KEY, NOW) == "a" * 20
    assert [message for _, message in desk.turns("s")] == [*(f"m{number}" for number in range(13, 19)), "", "m19"]
    assert desk.pop_expired(NOW) == tuple(("s", "t1", f"m{number}") for number in range(13))
    assert desk.whole(("other", "t", ""), NOW) == "a"


def test_replies_under_way_are_bounded_together():
    desk, text = ChunkBuffer(), "a" * 400_000
    for number in range(100):
        desk.add((f"s{number}", "t", ""), 0, text, NOW)
    held = [number for number in range(100) if desk.has((f"s{number}", "t", ""))]
    assert held == list(range(100 - MOST_HELD_CHARS // 402_100, 100))


def test_replies_of_empty_chunks_are_bounded_together():
    desk = ChunkBuffer()
    for number in range(30):
        for index in range(10_000):
            desk.add((f"s{number}", "t", ""), index, "", NOW)
    assert sum(desk.has((f"s{number}", "t", "")) for number in range(30)) == MOST_HELD_CHARS // 1_002_000


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}, {"id": "c2"}]}
WITHOUT_IDS = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}, {"function": {}}]}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "u1", "name": "f", "input": {}}]}


@pytest.mark.parametrize(
    "tail",
    [
        [],
        [
            CALL,
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ],
        [USE, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "ok"}]}],
        [WITHOUT_IDS, {"role": "tool", "content": "the first"}, {"role": "tool", "content": "the second"}],
        [CALL, {"role": "tool", "content": "1"}, {"role": "tool", "tool_call_id": "c2", "content": "2"}],
    ],
)
def test_whole_pairs_pass(tail):
    check_pairs(tail)


@pytest.mark.parametrize(
    ("tail", "place"),
    [
        ([CALL, {"role": "tool", "tool_call_id": "c1", "content": "1"}], 0),
        ([{"role": "tool", "tool_call_id": "c1", "content": "1"}], 0),
        ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u1"}]}, USE], 0),
        ([{"role": "tool", "content": "x"}], 0),
        ([{"role": "assistant", "content": "", "tool_calls": []}, {"role": "tool", "content": "x"}], 1),
        ([USE, {"role": "user", "content": [{"type": "tool_result"}, {"type": "tool_result"}]}], 1),
        ([WITHOUT_IDS, {"role": "tool", "content": "1"}], 0),
        ([WITHOUT_IDS, {"role": "tool", "tool_call_id": "c1", "content": "1"}], 1),
    ],
)
def test_half_a_pair_is_refused_with_its_place(tail, place):
    with pytest.raises(ToolPairError) as caught:
        check_pairs(tail)
    assert caught.value.place == place


def test_a_tail_costs_what_it_says():
    assert tail_tokens([{"role": "tool", "content": "abcd"}], len, 4) == 8
    assert tail_tokens([CALL], len, 4) > 20


def usage(reported, estimated, **more):
    call = ModelUsage(
        model_usage_id="u", model=more.pop("model", "m"), stage=ModelUsageStage.ANSWER, prompt_tokens=reported
    )
    return add_token_counts(call, estimated, 10, **more)


def test_reported_usage_corrects_the_estimate_in_steps_and_within_bounds():
    assert correction_of([]) == 1.0
    assert correction_of([usage(1100, 1000), usage(1120, 1000), usage(3000, 1000)]) == 1.1
    assert correction_of([usage(9000, 1000)]) == 2.0
    assert correction_of([usage(1, 1000)]) == 0.7
    assert correction_of([usage(1500, 1000, model="a"), usage(1000, 1000, model="b")], "a") == 1.5


def test_an_estimate_is_written_where_nothing_was_reported_and_corrects_nothing():
    told = usage(0, 900, turn_id="t1")
    assert (told.prompt_tokens, told.completion_tokens, told.total_tokens) == (900, 10, 910)
    assert dict(told.extra) == {"turn_id": "t1", "estimated_prompt_tokens": 900, "counted": "estimated"}
    assert correction_of([told]) == 1.0
    assert usage(5, 5).extra["counted"] == "reported"


def test_tasks_must_be_able_to_begin():
    check_tasks([Task(task_id="b", depends_on=("a",))], [Task(task_id="a")])
    with pytest.raises(ConfigError, match="not a task of this session"):
        check_tasks([Task(task_id="b", depends_on=("x",))], [])
    with pytest.raises(ConfigError, match="depends on itself"):
        check_tasks([Task(task_id="a", depends_on=("b",)), Task(task_id="b", depends_on=("a",))], [])
    with pytest.raises(ConfigError, match="task_id is empty"):
        check_tasks([Task(task_id=" ")], [])
