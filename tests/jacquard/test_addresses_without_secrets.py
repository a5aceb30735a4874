"""User, password and query of an `api_base` are used by calls and stand nowhere else: not in what is kept, told or printed."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from servers.openai_server import OpenAiServer, closed_port
from typer.testing import CliRunner

from jacquard import (
    ConfigError,
    ObservabilityConfig,
    RuntimeConfig,
    SelectorConfig,
    SummaryConfig,
    config_from_yaml,
    create_context_engine,
    open_runtime,
)
from jacquard.cli.app import app
from jacquard.config.sections import PlannerConfig
from jacquard.config.settings import config_from_environment, config_from_mapping
from mnemosyne import MemoryStore

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
USER, PASSWORD, KEY = "gatekeeper", "pa%40ssw0rd", "q1w2e3r4"
SECRETS = (USER, PASSWORD, "pa@ssw0rd", KEY, base64.b64encode(b"gatekeeper:pa@ssw0rd").decode())
QUESTIONS = ("Is that the key that opens the temple? I remember it came up before.", "And what did Reed say of it?")


def with_secrets(address):
    return address.replace("://", f"://{USER}:{PASSWORD}@") + f"?key={KEY}"


def found_in(text):
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return [secret for secret in SECRETS if secret in text]


def kept(folder):
    """Return every file under a folder that holds a secret."""
    return [str(file) for file in Path(folder).rglob("*") if file.is_file() and found_in(file.read_bytes())]


def configuration(address, **more):
    small = {"model": "openai/small", "api_base": address}
    return RuntimeConfig(
        selector=SelectorConfig(**small),
        planner=PlannerConfig(**small, confidence_threshold=1.0, timeout_ms=20_000),
        summary=SummaryConfig(**small, trigger_message_count=1, preserve_recent_messages=0, timeout_ms=20_000),
        **more,
    )


@pytest.fixture(params=["answers", "refuses", "nobody there"])
def address(request):
    """The address of a server that answers, of one that refuses, of none."""
    if request.param == "nobody there":
        yield with_secrets(f"http://127.0.0.1:{closed_port()}/v1")
        return
    with OpenAiServer("first:3" if request.param == "answers" else "status:401") as server:
        yield with_secrets(server.api_base)
        assert server.requests, "the model was called"


@pytest.mark.anyio
@pytest.mark.parametrize("store", ["folder", "file:folder"])
async def test_no_secret_is_kept_told_or_logged(address, store, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    exporter = InMemorySpanExporter()
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
    config = configuration(address, observability=ObservabilityConfig(tracing=True, capture_content=True))
    told = []
    caplog.set_level(logging.INFO)
    async with open_runtime(store, world=FOREST, embedder="none", config=config) as runtime:
        runtime.watchers.events.on_all(told.append)
        await runtime.ensure_session("s1")
        for question in QUESTIONS:
            turn = await runtime.engine.prepare_turn("s1", question)
            assert not found_in(repr(turn))
            await runtime.engine.commit_assistant_message("s1", "<content>She nods.</content>")
        done = await runtime.engine.consolidate("s1")
        await runtime.engine.settle(30)
    spans = exporter.get_finished_spans()
    assert told
    assert any(span.name == "chat openai/small" for span in spans)
    assert not found_in(repr(done) + repr(told) + caplog.text + "".join(span.to_json() for span in spans))
    assert not kept(tmp_path)


def test_no_command_prints_or_keeps_a_secret(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "play.yaml").write_text(
        f"planner: {{model: openai/small, api_base: '{address}', confidence_threshold: 1.0}}\n"
        f"experiments: {{e: {{a: {{config: {{summary: {{model: openai/small, api_base: '{address}'}}}}}}}}}}\n"
    )
    settings = tmp_path / "play.yaml"
    replay_prompt = [
        "play",
        "weave",
        "--session",
        "s1",
        "--embedder",
        "none",
        "--linger",
        "30",
        "--model",
        "openai/small",
    ]
    replay_prompt += ["--api-base", address, "--config", settings, "--input"]
    commands = [
        [*replay_prompt, QUESTIONS[0], "--world", FOREST],
        ["play", "commit", "--session", "s1", "--config", settings, "--text", "<content>She nods.</content>"],
        [*replay_prompt, QUESTIONS[1], "--json"],
        ["play", "explain", "--session", "s1"],
        ["play", "explain", "--session", "s1", "--json"],
        ["play", "history", "--session", "s1", "--json"],
        ["operate", "doc", "export", "s1"],
        ["author", "replay", "s1", "--json"],
        ["author", "replay", "s1", "--config", settings],
        ["memory", "consolidate", "--session", "s1", "--model", "openai/small", "--api-base", address],
    ]
    for command in commands:
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code in (0, 1), done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
        assert not found_in(done.output), command
    settings.unlink()
    assert not kept(tmp_path)


def test_a_call_brings_user_and_password_and_the_whole_query(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with OpenAiServer("first:3") as server:
        address = with_secrets(server.api_base)
        replay_prompt = [
            "play",
            "weave",
            "--session",
            "s1",
            "--world",
            str(FOREST),
            "--model",
            "openai/small",
            "--api-base",
            address,
        ]
        replay_prompt += ["--embedder", f"openai/embed@{address}", "--deadline-ms", "60000", "--input", QUESTIONS[0]]
        done = CliRunner().invoke(app, replay_prompt)
    assert done.exit_code == 0, done.output
    assert {request.headers["authorization"] for request in server.requests} == {f"Basic {SECRETS[-1]}"}
    assert all(f"?key={KEY}" in request.path for request in server.requests)
    assert {request.path.rpartition("/")[2] for request in server.requests} == {"completions", "embeddings"}
    assert not found_in(done.output)
    assert not kept(tmp_path)


@pytest.mark.parametrize(
    "name", [f"http://{USER}:{PASSWORD}@127.0.0.1:9/v1", "openai/m@" + with_secrets("http://127.0.0.1:9/v1")]
)
def test_an_embedder_that_cannot_be_asked_is_named_without_its_secrets(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        app, ["play", "weave", "--session", "s1", "--world", str(FOREST), "--embedder", name, "--input", QUESTIONS[0]]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert not found_in(done.output)
    assert not kept(tmp_path)


async def fingerprint(config):
    store = MemoryStore()
    async with create_context_engine(store, config=config) as engine:
        turn = await engine.prepare_turn("s1", "Where is the mill?")
        return (await store.turn("s1", turn.turn_id)).fingerprint


@pytest.mark.anyio
async def test_a_request_keeps_its_fingerprint():
    plain = RuntimeConfig(selector=SelectorConfig(api_base="http://127.0.0.1:8000/v1"))
    assert await fingerprint(RuntimeConfig()) == "41f4bed316d5842364e0fc4fad5e370a6f9cfc54e75e061d8027d030a7ea0746"
    assert await fingerprint(plain) == "85e649cc0f524adfc0a58c2d88f9675258821eee6faa04cfcbab27660e0331f5"


@pytest.mark.anyio
async def test_another_password_is_the_same_request():
    made = [
        await fingerprint(RuntimeConfig(selector=SelectorConfig(api_base=f"http://{user}@host/v1?key={key}")))
        for user, key in ((f"{USER}:{PASSWORD}", KEY), ("other:word", "another"))
    ]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "address",
    [
        f"http://{USER}:{PASSWORD}@h/v1",
        f"https://{KEY}@h/v1",
        f"{USER}:{PASSWORD}@h/v1",
        f"http://{USER}:{PASSWORD}/and@h:80/v1",
        f"http://{USER}:{PASSWORD}?and#more@h:80/v1",
        f"http://{USER}:x@{PASSWORD}@[::1]:80/v1",
        f"http://h/v1?{KEY}",
        f"http://h/v1?a=1&key={KEY}",
        f"http://h/v1?a=1;key={KEY}=={PASSWORD}",
        f"http://h/v1#{KEY}",
    ],
)
@pytest.mark.anyio
async def test_no_form_of_an_address_brings_a_secret_into_a_record(address):
    config = RuntimeConfig(selector=SelectorConfig(api_base=address, api_key=KEY))
    store = MemoryStore()
    async with create_context_engine(store, config=config) as engine:
        turn = await engine.prepare_turn("s1", "Where is the mill?")
        record = await store.turn("s1", turn.turn_id)
    assert record.prompt["tape"]["config"]["selector"]["api_base"].count("***") >= 1
    assert not found_in(repr(record) + repr(config) + repr(turn.recorded))


@pytest.mark.parametrize(
    "text",
    [
        f"selector: {{api_key: [{KEY}]}}",
        f"selector: {{api_base: ['http://{USER}:{PASSWORD}@h/v1']}}",
        f"selector: {{max_tokens: 'http://{USER}:{PASSWORD}@h/v1?key={KEY}'}}",
        f"selector: {{max_tokens: {{api_key: {KEY}}}}}",
        f"planner: {{api_key: *{KEY}}}",
        f"planner:\n  api_key: !{KEY} x\n",
        f"planner:\n  api_base:\n    http://{USER}:{PASSWORD}@h: v1: x\n",
        f"planner: {{api_key: '{KEY}\n",
        f"experiments: {{e: {{a: {{config: {{summary: {{api_key: [{KEY}]}}}}}}}}}}",
    ],
)
def test_an_error_of_settings_tells_the_place_and_not_the_key(text, tmp_path):
    (tmp_path / "play.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config_from_yaml(text, file="play.yaml")
    assert "play.yaml:" in str(caught.value)
    done = CliRunner().invoke(app, ["play", "weave", "-s", "s", "-i", "x", "--config", str(tmp_path / "play.yaml")])
    assert done.exit_code == 2
    assert not found_in(str(caught.value) + done.output)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JACQUARD_SELECTOR", f"{{api_key: [{KEY}]}}"),
        ("JACQUARD_SELECTOR", f"{{api_key: *{KEY}}}"),
        ("JACQUARD_SELECTOR", f"{{api_key: {KEY}"),
        ("JACQUARD_SELECTOR__API_KEY__MORE", KEY),
        ("JACQUARD_API_KEY", KEY),
        ("JACQUARD_SELECTOR__API_KYE", KEY),
    ],
)
def test_an_error_of_a_variable_names_it_and_not_its_value(name, value):
    with pytest.raises(ConfigError) as caught:
        config_from_environment({name: value})
    assert name in str(caught.value) or "selector.api_key" in str(caught.value)
    assert not found_in(str(caught.value))


def test_an_error_of_plain_values_does_not_show_a_key():
    with pytest.raises(ConfigError) as caught:
        config_from_mapping({"selector": {"api_key": 7, "max_tokens": [{"api_key": KEY}]}})
    assert "selector.api_key" in str(caught.value)
    assert not found_in(str(caught.value))
    assert json.dumps(str(caught.value)).count("7") == 0
