"""Connects runs of the OpenAI Agents SDK with an engine, by the options of a run.

    context = RunContextAdapter(engine)
    result = await Runner.run(agent, "Hello.", session=session, **context.run_options("s1"))

Only the input of a model call is changed (`call_model_input_filter`), never the SDK's session. Do not use the adapter
with conversations that the provider stores (`conversation_id`, `previous_response_id`), because every input becomes a
part of such a conversation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any
from uuid import uuid4

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import find_provider, is_text_part, read_arguments, read_text, write_result
from jacquard.integrations.core.prompt import join_system
from jacquard.integrations.core.requirements import Requirement, check_framework, explain_missing
from jacquard.integrations.core.values import (
    AdapterOptions,
    AdapterReport,
    FailurePolicy,
    InjectedPrompt,
    ModelAnswer,
    ModelRequest,
    ToolOutcome,
)
from jacquard.sync import SyncEngine
from mnemosyne import Author, AuthorKind, Message, ModelUsage, ProviderKind, Role, ToolCall, ToolProvider
from mnemosyne.core.optional_packages import silence

REQUIREMENT = Requirement(extra="openai-agents", distribution="openai-agents", floor="0.24")

silence("agents")
try:
    from agents import FunctionTool, RunConfig, RunHooks
    from agents.run import CallModelData, ModelInputData
    from agents.tool import get_function_tool_origin
    from agents.tool_context import ToolContext
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_HOOKS = ("on_llm_end", "on_tool_start", "on_tool_end", "on_agent_end")
_OPTIONS = ("call_model_input_filter", "tool_error_formatter")
_DELTA = "response.output_text.delta"


class OpenAIAgentsMapper:
    """Converts input items, tool calls and usage of the Agents SDK to values of a session."""

    framework = "openai_agents"

    def map_message(self, message: Any) -> Message:
        """Return an input item that has a role as a message."""
        role = Role.ASSISTANT if message.get("role") == "assistant" else Role.USER
        return Message(role=role, content=read_text(message.get("content")))

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return the tool call of a `ToolContext`."""
        arguments = read_arguments(call.tool_arguments)
        return ToolCall(tool_call_id=call.tool_call_id, tool=call.tool_name, args_digest=arguments)

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a `Usage`."""
        return ModelUsage(
            model_usage_id="",
            prompt_tokens=usage.input_tokens or 0,
            completion_tokens=usage.output_tokens or 0,
            total_tokens=usage.total_tokens or 0,
        )


class RunContextAdapter:
    """Makes the options of runs. In a run with these options, model calls get the engine's prompt and the agents'
    actions are recorded.

    `failure` and `document_tools` are described at `AdapterOptions`. Raises FrameworkError if the SDK is too old or
    lacks a hook.
    """

    def __init__(
        self,
        engine: ContextEngine | SyncEngine,
        *,
        failure: FailurePolicy | str = FailurePolicy.OPEN,
        document_tools: Collection[str] = (),
    ) -> None:
        hooks = [(RunHooks, name) for name in _HOOKS] + [(RunConfig, name) for name in _OPTIONS]
        version = check_framework(REQUIREMENT, hooks)
        options = AdapterOptions(failure=FailurePolicy(failure), document_tools=frozenset(document_tools))
        self.adapter = ContextAdapter(engine, OpenAIAgentsMapper(), options, version=version)

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Let all later model calls pass unchanged."""
        self.adapter.detach()

    def run_options(
        self,
        session_id: str,
        *,
        run_config: RunConfig | None = None,
        hooks: RunHooks[Any] | None = None,
        user_id: str | None = None,
        turn_key: str | None = None,
    ) -> dict[str, Any]:
        """Return the keyword arguments `run_config` and `hooks` for one run of `Runner`.

        Your own `run_config` and `hooks` are kept and called as well. If a run continues after an interruption, give
        both runs the same `turn_key`, so that they are one turn. `user_id` is the id of the user (None: unknown).
        """
        run = ContextRun(self.adapter, session_id, turn_key or uuid4().hex, user_id, run_config, hooks)
        return {"run_config": run.run_config, "hooks": run}

    async def listen(self, options: dict[str, Any], events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the events of a streamed run unchanged, and pass the chunks of the answer to the engine.

        `options` are the options of the run: `context.listen(options, result.stream_events())`.
        """
        run: ContextRun = options["hooks"]
        async for event in events:
            data: Any = getattr(event, "data", None)
            if getattr(data, "type", "") == _DELTA:
                await self.adapter.on_chunk(run.session_id, data.delta, turn_key=run.turn_key)
            yield event


class ContextRun(RunHooks[Any]):
    """Filter of model inputs and hooks for one run. `RunContextAdapter.run_options` makes it."""

    def __init__(
        self,
        adapter: ContextAdapter,
        session_id: str,
        turn_key: str,
        user_id: str | None,
        run_config: RunConfig | None,
        hooks: RunHooks[Any] | None,
    ) -> None:
        self.session_id, self.turn_key = session_id, turn_key
        self._adapter, self._user_id, self._hooks = adapter, user_id, hooks or RunHooks[Any]()
        given = run_config or RunConfig()
        self._filter, self._formatter = given.call_model_input_filter, given.tool_error_formatter
        self._user_place: int | None = None
        self._errors: dict[str, Exception] = {}
        self.run_config = replace(given, call_model_input_filter=self._inject, tool_error_formatter=self._note_error)

    async def _inject(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input of a model call with our prompt, after the host's own filter."""
        given = data.model_data
        if self._filter is not None:
            filtered = self._filter(data)
            given = await filtered if isawaitable(filtered) else filtered
        if not self._adapter.is_attached:
            return given
        items = list(given.input)
        place = self._find_user(items)
        user, before, tail = items[place], items[:place], items[place + 1 :]
        systems = [item for item in before if item.get("role") in ("system", "developer")]
        own = "\n\n".join(
            text for text in (given.instructions or "", *(read_text(i["content"]) for i in systems)) if text
        )
        history = (self._adapter.map_message(item) for item in before if item.get("role") in ("user", "assistant"))
        request = ModelRequest(
            turn_key=self.turn_key,
            user=self._adapter.map_message(user),
            history=tuple(message for message in history if message.content),
            tail=tuple(plain for item in tail if (plain := _to_plain(item)) is not None),
            is_bare=not (own or data.agent.tools or data.agent.handoffs),
            user_id=self._user_id,
            agent=data.agent.name if self._is_one_of_several(data.agent) else "",
        )
        prompt = await self._adapter.on_before_model_call(self.session_id, request)
        if prompt is None:
            return given
        if prompt.reply is not None:
            await self._adapter.on_reply_unused(self.session_id, turn_key=self.turn_key)
        return ModelInputData(input=[*_inject(prompt, user), *tail], instructions=join_system(own, prompt))

    def _find_user(self, items: Sequence[Any]) -> int:
        """Return the place of the message that the run answers, the last user message of its first call; raises ConfigError for
        none.
        """
        place = self._user_place
        if place is None or place >= len(items) or items[place].get("role") != "user":
            place = next((n for n in reversed(range(len(items))) if items[n].get("role") == "user"), None)
        if place is None:
            raise ConfigError("The input of the run contains no message of the user, with which a turn begins.")
        self._user_place = place
        return place

    async def _note_error(self, args: Any) -> str | None:
        """Record the error of a tool; the text that the model reads is the host's or the SDK's."""
        if args.error is not None:
            self._errors[args.call_id] = args.error
        if self._formatter is None:
            return None
        text = self._formatter(args)
        return await text if isawaitable(text) else text

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Record the usage of a model call."""
        calls = [item for item in response.output if item.type == "function_call"]
        model = agent.model if isinstance(agent.model, str) else str(getattr(agent.model, "model", "") or "")
        usage = response.usage if response.usage.total_tokens else None
        answer = ModelAnswer(tool_calls=len(calls), model=model)
        await self._adapter.on_after_model_call(self.session_id, answer, usage, turn_key=self.turn_key)
        await self._hooks.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Record the start of a tool call."""
        if isinstance(context, ToolContext):
            await self._adapter.on_tool_call_start(self.session_id, context, turn_key=self.turn_key)
        await self._hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Record a tool call with its result or error."""
        if isinstance(context, ToolContext):
            failed = self._errors.pop(context.tool_call_id, None)
            outcome = ToolOutcome(result=result) if failed is None else ToolOutcome(error=failed)
            await self._adapter.on_tool_call_end(
                self.session_id, context, outcome, turn_key=self.turn_key, provider=_provider_of(tool)
            )
        await self._hooks.on_tool_end(context, agent, tool, result)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Commit the final answer. If several agents take part, the answer has the name of its agent."""
        text = output if isinstance(output, str) else _write_output(output)
        author = Author(kind=AuthorKind.AGENT, id=agent.name) if self._is_one_of_several(agent) else None
        reply = Message(role=Role.ASSISTANT, content=text, author=author)
        await self._adapter.on_turn_end(self.session_id, reply, turn_key=self.turn_key)
        await self._hooks.on_agent_end(context, agent, output)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """Call the host's own hook."""
        await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Call the host's own hook."""
        await self._hooks.on_agent_start(context, agent)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Note that several agents take part in the run."""
        self._was_handed_off = True
        await self._hooks.on_handoff(context, from_agent, to_agent)

    _was_handed_off = False

    def _is_one_of_several(self, agent: Any) -> bool:
        return self._was_handed_off or bool(agent.handoffs)


def _inject(prompt: InjectedPrompt, user: Any) -> list[Any]:
    """Return our messages as input items; the images and files of the user's message stay."""
    *earlier, asked = prompt.messages
    content = user.get("content")
    others = [part for part in content if not is_text_part(part)] if isinstance(content, list) else []
    text = [{"type": "input_text", "text": asked.content}, *others] if others else asked.content
    return [*({"role": part.role, "content": part.content} for part in earlier), {**user, "content": text}]


def _to_plain(item: Any) -> dict[str, Any] | None:
    """Return an item of the tail in OpenAI's form, to check its cost and its pairs; None for others."""
    if item.get("type") == "function_call":
        call = {"id": item["call_id"], "function": {"name": item["name"], "arguments": item["arguments"]}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if item.get("type") == "function_call_output":
        return {"role": "tool", "tool_call_id": item["call_id"], "content": read_text(item["output"])}
    if "role" in item:
        return {"role": str(item["role"]), "content": read_text(item.get("content"))}
    return None


def _provider_of(tool: Any) -> ToolProvider | None:
    """Return the provider of a tool: its MCP server, the agent that it is, or the module of its function."""
    origin = get_function_tool_origin(tool) if isinstance(tool, FunctionTool) else None
    server = origin.mcp_server_name if origin is not None else None
    if server:
        return ToolProvider(kind=ProviderKind.MCP, name=server)
    if origin is not None and origin.agent_name:
        return ToolProvider(kind=ProviderKind.BUILTIN, name=origin.agent_name)
    return find_provider(getattr(tool, "__wrapped__", None), tool)


def _write_output(output: Any) -> str:
    plain = output.model_dump(mode="json") if hasattr(output, "model_dump") else output
    return write_result(plain) or str(output)
