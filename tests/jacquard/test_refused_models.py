"""A wrong key or name of a small model is loud: the next receipt has what the server said, without the key, whatever asks."""

from __future__ import annotations

import pytest
from servers.openai_server import OpenAiServer
from typer.testing import CliRunner

from jacquard import ConsolidationConfig, HistoryConfig, RuntimeConfig, SelectorConfig, SummaryConfig, open_runtime
from jacquard.cli.app import app
from jacquard.config.sections import PlannerConfig
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio
FOREST = "examples/whispering_forest/zh"
KEY = "sk-wrong-0123456789abcdef"
SAID = "This key opens nothing"
QUESTION = "那把钥匙是不是开启神庙的?"
SHORT = {"trigger_message_count": 4, "preserve_recent_messages": 2}


@pytest.fixture
def server():
    with OpenAiServer(f"status:401 {SAID}: {KEY}") as running:
        yield running


@pytest.fixture
def refusing():
    """A server that refuses embeddings too."""
    with ScriptedServer("status:401") as running:
        yield running


def asked(server):
    return {"model": "openai/x", "api_base": server.api_base, "api_key": KEY}


async def play(folder, config, *, turns=1, embedder="none"):
    """Play turns, of which each waits for what goes on behind the one before; return the last."""
    async with open_runtime(folder, world=FOREST, embedder=embedder, config=config) as runtime:
        await runtime.ensure_session("s")
        await runtime.warm(QUESTION)
        for number in range(turns):
            turn = await runtime.engine.prepare_turn("s", f"{QUESTION} ({number})")
            await runtime.engine.commit_assistant_message("s", "阿苇摇了摇头。")
            assert await runtime.engine.settle(30)
        return turn


def detail_of(turn, code):
    (found,) = (each.detail for each in turn.report.degradations if each.code == code)
    assert KEY not in str(turn.report)
    return found


@pytest.mark.parametrize("turns", [1, 5])
async def test_a_selector_without_a_valid_key_is_named_with_the_sentence_also_while_its_circuit_is_open(
    tmp_path, server, turns
):
    turn = await play(tmp_path, RuntimeConfig(selector=SelectorConfig(**asked(server))), turns=turns)
    assert SAID in detail_of(turn, "selection_failed")
    stream = turn.report.stream_b
    assert (stream.path.value, stream.code) == ("fallback", "model_error" if turns == 1 else "circuit_open")


async def test_a_planner_without_a_valid_key_is_named_with_the_sentence(tmp_path, server):
    planner = PlannerConfig(**asked(server), confidence_threshold=1.0, timeout_ms=20_000)
    assert SAID in detail_of(await play(tmp_path, RuntimeConfig(planner=planner)), "planner_tier1")


async def test_a_summarizer_without_a_valid_key_is_named_with_the_sentence(tmp_path, server):
    config = RuntimeConfig(
        summary=SummaryConfig(**asked(server), timeout_ms=20_000, **SHORT), history=HistoryConfig(max_messages=6)
    )
    for turns in (1, 3):
        assert SAID in detail_of(await play(tmp_path, config, turns=turns), "summarize_failed")


async def test_consolidation_without_a_valid_key_is_named_in_the_next_turn(tmp_path, server):
    config = RuntimeConfig(consolidation=ConsolidationConfig(**asked(server), every_turns=1))
    assert SAID in detail_of(await play(tmp_path, config, turns=4), "consolidate_failed")


async def test_a_remote_embedder_that_refuses_is_named_with_the_sentence(tmp_path, refusing):
    turn = await play(tmp_path, RuntimeConfig(), embedder=f"openai/embed@{refusing.base_url}", turns=3)
    assert "scripted failure" in detail_of(turn, "embedder_unavailable")


async def test_a_model_that_answers_again_is_named_no_longer(tmp_path, server):
    config = RuntimeConfig(consolidation=ConsolidationConfig(**asked(server), every_turns=1))
    async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        codes = []
        for number in range(6):
            turn = await runtime.engine.prepare_turn("s", f"{QUESTION} ({number})")
            if number == 4:
                server.set_script("writer")
            await runtime.engine.commit_assistant_message("s", "阿苇摇了摇头。")
            assert await runtime.engine.settle(30)
            codes.append("consolidate_failed" in {each.code for each in turn.report.degradations})
    assert codes == [False, False, False, True, True, False]


def test_the_command_line_says_that_the_model_was_refused_and_that_none_is_configured(tmp_path, monkeypatch, server):
    weave = [
        "play",
        "weave",
        "--store",
        str(tmp_path),
        "--world",
        FOREST,
        "--session",
        "s",
        "--embedder",
        "none",
        "--input",
    ]
    plain = CliRunner().invoke(app, [*weave, QUESTION])
    assert "stream B: heuristic · The heuristic chose" in plain.output
    assert "no selector model is configured" in plain.output
    assert "fallback" not in plain.output
    monkeypatch.setenv("JACQUARD_SELECTOR__API_KEY", KEY)
    wrong = CliRunner().invoke(app, [*weave, f"{QUESTION}!", "--model", "openai/x", "--api-base", server.api_base])
    line = next(line for line in wrong.output.splitlines() if line.startswith("done without: selection_failed"))
    assert SAID in line
    assert KEY not in wrong.output
