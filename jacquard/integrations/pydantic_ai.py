"""Connects an agent of pydantic-ai with an engine, by a capability.

    agent = Agent(model, capabilities=[ContextCapability(engine)])
    await agent.run("Hello.", conversation_id="s1")

The session has the id of the conversation. A turn is named by the time and text of the user's message, which the
message history keeps. Therefore a run that is continued later (deferred tools) continues its turn. Only the request to
the model is changed, never the history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import find_provider, read_arguments, write_result
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
from mnemosyne import Message, ModelUsage, Role, ToolCall, ToolProvider

# Before 2.64 there was no `prepare_model_request`: it would be overridden and never called.
REQUIREMENT = Requirement(extra="pydantic-ai", distribution="pydantic-ai-slim", floor="2.64")

try:
    from pydantic_ai import DeferredToolRequests, RunContext
    from pydantic_ai import messages as framework
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import SkipModelRequest
    from pydantic_ai.models import ModelRequestContext
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_HOOKS = ("prepare_model_request", "after_model_request", "wrap_tool_execute", "on_event", "after_run", "on_run_error")


class PydanticAIMapper:
    """Converts messages, tool calls and usage of pydantic-ai to values of a session."""

    framework = "pydantic_ai"

    def map_message(self, message: Any) -> Message:
        """Return the prompt of a user, or the text of a response, as a message."""
        if isinstance(message, framework.UserPromptPart):
            return Message(role=Role.USER, content=_prompt_text(message))
        texts = [part.content for part in message.parts if isinstance(part, framework.TextPart)]
        return Message(role=Role.ASSISTANT, content="".join(texts))

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return the tool call of a `ToolCallPart`."""
        return ToolCall(tool_call_id=call.tool_call_id, tool=call.tool_name, args_digest=read_arguments(call.args))

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a `RequestUsage`."""
        return ModelUsage(
            model_usage_id="",
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            total_tokens=usage.input_tokens + usage.output_tokens,
        )


class ContextCapability(AbstractCapability[Any]):
    """Adds the engine's prompt to every model request of an agent, and records the agent's actions.

    `session` is a session id, or a function that returns a session id for the run's `RunContext`. Without `session`,
    the id of the conversation is used. `user` is a user id, or a function that returns a user id. A session that
    belongs to another user is refused. `failure` and `document_tools` are described at `AdapterOptions`. Chunks of
    streamed answers are recorded only by `StreamingContextCapability`. Raises FrameworkError if pydantic-ai is too old
    or lacks a hook.
    """

    def __init__(
        self,
        engine: ContextEngine | SyncEngine,
        *,
        session: str | Callable[[Any], str] | None = None,
        user: str | Callable[[Any], str | None] | None = None,
        failure: FailurePolicy | str = FailurePolicy.OPEN,
        document_tools: Collection[str] = (),
    ) -> None:
        super().__init__()
        version = check_framework(REQUIREMENT, [(AbstractCapability, name) for name in _HOOKS])
        options = AdapterOptions(failure=FailurePolicy(failure), document_tools=frozenset(document_tools))
        self.adapter = ContextAdapter(engine, PydanticAIMapper(), options, version=version)
        self._session, self._user = session, user

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Let all later model requests pass unchanged."""
        self.adapter.detach()

    def session_of(self, ctx: RunContext[Any]) -> str:
        """Return the session id of a run. Raises ConfigError if neither the capability nor the run names a session."""
        session_id = (self._session(ctx) if callable(self._session) else self._session) or ctx.conversation_id
        if not session_id:
            raise ConfigError(
                'The run names no session. Give it a conversation, agent.run(..., conversation_id="..."), or give '
                "ContextCapability session=..."
            )
        return session_id

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with our prompt, followed by the tool calls that the agent made in this turn.

        If the turn has its answer already, raises SkipModelRequest with this answer; pydantic-ai then calls no model.
        """
        if not self.adapter.is_attached:
            return request_context
        parameters = request_context.model_request_parameters
        has_own = bool(parameters.instruction_parts or parameters.function_tools)
        place, prompt_part, request = self._read(ctx, request_context.messages, has_own=has_own)
        tail = request_context.messages[place + 1 :]
        systems = [part for message in request_context.messages for part in _system_parts(message)]
        prompt = await self.adapter.on_before_model_call(self.session_of(ctx), request)
        if prompt is None:
            return request_context
        if prompt.reply is not None:
            raise SkipModelRequest(framework.ModelResponse(parts=[framework.TextPart(prompt.reply)]))
        messages = _inject(prompt, systems, request_context.messages[place], prompt_part, tail)
        # Instructions come after all leading system parts, so ours follow the agent's own among them.
        own = parameters.instruction_parts
        if own:
            added = framework.InstructionPart(content=prompt.system, dynamic=True)
            parameters = replace(parameters, instruction_parts=[*own, added])
        else:
            messages.insert(0, framework.ModelRequest(parts=[*systems, framework.SystemPromptPart(prompt.system)]))
            systems = []
        if systems:
            messages.insert(0, framework.ModelRequest(parts=systems))
        return replace(request_context, messages=messages, model_request_parameters=parameters)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: framework.ModelResponse
    ) -> framework.ModelResponse:
        """Record the usage of a model request."""
        if not self.adapter.is_attached:
            return response
        texts = [part.content for part in response.parts if isinstance(part, framework.TextPart)]
        answer = ModelAnswer(
            text="".join(texts),
            tool_calls=sum(isinstance(part, framework.ToolCallPart) for part in response.parts),
            model=response.model_name or "",
            provider=response.provider_name or "",
        )
        await self.adapter.on_after_model_call(self.session_of(ctx), answer, response.usage)
        return response

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Run a tool and record the call. An error of the tool is raised unchanged."""
        if not self.adapter.is_attached:
            return await handler(args)
        session_id, provider = self.session_of(ctx), _provider_of(ctx, call.tool_name)
        # An interrupted run continues with its tools.
        await self.adapter.on_user_message(session_id, self._read(ctx, ctx.messages, has_own=True)[2])
        await self.adapter.on_tool_call_start(session_id, call)
        try:
            result = await handler(args)
        except Exception as error:
            await self.adapter.on_tool_call_end(session_id, call, ToolOutcome(error=error), provider=provider)
            raise
        outcome = ToolOutcome(result=_tool_value(result))
        await self.adapter.on_tool_call_end(session_id, call, outcome, provider=provider)
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        """Commit the final answer. A run that waits for an approval or for external tools has no final answer yet."""
        output = result.output
        if isinstance(output, DeferredToolRequests) or not self.adapter.is_attached:
            return result
        text = output if isinstance(output, str) else write_result(output) or str(output)
        await self.adapter.on_turn_end(self.session_of(ctx), text)
        return result

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:
        """Drop the turn of a run that failed, and raise the error again."""
        if self.adapter.is_attached:
            await self.adapter.on_turn_failed(self.session_of(ctx))
        raise error

    def _read(self, ctx: RunContext[Any], messages: Sequence[Any], *, has_own: bool) -> tuple[int, Any, ModelRequest]:
        """Return the place of the user's message, the prompt in it, and the request for its messages."""
        place, prompt_part = _find_user(messages, ctx.run_id)
        request = ModelRequest(
            turn_key=_key_of(prompt_part),
            user=self.adapter.map_message(prompt_part),
            history=tuple(message for each in messages[:place] for message in self._history_of(each)),
            tail=tuple(plain for message in messages[place + 1 :] for plain in _to_plain(message)),
            is_bare=not has_own and not any(map(_system_parts, messages)),
            user_id=self._user(ctx) if callable(self._user) else self._user,
        )
        return place, prompt_part, request

    def _history_of(self, message: Any) -> list[Message]:
        if isinstance(message, framework.ModelResponse):
            said = self.adapter.map_message(message)
            return [said] if said.content else []
        return [self.adapter.map_message(part) for part in message.parts if isinstance(part, framework.UserPromptPart)]


