"""An agent loop in sixty lines, with an adapter as a framework would call it: it is held to the contract without any framework."""

from __future__ import annotations

import inspect
import json
import urllib.request
from dataclasses import replace
from functools import partial

import anyio

from jacquard.integrations import AdapterOptions, ContextAdapter, ModelAnswer, ModelRequest, ToolOutcome
from jacquard.testing.framework import AgentSetup
from mnemosyne import Message, ModelUsage, Role, ToolCall


class ToyMapper:
    framework = "toy"

    def map_message(self, message):
        return Message(role=Role(message["role"]), content=message["content"])

    def map_tool_call(self, call):
        function = call["function"]
        return ToolCall(tool_call_id=call["id"], tool=function["name"], args_digest=json.loads(function["arguments"]))

    def map_model_usage(self, usage):
        return ModelUsage(
            model_usage_id="", prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"]
        )


class ToyAgent:
    """Keeps a list of messages for each session, and calls the model until it calls no tool."""

    def __init__(self, setup: AgentSetup, kept=None):
        self.setup, self.kept = setup, {} if kept is None else kept
        options = AdapterOptions(failure=setup.failure)
        self.adapter = None if setup.engine is None else ContextAdapter(setup.engine, ToyMapper(), options)
        self.tools = {tool.__name__: tool for tool in setup.tools}

    async def run(self, session_id, text, *, stream=False):
        messages = self.kept.setdefault(session_id, [])
        place, key = len(messages), f"message {len(messages)}"
        messages.append({"role": "user", "content": text})
        while (said := await self.call(session_id, key, place, stream=stream)).get("tool_calls"):
            for call in said["tool_calls"]:
                await self.use_tool(session_id, call)
        if self.adapter is not None:
            await self.adapter.on_turn_end(session_id, said["content"], turn_key=key)
        return said["content"]

    async def call(self, session_id, key, place, *, stream):
        messages, own = self.kept[session_id], {"role": "system", "content": self.setup.system}
        sent, prompt = [own, *messages], None
        if self.adapter is not None:
            spoken = [m for m in messages[:place] if m["role"] in ("user", "assistant") and m["content"]]
            request = ModelRequest(
                turn_key=key,
                user=self.adapter.map_message(messages[place]),
                history=tuple(map(self.adapter.map_message, spoken)),
                tail=tuple(messages[place + 1 :]),
                user_id=self.setup.user_id,
            )
            prompt = await self.adapter.on_before_model_call(session_id, request)
        if prompt is not None and prompt.reply is not None:
            return {"content": prompt.reply}
        if prompt is not None:
            ours = [{"role": part.role, "content": part.content} for part in prompt.messages]
            system = {"role": "system", "content": f"{own['content']}\n\n{prompt.system}"}
            sent = [system, *ours, *messages[place + 1 :]]
        said, usage, chunks = await anyio.to_thread.run_sync(partial(self.post, sent, stream=stream))
        messages.append(said)
        if self.adapter is not None:
            for chunk in chunks:
                await self.adapter.on_chunk(session_id, chunk, turn_key=key)
            answer = ModelAnswer(text=said["content"] or "", tool_calls=len(said.get("tool_calls", ())))
            await self.adapter.on_after_model_call(session_id, answer, usage, turn_key=key)
        return said

    def post(self, messages, *, stream):
        tools = [{"type": "function", "function": {"name": name}} for name in self.tools]
        body = {"model": "toy", "messages": messages, "tools": tools, "stream": stream}
        if stream:
            body["stream_options"] = {"include_usage": True}
        address = f"{self.setup.base_url}/chat/completions"
        request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            if not stream:
                answer = json.load(response)
                return answer["choices"][0]["message"], answer.get("usage"), []
            lines = [line.decode().removeprefix("data: ") for line in response if line.startswith(b"data: {")]
        events = [json.loads(line) for line in lines]
        deltas = [choice["delta"] for event in events for choice in event["choices"]]
        chunks = [delta["content"] for delta in deltas if delta.get("content")]
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        said = {"role": "assistant", "content": "".join(chunks), **({"tool_calls": calls} if calls else {})}
        return said, next((event["usage"] for event in events if "usage" in event), None), chunks

    async def use_tool(self, session_id, call):
        tool = self.tools[call["function"]["name"]]
        if self.adapter is not None:
            await self.adapter.on_tool_call_start(session_id, call)
        try:
            result = tool(**json.loads(call["function"]["arguments"]))
            outcome = ToolOutcome(result=await result if inspect.isawaitable(result) else result)
        except Exception as error:
            result, outcome = f"It failed: {error}", ToolOutcome(error=error)
        if self.adapter is not None:
            await self.adapter.on_tool_call_end(session_id, call, outcome)
        text = result if isinstance(result, str) else str(result)
        self.kept[session_id].append({"role": "tool", "tool_call_id": call["id"], "content": text})

    async def stream(self, session_id, text):
        return await self.run(session_id, text, stream=True)

    def run_blocking(self, session_id, text):
        return anyio.run(self.run, session_id, text)

    async def stored(self, session_id):
        return [(message["role"], str(message["content"])) for message in self.kept[session_id]]

    def without_adapter(self):
        return ToyAgent(replace(self.setup, engine=None), self.kept)
