"""Connects agents and agent workflows of LlamaIndex with an engine, and offers the engine's memory as a retriever.

    agent = FunctionAgent(tools=[...], llm=llm)
    attachment = attach(agent, engine, session="s1")
    await agent.run("Hello.")

Without `session`, the tag `session_id` of `instrument_tags` names the session. Only the input of a model call is
changed, never the memory of the agent.
"""

from __future__ import annotations

import json
from asyncio import wrap_future
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from time import perf_counter
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import document_from, find_provider, read_arguments, write_result
from jacquard.integrations.core.prompt import join_system
from jacquard.integrations.core.recall import RecalledText, SessionRecall
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
from mnemosyne import Author, AuthorKind, Message, ModelUsage, Role, ToolCall, ToolProvider
from mnemosyne.values import dataclass

REQUIREMENT = Requirement(extra="llamaindex", distribution="llama-index-core", floor="0.14.25")

try:
    from llama_index.core.agent.workflow import AgentOutput, AgentStream, AgentWorkflow, BaseWorkflowAgent
    from llama_index.core.base.llms.types import ChatMessage, TextBlock
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index_instrumentation.dispatcher import active_instrument_tags
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_STEPS = ("take_step", "handle_tool_call_results", "finalize")
_HANDOFF = "handoff"


class LlamaIndexMapper:
    """Converts messages, tool calls and usage of LlamaIndex to values of a session."""

    framework = "llamaindex"

    def map_message(self, message: Any) -> Message:
        """Return a `ChatMessage` with its role and text."""
        role = Role.ASSISTANT if message.role.value == "assistant" else Role.USER
        return Message(role=role, content=_text_of(message))

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return the tool call of a `ToolCallResult`, with its duration."""
        result = call.result
        return ToolCall(
            tool_call_id=result.tool_id,
            tool=result.tool_name,
            args_digest=read_arguments(result.tool_kwargs),
            duration_ms=call.duration_ms,
            provider=call.provider,
        )

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a raw answer. They may have the names of OpenAI's or Anthropic's API."""
        asked = usage.get("prompt_tokens") or usage.get("input_tokens") or 0
        answered = usage.get("completion_tokens") or usage.get("output_tokens") or 0
        total = usage.get("total_tokens") or asked + answered
        return ModelUsage(model_usage_id="", prompt_tokens=asked, completion_tokens=answered, total_tokens=total)


@dataclass(frozen=True, slots=True)
class _TimedCall:
    result: Any
    duration_ms: int
    provider: ToolProvider | None


@dataclass(slots=True)
class _Run:
    """Run in a workflow's context: the message that it answers, and its session."""

    session_id: str
    said: str
    key: str