class StreamingContextCapability(ContextCapability):
    """`ContextCapability` that also passes chunks of the answer to the engine while they arrive.

    With this capability, pydantic-ai streams every run, even if the caller does not ask for a stream.
    """

    async def on_event(self, ctx: RunContext[Any], *, event: Any) -> None:
        """Record a chunk of the answer."""
        if not self.adapter.is_attached:
            return
        if isinstance(event, framework.PartStartEvent) and isinstance(event.part, framework.TextPart):
            await self.adapter.on_chunk(self.session_of(ctx), event.part.content)
        elif isinstance(event, framework.PartDeltaEvent) and isinstance(event.delta, framework.TextPartDelta):
            await self.adapter.on_chunk(self.session_of(ctx), event.delta.content_delta)


def _find_user(messages: Sequence[Any], run_id: str | None) -> tuple[int, Any]:
    """Return the place of the message that the run answers, and the prompt in it: the first of this run, else the last of all.

    Raises ConfigError if there is none.
    """
    found = [
        (place, part, message.run_id)
        for place, message in enumerate(messages)
        if isinstance(message, framework.ModelRequest)
        for part in message.parts
        if isinstance(part, framework.UserPromptPart)
    ]
    if not found:
        raise ConfigError("The run has no prompt of the user, with which a turn begins.")
    place, part, _ = next((each for each in found if run_id is not None and each[2] == run_id), found[-1])
    return place, part


