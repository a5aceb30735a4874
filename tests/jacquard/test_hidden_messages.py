"""Messages that an imported chat hides: no prompt, summary or memory is made of them, and what is around them is told."""

from __future__ import annotations

import pytest

from jacquard import HistoryConfig, RuntimeConfig, open_runtime
from mnemosyne import Message, Role, SessionStart
from mnemosyne.chains.audience import NOBODY, audience_field, audience_of_messages, told_messages
from mnemosyne.schema.record import ImportedTurn

pytestmark = pytest.mark.anyio

SECRET = "The thief is Bo."


def turn(number: int) -> ImportedTurn:
    hidden = Message(role=Role.ASSISTANT, content=SECRET, extra=audience_field(NOBODY))
    said = (
        Message(role=Role.USER, content=f"Where is lamp {number}?"),
        Message(role=Role.ASSISTANT, content=f"Lamp {number} hangs in the well."),
    )
    return ImportedTurn(turn_id=f"t{number}", messages=(*said, *((hidden,) if number == 2 else ())))


async def test_no_prompt_and_no_summary_has_it(tmp_path) -> None:
    config = RuntimeConfig(
        profile="assistant",
        history=HistoryConfig(max_messages=6, low_water=0.5),
    )
    async with open_runtime(str(tmp_path / "s"), embedder="none", config=config) as runtime:
        turns = tuple(turn(number) for number in range(12))
        await runtime.store.create_session(
            SessionStart(session_id="s", world_id="bare", locale="en", state={}, turns=turns)
        )
        prompts = []
        for text in ("And the thief?", "Who is the thief?", "Bo?"):
            prepared = await runtime.engine.prepare_turn("s", text)
            prompts.append("\n".join(message.content for message in prepared.messages))
            await runtime.engine.commit_assistant_message("s", "<content>Hm.</content>", turn_id=prepared.turn_id)
        await runtime.engine.settle(10)
        assert all(SECRET not in prompt for prompt in prompts)
        window = await runtime.store.window("s", message_limit=100)
        assert any(placed.message.content == SECRET for placed in window.messages), "it is kept"
        assert window.summary is not None
        assert SECRET not in window.summary.summary.content
        assert "viewers" not in window.summary.summary.extra, "the summary is for everyone"


def test_what_is_told_of_a_turn_is_for_those_who_know_the_rest() -> None:
    messages = turn(2).messages
    assert [message.content for message in told_messages(messages)] == [message.content for message in messages[:2]]
    assert audience_of_messages(told_messages(messages)) == ()
    assert audience_of_messages(messages) == NOBODY
