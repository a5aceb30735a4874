"""The seven layers: their order, their process rules and their acceptance list."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from block_parts import make_block

from jacquard import (
    ConfigError,
    ContextCollector,
    ContextComposer,
    CurationConfig,
    RuntimeConfig,
    open_runtime,
    read_snapshot,
    replay_prompt,
)
from jacquard.config.sections import LayersConfig
from jacquard.core.block_kinds import SYSTEM_PROMPT, Layer
from jacquard.core.blocks import Block
from jacquard.pipeline.weaving.assemble import PromptMessage
from jacquard.pipeline.weaving.layers import ORDER, PROCESSES, find_allowed_layers, layer_of, layers_of
from jacquard.templating import find_shipped_templates
from jacquard.templating.layouts import load_layout
from mnemosyne import (
    CalibratedEstimator,
    Message,
    MessageIndexRange,
    Role,
    Session,
    SessionDocument,
    SessionStart,
    Summary,
    Task,
    TaskState,
    TaskStatus,
    TodoList,
)
from mnemosyne.schema.record import ImportedTurn, PathSummary

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "zh"
COMPOSER = ContextComposer()
TALK = (PromptMessage(role="user", content="hi"), PromptMessage(role="assistant", content="hello"))
CONTEXTS = {
    "compression__context": "before",
    "todo__context": "steps",
    "knowledge__context": "facts",
    "experience__context": "lived",
    "framework__context": "rules",
}


def contents(messages):
    return [(message.role, message.content) for message in messages]


def document(*, summary: Summary | None = None, talk: int = 6) -> SessionDocument:
    messages = tuple(
        Message(role=(Role.USER, Role.ASSISTANT)[n % 2], content=f"line {n} <b>", message_id=f"m{n}")
        for n in range(talk)
    )
    tasks = (
        Task(task_id="t1", name="Find <the> key", status=TaskStatus.IN_PROGRESS),
        Task(task_id="t2", depends_on=("t1",)),
    )
    return SessionDocument(
        session=Session(
            session_id="s", messages=messages, summary=summary, task_state=TaskState(todo_list=TodoList(tasks=tasks))
        )
    )


SUMMARY = Summary(content="They met.", message_index_range=MessageIndexRange(from_index=1, to_index=4))


# --- the order, and the query once ---


def test_the_order_is_the_seeds():
    messages = COMPOSER.compose(
        system_prompt="you are", contexts=CONTEXTS, checkpoint_messages=TALK, query="where is it?"
    )
    assert contents(messages) == [
        ("system", "you are"),
        ("system", "rules"),
        ("system", "lived"),
        ("system", "facts"),
        ("system", "steps"),
        ("system", "before"),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "where is it?"),
    ]


def test_empty_layers_leave_no_message():
    messages = COMPOSER.compose(system_prompt="you are", contexts={"todo__context": " "}, query="q")
    assert contents(messages) == [("system", "you are"), ("user", "q")]
    assert contents(COMPOSER.compose(system_prompt="", contexts={}, query="q")) == [("user", "q")]


def test_the_query_stands_exactly_once():
    asked = (*TALK, PromptMessage(role="user", content="where is it?"))
    by_talk = COMPOSER.compose(system_prompt="p", contexts={}, checkpoint_messages=asked)
    by_query = COMPOSER.compose(system_prompt="p", contexts={}, checkpoint_messages=TALK, query="where is it?")
    assert by_talk == by_query
    with pytest.raises(ConfigError, match="in one place only"):
        COMPOSER.compose(system_prompt="p", contexts={}, checkpoint_messages=asked, query="where is it?")
    with pytest.raises(ConfigError, match="There is no query"):
        COMPOSER.compose(system_prompt="p", contexts={}, checkpoint_messages=TALK)


def test_a_repeated_word_is_no_repeated_query():
    said = (PromptMessage(role="user", content="yes"), PromptMessage(role="assistant", content="sure?"))
    messages = COMPOSER.compose(system_prompt="p", contexts={}, checkpoint_messages=said, query="yes")
    assert [m.content for m in messages].count("yes") == 2


# --- the acceptance list ---


def test_the_composer_takes_no_state():
    told = inspect.signature(ContextComposer.compose).parameters
    assert set(told) == {"self", "system_prompt", "contexts", "checkpoint_messages", "query"}
    assert vars(ContextComposer()) == {}


def test_every_layer_of_a_caller_is_named_as_one():
    assert all(layer.endswith("__context") for layer in Layer)
    for name in ("knowledge", "secret__context", "system_prompt", "messages"):
        with pytest.raises(ConfigError, match="There is no layer"):
            COMPOSER.compose(system_prompt="p", contexts={name: "x"}, query="q")


def test_a_system_prompt_never_travels_in_the_talk():
    leak = (PromptMessage(role="system", content="x"),)
    with pytest.raises(ConfigError, match=r"checkpoint_messages\[0\] is a system message"):
        COMPOSER.compose(system_prompt="p", contexts={}, checkpoint_messages=leak, query="q")


async def test_the_collector_gives_layers_and_no_prompt():
    async def knowledge(of: SessionDocument, query: str) -> str:
        return f"<facts of='{of.session.session_id}'>{query}</facts>"

    async def nothing(of: SessionDocument, query: str) -> str:
        return ""

    services = {"knowledge__context": knowledge, "experience__context": nothing}
    collector = ContextCollector(framework="reply in XML", services=services)
    found = await collector.collect(document(summary=SUMMARY), "where <is> it?")
    assert set(found.contexts) == {
        "framework__context",
        "knowledge__context",
        "todo__context",
        "compression__context",
    }
    assert "Find &lt;the&gt; key" in found.contexts["todo__context"]
    assert found.contexts["compression__context"] == "<summary>\nThey met.\n</summary>"
    assert [m.content for m in found.checkpoint_messages] == ["line 4 &lt;b&gt;", "line 5 &lt;b&gt;"]
    messages = COMPOSER.compose(
        system_prompt="p",
        contexts=found.contexts,
        checkpoint_messages=found.checkpoint_messages,
        query=found.query,
    )
    assert [m.role for m in messages] == ["system"] * 5 + ["user", "assistant", "user"]
    assert messages[-1].content == "where &lt;is&gt; it?"
    with pytest.raises(ConfigError, match="There is no layer 'todo'"):
        await ContextCollector(services={"todo": knowledge}).collect(document(), "q")


async def test_what_the_summary_does_not_cover_stays_and_nothing_stands_twice():
    whole = await ContextCollector().collect(document(), "q")
    assert len(whole.checkpoint_messages) == 6
    assert "compression__context" not in whole.contexts
    empty = await ContextCollector().collect(document(summary=replace(SUMMARY, content=" ")), "q")
    assert len(empty.checkpoint_messages) == 6


# --- processes and the one switch ---


@pytest.mark.parametrize(
    ("process", "switch", "layers", "checkpoint"),
    [
        ("sequential", None, set(Layer), True),
        ("dynamic", None, set(Layer), True),
        ("hierarchical", None, set(Layer), True),
        ("react", None, set(Layer), True),
        ("react", False, {Layer.FRAMEWORK, Layer.KNOWLEDGE}, True),
        ("mapreduce_worker", None, {Layer.FRAMEWORK, Layer.KNOWLEDGE}, False),
        ("mapreduce_worker", True, set(Layer), False),
        ("mapreduce_planner", None, {Layer.FRAMEWORK, Layer.KNOWLEDGE, Layer.EXPERIENCE}, False),
        ("mapreduce_reducer", None, {Layer.FRAMEWORK, Layer.KNOWLEDGE, Layer.EXPERIENCE}, False),
    ],
)
def test_what_a_process_sees(process, switch, layers, checkpoint):
    config = LayersConfig(process=process, enable_share_context=switch)
    assert find_allowed_layers(config) == (frozenset(layers), checkpoint)


def test_an_unknown_process_is_refused():
    with pytest.raises(ConfigError, match="must be one of sequential"):
        LayersConfig(process="swarm")
    assert set(PROCESSES) == {
        "sequential", "dynamic", "hierarchical", "react", "mapreduce_worker", "mapreduce_planner", "mapreduce_reducer",
    }  # fmt: skip


async def test_a_worker_collects_no_talk_and_no_todo():
    collector = ContextCollector(framework="rules", config=LayersConfig(process="mapreduce_worker"))
    found = await collector.collect(document(summary=SUMMARY), "q")
    assert (set(found.contexts), found.checkpoint_messages) == ({"framework__context"}, ())


# --- the pipeline is the same mechanism ---


def test_the_layout_has_the_composers_orders():
    layout = load_layout("layers", [find_shipped_templates()])
    assert layout.separate
    assert {rule.order for rule in layout.rules} == set(ORDER.values())


async def test_a_prepared_turn_is_what_the_composer_makes_of_its_layers(tmp_path):
    config = RuntimeConfig(layout="layers")
    async with open_runtime(str(tmp_path), world=FOREST, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "那把钥匙是不是开启神庙的?我记得之前提到过。")
        worker = LayersConfig(process="mapreduce_worker")
        alone = await runtime.engine.prepare_turn("s", "钥匙?", replace(config, layers=worker), turn_id="w")
    system = [m.content for m in turn.messages if m.role == "system"]
    marks = {
        SYSTEM_PROMPT: "<instruction>",
        Layer.FRAMEWORK.value: "<axioms>",
        Layer.EXPERIENCE.value: "<relevant_memories>",
        Layer.KNOWLEDGE.value: "<knowledge_base>",
        Layer.TODO.value: "<status>",
        Layer.COMPRESSION.value: "<summary>",
    }
    held = [name for name, mark in marks.items() if any(mark in text for text in system)]
    assert {SYSTEM_PROMPT, Layer.FRAMEWORK.value, Layer.TODO.value} <= set(held)
    assert [marks[name] in text for name, text in zip(held, system, strict=True)] == [True] * len(held)
    assert turn.messages[-1].content == "那把钥匙是不是开启神庙的?我记得之前提到过。"
    talk = turn.messages[len(system) : -1]
    prompt, *rest = system
    composed = COMPOSER.compose(
        system_prompt=prompt,
        contexts=dict(zip(held[1:], rest, strict=True)),
        checkpoint_messages=talk,
        query=turn.messages[-1].content,
    )
    assert composed == turn.messages

    text = "\n".join(m.content for m in alone.messages)
    assert [m.role for m in alone.messages] == ["system"] * (len(alone.messages) - 1) + ["user"]
    assert "<axioms>" in text
    assert "<status>" not in text
    assert "<relevant_memories>" not in text
    gone = {d.block_id for d in alone.report.decisions if d.code == "not_shared"}
    assert {"status", "active_quests", "guidance"} <= gone
    assert any(name.startswith("p0") for name in gone)
    assert sum(span.tokens for span in alone.report.spans) == alone.report.budget.used_tokens


def test_every_block_of_the_pipeline_has_a_layer():
    def block(slot: str, section: str | None = None) -> Block:
        return make_block(slot, slot, "x", section=section)

    assert layer_of(block("flesh", "knowledge_base")) == "knowledge__context"
    assert layer_of(block("flesh", "relevant_memories")) == "experience__context"
    assert layer_of(block("history")) == layer_of(block("user_input")) == ""
    assert layer_of(block("mood")) == "knowledge__context"
    found = layers_of([block("summary"), block("persona"), block("mood")])
    assert list(found) == ["system_prompt", "knowledge__context", "compression__context"]


async def test_compression_survives_a_restart_and_no_words_are_written_twice(tmp_path):
    start = SessionStart(
        session_id="s",
        world_id="",
        locale="en",
        state={},
        turns=tuple(
            ImportedTurn(
                turn_id=f"t{n}",
                messages=(Message(role=Role.USER, content=f"q{n}"), Message(role=Role.ASSISTANT, content=f"a{n}")),
            )
            for n in range(4)
        ),
    )
    config = RuntimeConfig(layout="layers", curation=CurationConfig(enabled=False))
    async with open_runtime(str(tmp_path), embedder="none", config=config) as runtime:
        head = await runtime.import_session(start)
        summary = Summary(content="They spoke of q0.", message_index_range=MessageIndexRange(from_index=1, to_index=2))
        told = PathSummary(turn_id="t0", branch_id=head.branch_id, depth=1, summary=summary)
        await runtime.store.save_summary("s", told)
        await runtime.engine.prepare_turn("s", "and now?")
    for _ in range(2):
        async with open_runtime(str(tmp_path), embedder="none", config=config) as runtime:
            turn = await runtime.engine.prepare_turn("s", "and now?")
            stored = await runtime.store.get_session("s")
        said = [m.content for m in turn.messages]
        assert said.count("and now?") == 1
        assert sum("They spoke of q0." in text for text in said) == 1
        assert next(m.role for m in turn.messages if "They spoke of q0." in m.content) == "system"
        assert stored is not None
        assert stored.session.summary is not None
        assert stored.session.summary.content == "They spoke of q0."
        assert not any("They spoke" in m.content for m in stored.session.messages)
        assert [m.content for m in stored.session.messages].count("and now?") <= 1


async def test_a_turn_of_a_worker_is_made_again_from_its_record(tmp_path):
    config = RuntimeConfig(layers=LayersConfig(process="mapreduce_worker"))
    async with open_runtime(str(tmp_path), world=FOREST, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "钥匙?")
        tape = read_snapshot(await runtime.store.turn("s", turn.turn_id))
    assert tape is not None
    again = replay_prompt(tape, CalibratedEstimator().estimate)
    assert again.assembled.messages == turn.messages
