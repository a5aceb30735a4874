"""No credential and no guarded text leaves the process where it does not belong: canaries are planted, then everything is read.

Every setting that can hold a credential gets one; the list is that of the settings' own fields, and a text field that is on no
list fails a test. Sessions are then played with everything watching: events, spans, metrics, the log of every library at its
lowest level, standard output and error, errors with their causes, and the files of the store.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import traceback
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin, get_type_hints
from urllib.parse import quote, urlsplit

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from servers.openai_server import OpenAiServer, closed_port
from typer.testing import CliRunner

from jacquard import ConfigError, RuntimeConfig, config_from_yaml, create_context_engine, open_runtime
from jacquard.cli.app import app
from jacquard.config.sections import drop_config_secrets, list_credentials
from jacquard.config.settings import config_from_mapping
from mnemosyne import MemoryStore, MnemosyneError, ToolCall, open_store
from mnemosyne.core.masking.addresses import mask_address
from mnemosyne.core.masking.credentials import mask_credentials, remember_secrets
from mnemosyne.stores.locate import locate_store

SHORT = 12
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
NO_CREDENTIAL = {
    "layout",
    "layers.agent",
    "template_id",
    "viewer",
    "model_hint",
    "provider_hint",
    "tags",
    "instructions",
    "selector.model",
    "selector.reranker",
    "planner.model",
    "planner.focus",
    "summary.model",
    "profile",
    "locale",
    "consolidation.model",
    "redaction.rules",
    "experiments",
    "snapshots.cache_folder",
}
"""Text settings that hold no credential. A new one belongs here, or its field is a `credential_field`."""

SAID = "The canary zqmessagezq sings of Harrowgate before the rain begins"
REPLIED = "The miller hides zqreplyzq beneath the seventh stone of the old bridge"
TOOL_ARGUMENT = "zqargumentzq is what the tool was asked about on that long evening"
TOOL_RESULT = "The ledger says zqresultzq was paid in full for the northern field"
TEXTS = ("zqmessagezq", "zqreplyzq", "zqargumentzq", "zqresultzq")


def texts_of(kind, path=()):
    """Yield the paths of all settings whose value is free text, or holds some."""
    for each, hint in ((each, get_type_hints(kind)[each.name]) for each in fields(kind)):
        parts = [one for one in get_args(hint) if one is not NoneType] if get_origin(hint) is not None else [hint]
        if is_dataclass(hint):
            yield from texts_of(hint, (*path, each.name))
        elif {"words", "keys"} & set(each.metadata):
            continue
        elif any(one not in (int, float, bool) for one in parts):
            yield ".".join((*path, each.name))


def test_every_text_setting_is_on_one_of_the_lists():
    holding = {".".join(path) for path in list_credentials()}
    assert set(texts_of(RuntimeConfig)) == holding | NO_CREDENTIAL
    assert not holding & NO_CREDENTIAL


def secret(number, spelling):
    """Return a credential of its own for each number, with characters that addresses and formats write otherwise."""
    odd = ("", "?", "@", "/", "#", "%", " ", "'", '"', "\\", "&", "ü", ":", "$1")
    return (f"canary{number:05}{odd[number % len(odd)]}K9x", f"9080706{number:05}")[spelling]


def spelled(value):
    forms = {value, quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}
    return {*forms, base64.b64encode(f"user:{value}".encode()).decode()}


def found(text, values):
    return [value for value in values for form in spelled(value) if form in text]


def check_text(number):
    """Whatever a sentence about a call looks like, the credentials of the call are not in it."""
    for spelling in (0, 1):
        key = secret(number, spelling)
        sentences = [
            f"Incorrect API key provided: {key}.",
            f"POST http://user:{key}@host:80/v1?x=1 failed",
            f"POST http://user:{quote(key, safe='')}@host/v1 failed",
            f"headers: {{'Authorization': 'Bearer {key}'}}",
            f"connection to postgresql://user:{key}@db:5432/games failed",
            repr(ValueError(key)),
            json.dumps({"error": key}),
        ]
        for sentence in sentences:
            assert not found(mask_credentials(sentence, key), [key]), sentence
        remember_secrets(key)
        for sentence in sentences:
            assert not found(mask_credentials(sentence), [key]), sentence
            assert not found(str(MnemosyneError(sentence)), [key]), sentence
        for address in (
            f"postgresql://user:{quote(key, safe='?')}@db:5432/games?sslmode=require",
            f"postgresql://db/games?user=u&password={quote(key, safe='')}",
            f"postgresql://db/games?user=u&pass%77ord={quote(key, safe='')}",
            f"postgresql://db/games?sslpassword={quote(key, safe='')}",
        ):
            location = locate_store(address, look=False)
            assert not found(repr(location) + location.shown, [key]), address
        for address in (
            f"http://user:{quote(key, safe='?#')}@host:80/v1",
            f"http://host:80/v1?api_key={quote(key, safe='')}",
            f"http://host/v1?{quote(key, safe='')}",
            f"https://{quote(key, safe='')}@host/v1",
        ):
            assert not found(mask_address(address), [key]), address


@pytest.mark.parametrize("number", range(SHORT))
def test_no_sentence_about_a_call_holds_its_credentials(number):
    check_text(number)


@pytest.mark.parametrize(
    ("sentence", "gone"),
    [
        ("Authorization: Bearer abcdefgh12345", "abcdefgh12345"),
        ("x-api-key: abcdefgh12345", "abcdefgh12345"),
        ("{'api_key': 'abcdefgh12345', 'model': 'm'}", "abcdefgh12345"),
        ("connect(password='abc def', host='h')", "abc def"),
        ("GET https://h/v1?token=abcdefgh12345&x=1", "abcdefgh12345"),
        ("http://u:123?abc@h/db", "123?abc"),
        ("http://u:123?abc@h/db", "123"),
        ("http://u:123/abc@h/db", "abc"),
    ],
)
def test_what_looks_like_a_credential_is_masked_unknown(sentence, gone):
    assert gone not in mask_credentials(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "selector.api_key: must be text; put it in quotes",
        "Read mnemosyne://session:lin@home/turn/p1 again.",
        "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
        "JACQUARD_SELECTOR__API_KEY: is no setting; did you mean 'api_key'?",
    ],
)
def test_a_sentence_without_a_credential_stays(sentence):
    assert mask_credentials(sentence) == sentence


class Watch:
    """Reads everything that leaves the process while it is open."""

    def __init__(self):
        self.lines, self.events, self.texts = [], [], []

    def __enter__(self):
        self.spans = InMemorySpanExporter()
        if not isinstance(trace.get_tracer_provider(), TracerProvider):
            trace.set_tracer_provider(TracerProvider())
        trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(self.spans))
        handler = logging.Handler(level=0)
        handler.emit = lambda record: self.lines.append(logging.Formatter().format(record))
        names = [
            None,
            *["LiteLLM", "httpx", "httpcore", "openai", "psycopg", "asyncio", "aiohttp"],
        ]
        self.undo = contextlib.ExitStack()
        for name in names:
            logger = logging.getLogger(name)
            before = logger.level
            logger.setLevel(1)
            self.undo.callback(logger.setLevel, before)
        logging.getLogger().addHandler(handler)
        self.undo.callback(logging.getLogger().removeHandler, handler)
        self.out = io.StringIO()
        self.undo.enter_context(contextlib.redirect_stdout(self.out))
        self.undo.enter_context(contextlib.redirect_stderr(self.out))
        return self

    def __exit__(self, *_):
        self.undo.close()

    def catch(self, error):
        """Keep all that an error says, as a host would print it."""
        self.texts.append(f"{error} {error!r} {''.join(traceback.format_exception(error))}")

    def everything(self):
        spans = "".join(span.to_json() for span in self.spans.get_finished_spans())
        return "\n".join((*self.lines, repr(self.events), spans, self.out.getvalue(), *self.texts))


def planted(address):
    """Return settings with a canary in every field that can hold a credential, and the canaries."""
    plain, canaries = {}, []
    for number, (path, holds) in enumerate(list_credentials().items()):
        value = f"canary-{number}-{'-'.join(path)}-K9x"
        if holds == "argument":
            continue
        canaries.append(value)
        section = plain
        for step in path[:-1]:
            section = section.setdefault(step, {})
        section[path[-1]] = value if holds == "key" else f"{address.replace('://', f'://user:{value}@')}?token={value}"
        if path == ("snapshots", "address"):
            place = urlsplit(address).netloc
            section[path[-1]] = f"s3://user:{value}@games/indexes?endpoint_override={place}&scheme=http&region=x"
    for section in ("selector", "planner", "summary", "consolidation"):
        plain[section]["model"] = "openai/small"
    plain["planner"] |= {"confidence_threshold": 1.0, "timeout_ms": 20_000}
    plain["summary"] |= {"trigger_message_count": 1, "preserve_recent_messages": 0, "timeout_ms": 20_000}
    plain["curation"] = {"deadline_ms": 20_000}
    plain["observability"] = {"tracing": True, "metrics": True}
    return plain, canaries


async def play_session(watch, place, plain):
    config = config_from_mapping(plain)
    async with open_runtime(place, world=FOREST, embedder="none", config=config) as runtime:
        runtime.watchers.events.on_all(watch.events.append)
        await runtime.ensure_session("s1")
        for _ in range(2):
            turn = await runtime.engine.prepare_turn("s1", SAID)
            await runtime.engine.commit_assistant_message("s1", f"<content>{REPLIED}</content>", turn_id=turn.turn_id)
        call = ToolCall(tool_call_id="c1", tool="ledger", args_digest={"about": TOOL_ARGUMENT})
        await runtime.engine.record_tool_call("s1", call, result=TOOL_RESULT)
        try:
            await runtime.engine.consolidate("s1")
        except MnemosyneError as error:
            watch.catch(error)
        await runtime.engine.settle(30)
        watch.texts.append(runtime.watchers.metrics.exposition().decode())
        watch.texts.append(repr(config) + repr(drop_config_secrets(config)))


def kept_in(folder):
    return "".join(
        file.read_bytes().decode("utf-8", "replace") for file in sorted(Path(folder).rglob("*")) if file.is_file()
    )


@pytest.mark.parametrize(
    ("step", "store"),
    [
        ("writer", "folder"),
        ("echo:401", "folder"),
        ("echo:400", "file:folder"),
        ("rubbish", "file:folder"),
        ("nobody", "folder"),
    ],
)
def test_no_session_lets_a_canary_out(step, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        address = f"http://127.0.0.1:{closed_port()}/v1"
        if step != "nobody":
            address = stack.enter_context(OpenAiServer(step)).api_base
        plain, canaries = planted(address)
        watch = stack.enter_context(Watch())
        anyio.run(play_session, watch, store, plain)
    assert watch.events
    assert watch.lines
    said = watch.everything()
    assert not found(said, canaries)
    assert [text for text in TEXTS if text in said] == []
    assert not found(kept_in(tmp_path), canaries)


COMMANDS = [
    ["play", "weave", "-s", "s1", "-i", SAID, "--world", str(FOREST), "--embedder", "none", "--linger", "5"],
    ["play", "commit", "-s", "s1", "--text", f"<content>{REPLIED}</content>"],
    ["play", "weave", "-s", "s1", "-i", SAID, "--embedder", "none", "--json"],
    ["play", "explain", "-s", "s1", "--json"],
    ["play", "explain", "-s", "s1", "--html", "page.html"],
    ["author", "replay", "s1", "--json"],
    ["play", "history", "-s", "s1", "--json"],
    ["operate", "doc", "export", "s1"],
    ["operate", "plugins", "--json"],
    ["memory", "consolidate", "-s", "s1"],
]


def test_no_command_lets_a_credential_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with OpenAiServer("echo:401") as server:
        plain, canaries = planted(server.api_base)
        for name in ("observability",):
            plain.pop(name)
        Path("play.yaml").write_text(json.dumps(plain))
        for command in COMMANDS:
            takes = command[1] in ("weave", "commit", "consolidate") or command[:3] == ["author", "replay", "s1"]
            done = CliRunner().invoke(app, [*command, *(["--config", "play.yaml"] if takes else [])])
            assert done.exception is None or isinstance(done.exception, SystemExit), command
            assert not found(done.output, canaries), command
    Path("play.yaml").unlink()
    assert not found(kept_in(tmp_path), canaries)


@pytest.mark.parametrize("password", ["canary?K9x", "canary%3FK9x%2F", "9080706050", "canary%zzK9x", "canary#K9x"])
@pytest.mark.parametrize(
    "command", [["play", "history", "-s", "s1"], ["play", "weave", "-s", "s1", "-i", "x", "--embedder", "none"]]
)
def test_a_server_that_is_not_there_is_named_without_its_password(password, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in (
        f"postgresql://lin:{password}@127.0.0.1:{closed_port()}/games",
        f"postgresql://127.0.0.1:{closed_port()}/games?user=lin&password={password}",
    ):
        done = CliRunner().invoke(app, [*command, "--store", address])
        assert done.exit_code == 1, done.output
        assert not found(done.output, [password, password.replace("%3F", "?").replace("%2F", "/")])
        assert not found(kept_in(tmp_path), [password])


@pytest.mark.anyio
async def test_the_causes_of_a_store_that_cannot_be_opened_hold_no_password():
    watch = Watch()
    for password in ("canary?K9x", "canary%zzK9x", "90807060"):
        store = open_store(f"postgresql://lin:{password}@127.0.0.1:{closed_port()}/games")
        with pytest.raises(MnemosyneError) as caught:
            await store.head("s1")
        watch.catch(caught.value)
        await store.close()
        assert not found("".join(watch.texts), [password])


@pytest.mark.parametrize(
    "text",
    [
        "selector:\n  api_key: 9080706050\n",
        "selector: {api_key: [9080706050]}\n",
        "planner:\n  api_key:\n\n\n    *canaryK9x\n",
        "planner:\n  api_key:\n\n\n    !canaryK9x x\n",
        "summary: {api_base: 'http://u:canaryK9x@h'\n",
        "summary:\n  api_key: canaryK9x: y: z\n",
        "selector: {max_tokens: 'api_key=canaryK9x'}\n",
        "selector: {api_key: &canaryK9x 1, max_tokens: *canaryK9x}\n",
    ],
)
def test_settings_that_cannot_be_read_are_named_without_their_values(text, tmp_path):
    with pytest.raises(ConfigError) as caught:
        config_from_yaml(text, file="play.yaml")
    watch = Watch()
    watch.catch(caught.value)
    assert not found("".join(watch.texts), ["canaryK9x", "9080706050"])
    (tmp_path / "play.yaml").write_text(text)
    done = CliRunner().invoke(app, ["play", "weave", "-s", "s", "-i", "x", "--config", str(tmp_path / "play.yaml")])
    assert done.exit_code == 2
    assert not found(done.output, ["canaryK9x", "9080706050"])


@pytest.mark.anyio
async def test_the_argument_of_a_plugin_is_kept_without_its_secrets():
    config = config_from_mapping({"prune": {"policy": "mine:http://user:canaryK9x@host/?token=canaryK9y"}})
    bare = drop_config_secrets(config)
    assert "canary" not in repr(config) + repr(bare) + bare.prune.policy
    store = MemoryStore()
    async with create_context_engine(store) as engine:
        with pytest.raises(ConfigError) as caught:
            await engine.prepare_turn("s1", "Hello", config)
    assert "canary" not in str(caught.value)