def _key_of(part: Any) -> str:
    words = f"{part.timestamp.isoformat()}\0{_prompt_text(part)}"
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


def _inject(
    prompt: InjectedPrompt, systems: Sequence[Any], original: Any, prompt_part: Any, tail: Sequence[Any]
) -> list[Any]:
    """Return our history and the user's message with our text, then the tail; the user's images and files stay."""
    *earlier, user = prompt.messages
    messages: list[Any] = [_to_message(part.role, part.content) for part in earlier]
    held = prompt_part.content
    others = [] if isinstance(held, str) else [each for each in held if not isinstance(each, str)]
    asked = replace(prompt_part, content=[user.content, *others] if others else user.content)
    parts = [asked if part is prompt_part else part for part in original.parts if part not in systems]
    return [*messages, replace(original, parts=parts), *(_without_systems(message) for message in tail)]


def _without_systems(message: Any) -> Any:
    parts = _system_parts(message)
    return replace(message, parts=[part for part in message.parts if part not in parts]) if parts else message


def _system_parts(message: Any) -> list[Any]:
    if not isinstance(message, framework.ModelRequest):
        return []
    return [part for part in message.parts if isinstance(part, framework.SystemPromptPart)]


def _to_message(role: str, content: str) -> Any:
    if role == Role.ASSISTANT.value:
        return framework.ModelResponse(parts=[framework.TextPart(content)])
    kind = framework.SystemPromptPart if role == Role.SYSTEM.value else framework.UserPromptPart
    return framework.ModelRequest(parts=[kind(content)])


def _prompt_text(part: Any) -> str:
    if isinstance(part.content, str):
        return part.content
    texts = [each if isinstance(each, str) else getattr(each, "content", None) for each in part.content]
    found = [text for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else " ".join(f"[{type(each).__name__}]" for each in part.content)


def _provider_of(ctx: RunContext[Any], tool_name: str) -> ToolProvider | None:
    """Return the provider of a tool: the module of its function, or the toolset and its name, as for an MCP server."""
    tools = ctx.tool_manager.tools if ctx.tool_manager is not None else None
    tool = (tools or {}).get(tool_name)
    toolset: Any = getattr(tool, "source_toolset", None) or getattr(tool, "toolset", None)
    while hasattr(toolset, "wrapped"):
        toolset = toolset.wrapped
    own = getattr(toolset, "tools", None)
    made = own.get(tool_name) if isinstance(own, dict) else None
    return find_provider(getattr(made, "function", None), toolset, name=_server_of(toolset))


def _server_of(toolset: Any) -> str:
    """Return the name of an MCP server: the id of its toolset, else the name that the server itself states."""
    if not hasattr(toolset, "server_info"):
        return ""
    try:
        return str(toolset.id or toolset.server_info.name)
    except AttributeError:  # The server has not stated it.
        return ""


def _tool_value(result: Any) -> Any:
    """Return a tool's result as a text or as JSON if possible, for example the fields of a model or a dataclass."""
    value = getattr(result, "return_value", result) if isinstance(result, framework.ToolReturn) else result
    if write_result(value) is not None:
        return value
    try:
        return framework.tool_return_ta.dump_python(value, mode="json")
    except (ValueError, TypeError):
        return value


def _to_plain(message: Any) -> list[dict[str, Any]]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    if isinstance(message, framework.ModelResponse):
        texts = [part.content for part in message.parts if isinstance(part, framework.TextPart)]
        calls = [
            {"id": part.tool_call_id, "function": {"name": part.tool_name, "arguments": part.args_as_json_str()}}
            for part in message.parts
            if isinstance(part, framework.ToolCallPart)
        ]
        return [{"role": "assistant", "content": "".join(texts), **({"tool_calls": calls} if calls else {})}]
    plain: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, framework.ToolReturnPart):
            plain.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()})
        elif isinstance(part, framework.RetryPromptPart):
            text = part.model_response()
            answers = {"role": "tool", "tool_call_id": part.tool_call_id} if part.tool_name else {"role": "user"}
            plain.append({**answers, "content": text})
        elif isinstance(part, framework.UserPromptPart):
            plain.append({"role": "user", "content": _prompt_text(part)})
    return plain
