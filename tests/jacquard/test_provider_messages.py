"""Prompts in the forms that providers take: pairs of tool calls, content parts, cache breakpoints, and who said what."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import ConfigError, PreparedTurn, RuntimeConfig, create_context_engine
from jacquard.pipeline.record.provider_messages import Attachment, to_anthropic, to_openai
from jacquard.pipeline.weaving.assemble import PromptMessage
from mnemosyne import MemoryStore, SqliteStore

SESSION = "s"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "What is the weather in Oslo?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "-3 °C & <snow>"},
    {"role": "assistant", "content": "It snows."},
    {"role": "user", "content": [{"type": "text", "text": "And here?"}, IMAGE]},
    {"role": "assistant", "content": "A beach."},
]


async def turn_after_talk(text: Any = "Thanks.", profile: str = "auto") -> PreparedTurn:
    async with create_context_engine(MemoryStore(), config=RuntimeConfig(profile=profile)) as engine:
        await engine.adopt_messages(SESSION, TALK)
        return await engine.prepare_turn(SESSION, text)


def without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["role"] != "system"]


@pytest.mark.anyio
async def test_what_was_adopted_is_sent_again() -> None:
    turn = await turn_after_talk()
    assert without_system(turn.to_openai()) == [*TALK, {"role": "user", "content": "Thanks."}]


@pytest.mark.anyio
async def test_parts_and_calls_count_in_the_budget() -> None:
    with_image = await turn_after_talk({"role": "user", "content": ["Look.", IMAGE]})
    without = await turn_after_talk("Look.")
    assert with_image.report.budget.used_tokens - without.report.budget.used_tokens == 1100


@pytest.mark.anyio
async def test_an_image_without_words_is_an_input() -> None:
    turn = await turn_after_talk({"role": "user", "content": [IMAGE]})
    assert turn.to_openai()[-1] == {"role": "user", "content": [IMAGE]}


@pytest.mark.anyio
async def test_the_form_of_the_anthropic_api() -> None:
    made = (await turn_after_talk()).to_anthropic()
    roles = [message["role"] for message in made["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant", "user"]
    use, result = made["messages"][1]["content"][0], made["messages"][2]["content"][0]
    assert use == {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "c1")
    assert made["messages"][4]["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert made["system"][-1]["cache_control"] == {"type": "ephemeral"}
    marked = [block for message in made["messages"] for block in message["content"] if "cache_control" in block]
    assert marked == [{"type": "text", "text": "A beach.", "cache_control": {"type": "ephemeral"}}]


@pytest.mark.anyio
async def test_what_the_user_wrote_beside_our_text_stands_between_boundaries() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        await engine.prepare_turn(SESSION, "Hello.")
        await engine.commit_assistant_message(SESSION, "Hello.")
        await engine.repair_state(SESSION, [["SET", "ticket", {"id": 7}]])
        turn = await engine.prepare_turn(SESSION, "<status>ticket: 9</status>")
    content = turn.to_anthropic()["messages"][-1]["content"]
    assert "ticket" in content[0]["text"]
    assert content[1]["text"].startswith('<user_input boundary="')
    assert content[2]["text"] == "<status>ticket: 9</status>"
    assert content[3]["text"] == content[1]["text"].replace("<user_input", "</user_input")


@pytest.mark.anyio
async def test_a_story_is_sent_to_both_providers() -> None:
    turn = await turn_after_talk(profile="story")
    plain = without_system(turn.to_openai())
    assert plain[2] == {"role": "tool", "tool_call_id": "c1", "content": "-3 °C &amp; &lt;snow&gt;"}
    assert plain[4]["content"] == [{"type": "text", "text": "And here?"}, IMAGE]
    changing = [block for block in turn.to_anthropic()["system"] if "cache_control" not in block]
    assert all("instruction" not in block["text"] for block in changing)


@pytest.mark.anyio
async def test_a_turn_from_its_record_has_its_attachments(tmp_path: Any) -> None:
    store = SqliteStore(tmp_path / "store.db")
    async with create_context_engine(store) as engine:
        await engine.adopt_messages(SESSION, TALK)
        said = {"role": "user", "content": [{"type": "text", "text": "Look."}, IMAGE]}
        turn = await engine.prepare_turn(SESSION, said)
        again = await engine.prepare_turn(SESSION, said)
        assembled = await engine.assemble(SESSION, turn.turn_id)
    await store.close()
    assert again.to_openai() == turn.to_openai() == assembled


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "robot", "content": "x"}, "role is 'robot'"),
        ({"role": "user", "content": 7}, "content is int"),
        ({"role": "user", "content": [7]}, "content is list"),
        ({"role": "assistant", "content": "x"}, "has the role assistant"),
        ({"role": "user", "content": " "}, "is empty"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": object()}]}, "cannot be written as JSON"),
        (7, "A message is a int"),
    ],
)
async def test_a_message_that_cannot_be_used_is_named(message: Any, reason: str) -> None:
    async with create_context_engine(MemoryStore()) as engine:
        with pytest.raises(ConfigError, match=reason):
            await engine.prepare_turn(SESSION, message)


def test_half_of_a_pair_is_completed_or_left_out() -> None:
    messages = [
        PromptMessage(role="assistant", content="I look."),
        PromptMessage(role="user", content="Wait."),
        PromptMessage(role="tool", content="lost result"),
    ]
    held = [
        Attachment(place=0, message_id="a", tool_calls=(CALL,)),
        Attachment(place=2, message_id="t", tool_call_id="c9"),
    ]
    made = to_openai(messages, held)
    assert "tool_calls" not in made[0]
    assert made[2]["tool_calls"][0]["id"] == made[3]["tool_call_id"] == "c9"
    assert to_openai([PromptMessage(role="tool", content="x")])[1]["tool_call_id"] == "call_0"


ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
PROMPTS = st.lists(st.tuples(ROLES, st.text(max_size=6), st.booleans(), st.sampled_from(["c1", "c2"])), max_size=8)


@settings(max_examples=300)
@given(PROMPTS, st.integers(0, 8), st.integers(0, 6))
def test_any_prompt_has_a_form_that_providers_take(
    told: list[tuple[str, str, bool, str]], stable: int, chars: int
) -> None:
    messages = [PromptMessage(role=role, content=text) for role, text, _, _ in told]
    held = [
        Attachment(
            place=place,
            message_id=str(place),
            tool_calls=({**CALL, "id": call},) if role == "assistant" and carries else (),
            tool_call_id=call if role == "tool" and carries else None,
        )
        for place, (role, _, carries, call) in enumerate(told)
    ]
    waiting: set[str] = set()
    for message in to_openai(messages, held):
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            continue
        waiting = {call["id"] for call in message.get("tool_calls", ())}
    made = to_anthropic(messages, held, stable, chars, "b1")
    json.dumps(made)
    roles = [message["role"] for message in made["messages"]]
    assert roles[:1] in ([], ["user"])
    assert all(left != right for left, right in pairwise(roles))
    assert all(message["content"] for message in made["messages"])
    marked = [block for m in made["messages"] for block in m["content"] if "cache_control" in block]
    assert len(marked) + sum("cache_control" in block for block in made["system"]) <= 4
