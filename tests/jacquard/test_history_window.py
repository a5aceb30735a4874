"""The history window keeps its start for many turns and its limits always."""

from __future__ import annotations

from itertools import pairwise

import pytest
from forest_parts import said, talk
from hypothesis import given
from hypothesis import strategies as st

from jacquard import BudgetConfig, HistoryConfig, RuntimeConfig, open_runtime
from jacquard.pipeline.skeleton.history import WindowLimits, trim_history
from mnemosyne import Role
from mnemosyne.schema.session import WindowMessage

pytestmark = pytest.mark.anyio
WIDE = WindowLimits(max_messages=10, max_tokens=10_000, low_water=0.6)


def ids(messages: tuple[WindowMessage, ...]) -> list[str]:
    return [each.message.message_id for each in messages]


def test_everything_stays_while_it_fits():
    messages = talk(["hello"] * 10)
    assert trim_history(messages, None, WIDE, len) == messages


def test_overflow_cuts_to_the_low_water_mark_on_a_turn():
    messages = talk(["hello"] * 12)
    assert ids(trim_history(messages, "m000", WIDE, len)) == [f"m{n:03d}" for n in range(6, 12)]


def test_tokens_cut_as_well_as_messages():
    messages = talk(["x" * 100] * 8)
    shown = trim_history(messages, "m000", WindowLimits(max_messages=40, max_tokens=700, low_water=0.6), len)
    assert ids(shown) == ["m004", "m005", "m006", "m007"]


def test_a_start_that_is_too_old_to_be_loaded_is_an_overflow():
    """A store hands out the newest messages only; the window must not slide along with them turn by turn."""
    loaded = talk(["hello"] * 30)[-10:]
    first = trim_history(loaded, "m002", WIDE, len)
    assert ids(first)[0] == "m024"
    later = talk(["hello"] * 32)[-10:]
    assert ids(trim_history(later, ids(first)[0], WIDE, len))[0] == "m024"


def test_the_newest_turn_stays_even_when_it_is_over_the_limit():
    messages = talk(["short", "short", "x" * 500, "y" * 500])
    assert ids(trim_history(messages, "m000", WindowLimits(max_messages=60, max_tokens=100, low_water=0.5), len)) == [
        "m002",
        "m003",
    ]


def test_a_limit_below_one_means_no_history():
    assert trim_history(talk(["a", "b"]), None, WindowLimits(max_messages=0, max_tokens=100, low_water=0.5), len) == ()


def test_a_cut_never_leaves_a_reply_without_its_question():
    half = talk(["hello"] * 30)[-9:]
    assert half[0].message.role is Role.ASSISTANT
    assert trim_history(half, None, WIDE, len)[0].message.role is Role.USER


def test_single_message_turns_begin_with_the_user_too():
    messages = tuple(said(n, (Role.USER, Role.ASSISTANT)[n % 2], "hi", turn=f"D1:{n}") for n in range(11))
    shown = trim_history(messages, "m000", WIDE, len)
    assert (ids(shown)[0], shown[0].message.role) == ("m006", Role.USER)


@given(
    lengths=st.lists(st.integers(1, 120), min_size=2, max_size=120),
    max_messages=st.integers(2, 20),
    max_tokens=st.integers(240, 1500),
    low_water=st.floats(0.3, 0.9),
)
def test_limits_hold_the_start_is_monotone_and_moves_rarely(lengths, max_messages, max_tokens, low_water):
    config = WindowLimits(max_messages=max_messages, max_tokens=max_tokens, low_water=low_water)
    messages = talk(["x" * length for length in lengths[: len(lengths) // 2 * 2]])
    start, starts = None, []
    for end in range(2, len(messages) + 1, 2):
        loaded = messages[max(0, end - max_messages) : end]
        shown = trim_history(loaded, start, config, len)
        assert shown[-1] is messages[end - 1]
        assert shown == loaded[len(loaded) - len(shown) :]
        assert len(shown) <= max_messages
        assert sum(len(each.message.content) for each in shown) <= max_tokens
        assert shown[0].message.role is Role.USER
        assert trim_history(shown, start, config, len) == shown
        before, start = start, shown[0].message.message_id
        starts.append(start)
        if before is not None and start != before:
            held = [each for each in messages[:end] if each.message.message_id >= before]
            over = len(held) > max_messages or sum(len(each.message.content) + 4 for each in held) > max_tokens
            assert over, "the start moved although everything fitted"
    assert starts == sorted(starts)


def test_a_long_session_moves_its_start_once_in_many_turns():
    messages = talk(["a line of talk"] * 400)
    config = WindowLimits(max_messages=60, max_tokens=3000, low_water=0.6)
    start, moves = None, 0
    for end in range(2, 401, 2):
        shown = trim_history(messages[max(0, end - config.max_messages) : end], start, config, len)
        moves += shown[0].message.message_id != start
        start = shown[0].message.message_id
    assert moves <= 400 / (config.max_messages * (1 - config.low_water)) + 1


async def test_the_newest_turns_stand_whole_in_all_that_the_rest_leaves_and_the_start_moves_in_steps(tmp_path):
    config = RuntimeConfig(profile="story", budget=BudgetConfig(max_input_tokens=3000, reserved_reply_tokens=600))
    starts, used = [], []
    async with open_runtime(tmp_path / "store", embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        for number in range(90):
            turn = await runtime.engine.prepare_turn(
                "s", f"I ask Oda about key number {number} and its door, which stands at the end of the long hall."
            )
            await runtime.engine.commit_assistant_message(
                "s", f"Oda says that key {number} opens the door of room {number}."
            )
            first = next(message.content for message in turn.messages if message.role == "user")
            starts.append(first.removeprefix("<user_input>\n").removesuffix("\n</user_input>"))
            used.append(turn.report.budget.used_tokens)
            assert used[-1] <= 2400
            shown = [message.content for message in turn.messages if message.role != "system"]
            if len(set(starts)) == 1:
                assert len(shown) == 2 * number + 1
    moves = sum(before != after for before, after in pairwise(starts))
    assert 1 <= moves <= 5
    # The first window fills the prompt but for the share of memories, far beyond sixty messages.
    assert max(used) >= 0.8 * 2400
    assert len(set(starts[:35])) == 1


async def test_limits_of_a_host_hold_below_what_would_fit(tmp_path):
    config = RuntimeConfig(profile="story", history=HistoryConfig(max_messages=6))
    async with open_runtime(tmp_path / "store", embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        for number in range(12):
            turn = await runtime.engine.prepare_turn("s", f"I turn page {number}.")
            await runtime.engine.commit_assistant_message("s", f"Page {number} is torn.")
            assert sum(message.role != "system" for message in turn.messages) <= 7
