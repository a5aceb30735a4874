"""The messages that an adapter injects: the one place that decides their shape. Pure."""

from __future__ import annotations

from itertools import takewhile

from jacquard.integrations.core.values import InjectedPrompt, PromptPart
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from mnemosyne.schema.session import Role

SYSTEM = Role.SYSTEM.value


def prompt_of(turn: PreparedTurn) -> InjectedPrompt:
    """Return a prepared turn as an adapter injects it: its leading system messages as one text, then all other messages."""
    parts = [PromptPart(role=message.role, content=message.content) for message in turn.messages]
    leading = list(takewhile(lambda part: part.role == SYSTEM, parts))
    return InjectedPrompt(
        turn_id=turn.turn_id,
        system="\n\n".join(part.content for part in leading),
        messages=tuple(parts[len(leading) :]),
        reply=turn.reply,
    )


def join_system(own: str, prompt: InjectedPrompt) -> str:
    """Return the agent's own system text, followed by ours."""
    return "\n\n".join(text for text in (own.strip(), prompt.system) if text)
