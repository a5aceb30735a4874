"""A small model in this process that answers from a script; one over HTTP is in `openai_server`."""

from __future__ import annotations

import json

import anyio

from jacquard import LlmResponse


class ScriptedModel:
    """Answers in turn: a text, an object (as JSON), an error to raise, `hang`, or a function of the request's text.

    The last step stands for all later calls.
    """

    model = "scripted/small"

    def __init__(self, *steps):
        self.steps, self.requests = list(steps), []

    @property
    def asked(self):
        """The text of each request."""
        return ["\n".join(text for _, text in each.messages) for each in self.requests]

    async def warm(self):
        return None

    async def close(self):
        return None

    async def generate(self, request):
        self.requests.append(request)
        step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        if isinstance(step, Exception):
            raise step
        if step == "hang":
            await anyio.sleep_forever()
        step = step(self.asked[-1]) if callable(step) else step
        text = step if isinstance(step, str) else json.dumps(step, ensure_ascii=False)
        return LlmResponse(content=text, model=self.model, prompt_tokens=120, completion_tokens=30)
