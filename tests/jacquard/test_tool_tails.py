"""Tails of tool loops, and the correction of the token estimate: the pure parts."""

from __future__ import annotations

import pytest

from jacquard import ConfigError
from jacquard.core.calibration import add_token_counts, correction_of
from jacquard.core.errors import ToolPairError
from jacquard.pipeline.record.tools import check_tasks
from jacquard.pipeline.weaving.tool_pairs import check_pairs, tail_tokens
from mnemosyne import ModelUsage, ModelUsageStage, Task

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