class Attachment:
    """Connection between an agent and an engine, made by `attach`. `detach` ends it."""

    def __init__(
        self,
        agent: BaseWorkflowAgent | AgentWorkflow,
        engine: ContextEngine | SyncEngine,
        session: str | Callable[[Any], str] | None,
        user: str | Callable[[Any], str | None] | None,
        options: AdapterOptions,
    ) -> None:
        agents = list(agent.agents.values()) if isinstance(agent, AgentWorkflow) else [agent]
        hooks = [(each, name) for each in agents for name in _STEPS] + [(agent, "_call_tool")]
        version = check_framework(REQUIREMENT, hooks)
        self.adapter = ContextAdapter(
            engine, LlamaIndexMapper(), options, version=version, restore=lambda: _restore([agent, *agents])
        )
        self._session, self._user, self._has_several = session, user, len(agents) > 1
        self._runs: WeakKeyDictionary[Any, _Run] = WeakKeyDictionary()
        self._done: dict[int, tuple[Any, int, ToolProvider | None]] = {}
        for each in agents:
            _replace(each, "take_step", self._take_step)
            _replace(each, "handle_tool_call_results", self._handle_results)
            _replace(each, "finalize", self._finalize)
        _replace(agent, "_call_tool", self._call_tool)

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Give the agents their own methods back."""
        self.adapter.detach()

    async def _take_step(self, agent: Any, own: Any, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> Any:
        """Take a step with our prompt before the messages of the run."""
        place = next((n for n in reversed(range(len(llm_input))) if llm_input[n].role.value == "user"), None)
        if place is None:
            raise ConfigError("The input of the agent contains no message of the user, with which a turn begins.")
        user, before, tail = llm_input[place], llm_input[:place], llm_input[place + 1 :]
        run = await self._run_of(ctx, user)
        scratchpad = await ctx.store.get(getattr(agent, "scratchpad_key", "scratchpad"), default=[])
        systems = [message for message in before if message.role.value == "system"]
        history = (self.adapter.map_message(each) for each in before if each.role.value in ("user", "assistant"))
        request = ModelRequest(
            turn_key=run.key,
            user=Message(role=Role.USER, content=run.said),
            history=tuple(message for message in history if message.content),
            tail=tuple(_to_plain(message) for message in [*tail, *scratchpad] if isinstance(message, ChatMessage)),
            is_bare=not (systems or tools),
            user_id=self._user(ctx) if callable(self._user) else self._user,
            agent=agent.name if self._has_several else "",
        )
        prompt = await self.adapter.on_before_model_call(run.session_id, request)
        if prompt is None:
            return await own(ctx, llm_input, tools, memory)
        if prompt.reply is not None:
            return await _answer(agent, ctx, prompt.reply)
        tap = _StreamTap(
            ctx, lambda text: self.adapter.submit(self.adapter.on_chunk, run.session_id, text, turn_key=run.key)
        )
        output = await own(tap, [*_inject(prompt, systems, user, run.said), *tail], tools, memory)
        await tap.drain()
        raw = output.raw if isinstance(output.raw, dict) else {}
        answer = ModelAnswer(tool_calls=len(output.tool_calls), model=str(raw.get("model") or ""))
        await self.adapter.on_after_model_call(run.session_id, answer, raw.get("usage") or None, turn_key=run.key)
        return output

    async def _call_tool(self, agent: Any, own: Any, ctx: Any, tool: Any, tool_input: Any) -> Any:
        """Measure the duration of a tool, and note its provider."""
        since = perf_counter()
        output = await own(ctx, tool, tool_input)
        provider = find_provider(getattr(tool, "_real_fn", None), tool)
        self._done[id(output)] = (output, round((perf_counter() - since) * 1000), provider)
        return output

    async def _handle_results(self, agent: Any, own: Any, ctx: Any, results: Any, memory: Any) -> None:
        """Record the tool calls of a step."""
        run = self._runs.get(ctx.store)
        for result in results if run is not None else ():
            output = result.tool_output
            _, duration_ms, provider = self._done.pop(id(output), (None, 0, None))
            failed = output.exception or str(output.content) or "failed"
            outcome = ToolOutcome(error=failed) if output.is_error else ToolOutcome(result=_raw_of(output))
            if result.tool_name != _HANDOFF:
                assert run is not None
                call = _TimedCall(result, duration_ms, provider)
                await self.adapter.on_tool_call_end(run.session_id, call, outcome, turn_key=run.key)
        await own(ctx, results, memory)

    async def _finalize(self, agent: Any, own: Any, ctx: Any, output: Any, memory: Any) -> Any:
        """Commit the final answer; a handoff to another agent is not final."""
        done = await own(ctx, output, memory)
        run = self._runs.get(ctx.store)
        if run is not None and not (output.tool_calls and output.tool_calls[-1].tool_name == _HANDOFF):
            del self._runs[ctx.store]
            author = Author(kind=AuthorKind.AGENT, id=agent.name) if self._has_several else None
            reply = Message(role=Role.ASSISTANT, content=_text_of(done.response), author=author)
            await self.adapter.on_turn_end(run.session_id, reply, turn_key=run.key)
        return done

    async def _run_of(self, ctx: Any, user: Any) -> _Run:
        """Return the run of a context; another user message begins another run."""
        said = await ctx.store.get("user_msg_str", default=None) or _text_of(user)
        run = self._runs.get(ctx.store)
        if run is None or run.said != said:
            run = _Run(self._session_of(ctx), said, uuid4().hex)
            self._runs[ctx.store] = run
        return run

    def _session_of(self, ctx: Any) -> str:
        named = self._session(ctx) if callable(self._session) else self._session
        session_id = named or active_instrument_tags.get().get("session_id")
        if not session_id:
            raise ConfigError(
                'The run names no session. Give attach session=..., or run the agent in instrument_tags({"session_id": ...}).'
            )
        return str(session_id)


def attach(
    agent: BaseWorkflowAgent | AgentWorkflow,
    engine: ContextEngine | SyncEngine,
    *,
    session: str | Callable[[Any], str] | None = None,
    user: str | Callable[[Any], str | None] | None = None,
    failure: FailurePolicy | str = FailurePolicy.OPEN,
    document_tools: Collection[str] = (),
    record_chunks: bool = True,
    system_in_place: bool = False,
) -> Attachment:
    """Add the engine's prompt to every model call of `agent`, and record its replies and tool calls. If `agent` is a
    workflow, do so for all agents of the workflow.

    `session` and `user` are ids, or functions that return the id for the context of a run. `failure` and the other
    options are described at `AdapterOptions`. Raises FrameworkError if LlamaIndex is too old or lacks a hook. Raises
    ConfigError if an agent is already attached.
    """
    options = AdapterOptions(
        failure=FailurePolicy(failure),
        document_tools=frozenset(document_tools),
        record_chunks=record_chunks,
        system_in_place=system_in_place,
    )
    return Attachment(agent, engine, session, user, options)


class DocumentRecorder(BaseEventHandler):
    """Event handler that records every search of a retriever as a tool call, and stores the documents that it found. A
    document is stored as evidence of the type `rag_doc` in the session that the tag `session_id` names.

    `install` adds the handler to the dispatcher of LlamaIndex. A process has only one dispatcher. `remove` removes the
    handler again.
    """

    adapter: Any
    pending: Any = None
    queries: Any = None

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "JacquardDocumentRecorder"

    @classmethod
    def install(cls, attachment: Attachment) -> DocumentRecorder:
        """Create a recorder for an attachment and add it to the dispatcher. Return the recorder."""
        recorder = cls(adapter=attachment.adapter, pending=[], queries={})
        get_dispatcher().add_event_handler(recorder)
        return recorder

    def remove(self) -> None:
        """Remove this recorder from the dispatcher."""
        handlers = get_dispatcher().event_handlers
        if self in handlers:
            handlers.remove(self)

    async def drain(self) -> None:
        """Wait until all documents found so far are stored."""
        pending, self.pending = self.pending, []
        for each in pending:
            await wrap_future(each)

    def handle(self, event: Any, **_: Any) -> None:
        """Pass the documents of a search to the engine's event loop. This method does not wait until the documents are
        stored; `drain` does.
        """
        session_id = (event.tags or {}).get("session_id")
        if isinstance(event, RetrievalStartEvent):
            self.queries[event.span_id] = (str(event.str_or_query_bundle), perf_counter())
        elif isinstance(event, RetrievalEndEvent) and session_id:
            query, since = self.queries.pop(event.span_id, ("", perf_counter()))
            found = [
                document_from(each.node.get_content(), each.node.metadata, name="retriever", score=each.score)
                for each in event.nodes
            ]
            # The id of a span begins with the class of the retriever, as in `VectorIndexRetriever.aretrieve-…`.
            name = str(event.span_id or "").partition(".")[0] or "retriever"
            call = ToolCall(tool_call_id="", tool=name, duration_ms=round((perf_counter() - since) * 1000))
            record = partial(self.adapter.on_documents, str(session_id), found, query=query, call=call)
            self.pending.append(self.adapter.submit(record))


class ContextRetriever(BaseRetriever):
    """Retriever of LlamaIndex that searches the memory of one session."""

    def __init__(self, recall: SessionRecall) -> None:
        super().__init__()
        self._recall = recall

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_to_node(each) for each in self._recall.recall_blocking(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_to_node(each) for each in await self._recall.recall(query_bundle.query_str)]


class _StreamTap:
    """Context of a step that passes the pieces of an answer on to the engine in their order."""

    def __init__(self, ctx: Any, submit: Callable[[str], Future[None]]) -> None:
        self._ctx, self._submit = ctx, submit
        self._pending: list[Future[None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def write_event_to_stream(self, event: Any) -> None:
        if isinstance(event, AgentStream) and event.delta:
            self._pending.append(self._submit(event.delta))
        self._ctx.write_event_to_stream(event)

    async def drain(self) -> None:
        for each in self._pending:
            await wrap_future(each)


def _replace(agent: Any, name: str, method: Any) -> None:
    """Replace a method of one agent by ours; raises ConfigError if it is replaced already."""
    if name in vars(agent):
        raise ConfigError(
            f"The agent's {name} was replaced already; detach the first adapter before attaching another."
        )
    own = getattr(agent, name)

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await method(agent, own, *args, **kwargs)

    object.__setattr__(agent, name, call)


def _restore(agents: Sequence[Any]) -> None:
    for agent in agents:
        for name in (*_STEPS, "_call_tool"):
            if name in vars(agent):
                object.__delattr__(agent, name)


async def _answer(agent: Any, ctx: Any, text: str) -> AgentOutput:
    """Return an answer without a model, in the form of the agent's step."""
    message = ChatMessage(role="assistant", content=text)
    key = getattr(agent, "scratchpad_key", None)
    if key is not None:
        await ctx.store.set(key, [*await ctx.store.get(key, default=[]), message])
    return AgentOutput(response=message, tool_calls=[], raw=None, current_agent_name=agent.name)


