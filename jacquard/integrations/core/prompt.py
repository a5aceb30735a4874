"""Forms the messages that an adapter puts into a model call. Pure."""

from __future__ import annotations

from itertools import takewhile

from jacquard import PreparedTurn
from jacquard.integrations.core.values import InjectedPrompt, PromptPart
from mnemosyne import Role

SYSTEM = Role.SYSTEM.value


def prompt_of(turn: PreparedTurn, *, system_in_place: bool = False) -> InjectedPrompt:
    """Return the prompt of a prepared turn as the input of a model call: the system messages as one text, then all
    other messages.

    If `system_in_place` is true, only the leading system messages are joined; later system messages keep their places
    among the messages.
    """
    parts = [PromptPart(role=message.role, content=message.content) for message in turn.messages]
    leading = sum(1 for _ in takewhile(lambda part: part.role == SYSTEM, parts))
    joined = {
        place for place, part in enumerate(parts) if part.role == SYSTEM and (place < leading or not system_in_place)
    }
    return InjectedPrompt(
        turn_id=turn.turn_id,
        system="\n\n".join(part.content for place, part in enumerate(parts) if place in joined),
        messages=tuple(part for place, part in enumerate(parts) if place not in joined),
        reply=turn.reply,
    )


def join_system(own: str, prompt: InjectedPrompt) -> str:
    """Return the system text `own` of the agent, followed by the system text of `prompt`."""
    return "\n\n".join(text for text in (own.strip(), prompt.system) if text)
