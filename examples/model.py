"""The model of the examples: a real one where OPENAI_API_KEY is set, else a scripted server on this machine.

OPENAI_BASE_URL names another server of the OpenAI protocol, EXAMPLE_MODEL another model.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI

from jacquard.testing.server import ScriptedServer


@dataclass(frozen=True)
class Model:
    """A client and the name of its model."""

    client: AsyncOpenAI
    name: str

    async def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> Any:
        """Return the message that the model answers."""
        more = {"tools": tools} if tools else {}
        answer = await self.client.chat.completions.create(model=self.name, messages=messages, **more)
        return answer.choices[0].message


@asynccontextmanager
async def open_model(*script: str) -> AsyncIterator[Model]:
    """Give the model; `script` is what the scripted server answers (`jacquard.testing.server`)."""
    if "OPENAI_API_KEY" in os.environ:
        async with AsyncOpenAI() as client:
            yield Model(client, os.environ.get("EXAMPLE_MODEL", "gpt-4o-mini"))
        return
    with ScriptedServer(*script) as server:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none") as client:
            yield Model(client, "scripted")