def _inject(prompt: InjectedPrompt, systems: Sequence[Any], user: Any, said: str) -> list[ChatMessage]:
    """Return the agent's system text with ours, our history, and the user's message; its images and files stay.

    LlamaIndex's text before and after the user's words (the state of a workflow) stays.
    """
    own = "\n\n".join(_text_of(message) for message in systems)
    *earlier, asked = prompt.messages
    around = _text_of(user)
    text = around.replace(said, asked.content, 1) if said in around else asked.content
    others = [block for block in user.blocks if not isinstance(block, TextBlock)]
    return [
        ChatMessage(role="system", content=join_system(own, prompt)),
        *(ChatMessage(role=part.role, content=part.content) for part in earlier),
        user.model_copy(update={"blocks": [TextBlock(text=text), *others]}),
    ]


def _text_of(message: Any) -> str:
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    return "\n".join(texts) if texts else " ".join(f"[{block.block_type}]" for block in message.blocks)


def _raw_of(output: Any) -> Any:
    """Return a tool's own result if it is text or JSON, else the text that the model reads."""
    return output.raw_output if write_result(output.raw_output) is not None else output.content


def _to_plain(message: Any) -> dict[str, Any]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    call_id = message.additional_kwargs.get("tool_call_id")
    if message.role.value == "tool" and call_id:
        return {"role": "tool", "tool_call_id": call_id, "content": _text_of(message)}
    calls = [
        {
            "id": block.tool_call_id,
            "function": {"name": block.tool_name, "arguments": _write_arguments(block.tool_kwargs)},
        }
        for block in message.blocks
        if block.block_type == "tool_call"
    ]
    for call in () if calls else message.additional_kwargs.get("tool_calls") or ():
        calls.append(call if isinstance(call, dict) else call.model_dump())
    return {"role": message.role.value, "content": _text_of(message), **({"tool_calls": calls} if calls else {})}


def _write_arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)


def _to_node(found: RecalledText) -> NodeWithScore:
    return NodeWithScore(node=TextNode(id_=found.entry_id, text=found.text, metadata=found.metadata), score=found.score)
