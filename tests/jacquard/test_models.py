"""LiteLlmModel against a real HTTP server: what it returns, how it fails, and what it leaves behind."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest
from anyio import to_thread
from servers.openai_server import OpenAiServer, closed_port

from jacquard import (
    LlmRequest,
    ModelError,
)
from jacquard.adapters.models.litellm_adapter import LiteLlmModel

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as running:
        yield running


@pytest.fixture
async def model(server: OpenAiServer) -> AsyncIterator[LiteLlmModel]:
    made = LiteLlmModel("openai/small", api_base=server.api_base)
    yield made
    await made.close()


def ask(text: str = "Which?", seconds: float = 20.0) -> LlmRequest:
    return LlmRequest(messages=(("system", "Choose."), ("user", text)), max_tokens=50, timeout_seconds=seconds)


async def test_an_answer_comes_with_its_tokens_and_the_request_is_as_asked(
    server: OpenAiServer, model: LiteLlmModel
) -> None:
    server.set_script("text:[1]")
    reply = await model.generate(ask("那把钥匙?"))
    assert reply.content == "[1]"
    assert reply.model == "openai/small"
    assert reply.prompt_tokens is not None
    assert reply.completion_tokens is not None
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["model"] == "small"
    assert request.body["max_tokens"] == 50
    assert request.body["temperature"] == 0.0
    assert request.body["messages"] == [
        {"role": "system", "content": "Choose."},
        {"role": "user", "content": "那把钥匙?"},
    ]


async def test_what_a_provider_does_not_report_is_not_told_as_nothing(
    server: OpenAiServer, model: LiteLlmModel
) -> None:
    server.set_script("unmetered:[1]")
    reply = await model.generate(ask())
    assert (reply.content, reply.prompt_tokens, reply.completion_tokens) == ("[1]", None, None)


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("status:500", "unavailable"),
        ("status:429", "unavailable"),
        ("status:401", "refused"),
        ("status:404", "refused"),
        ("html", "bad_answer"),
        ("drop", "connection"),
    ],
)
async def test_a_failure_has_a_code_and_is_not_repeated(
    server: OpenAiServer, model: LiteLlmModel, step: str, code: str
) -> None:
    server.set_script(step)
    with pytest.raises(ModelError) as caught:
        await model.generate(ask())
    assert caught.value.code == code
    assert "openai/small" in caught.value.detail
    assert len(server.requests) == 1


async def test_a_port_that_nobody_listens_on_is_a_connection_error() -> None:
    model = LiteLlmModel("openai/small", api_base=f"http://127.0.0.1:{closed_port()}/v1")
    with pytest.raises(ModelError) as caught:
        await model.generate(ask())
    assert caught.value.code == "connection"
    await model.close()


async def test_a_server_that_hangs_meets_the_time_limit(server: OpenAiServer, model: LiteLlmModel) -> None:
    await model.warm()
    server.set_script("hang")
    with pytest.raises(ModelError) as caught:
        await model.generate(ask(seconds=0.2))
    assert caught.value.code == "timeout"
    assert len(server.requests) == 1


async def test_the_key_is_sent_but_never_told(server: OpenAiServer) -> None:
    model = LiteLlmModel("openai/small", api_base=server.api_base, api_key="secret-key-123")
    server.set_script("status:401")
    with pytest.raises(ModelError) as caught:
        await model.generate(ask())
    assert server.requests[0].headers["authorization"] == "Bearer secret-key-123"
    assert "secret-key-123" not in str(caught.value)
    await model.close()


async def test_an_unknown_provider_is_refused_with_its_name() -> None:
    model = LiteLlmModel("no_such_provider_model")
    with pytest.raises(ModelError) as caught:
        await model.generate(ask())
    assert caught.value.code == "refused"
    assert "no_such_provider_model" in caught.value.detail
    await model.close()


async def test_warming_calls_nobody(server: OpenAiServer, model: LiteLlmModel) -> None:
    await model.warm()
    await model.warm()
    assert server.requests == []


async def test_cancelling_ends_the_wait_at_once(server: OpenAiServer, model: LiteLlmModel) -> None:
    server.set_script("hang")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model.generate, ask())
        await to_thread.run_sync(server.wait_for_requests, 1)
        tasks.cancel_scope.cancel()
    server.set_script("text:[]")
    assert (await model.generate(ask())).content == "[]"


async def test_closing_ends_a_call_under_way_and_every_later_one(server: OpenAiServer, model: LiteLlmModel) -> None:
    server.set_script("hang")
    failures: list[ModelError] = []

    async def call() -> None:
        try:
            await model.generate(ask())
        except ModelError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await to_thread.run_sync(server.wait_for_requests, 1)
        await model.close()
    with pytest.raises(ModelError):
        await model.generate(ask())
    assert [failure.code for failure in failures] == ["unavailable"]


async def test_nothing_is_left_when_the_last_model_closes(server: OpenAiServer) -> None:
    server.set_script("text:[]")
    one = LiteLlmModel("openai/small", api_base=server.api_base)
    two = LiteLlmModel("hosted_vllm/small", api_base=server.api_base)
    await one.generate(ask())
    await two.generate(ask())
    await one.close()
    assert (await two.generate(ask())).content == "[]"
    await two.close()
    await two.close()
    assert [thread.name for thread in threading.enumerate() if thread.name == "jacquard-models"] == []
    gc.collect()


async def test_a_model_can_be_had_again_after_the_last_was_closed(server: OpenAiServer) -> None:
    server.set_script("text:[]")
    for _ in range(3):
        model = LiteLlmModel("openai/small", api_base=server.api_base)
        assert (await model.generate(ask())).content == "[]"
        await model.close()


FIRST_CALL = """
import asyncio, gc, sys, threading, warnings
imports = set()
sys.addaudithook(lambda event, args: event == "import" and imports.add((threading.current_thread().name, args[0])))
from jacquard.adapters.models.litellm_adapter import LiteLlmModel
from jacquard import LlmRequest
assert "litellm" not in sys.modules

async def main():
    model = LiteLlmModel("openai/small", api_base=sys.argv[1])
    imports.clear()
    await model.warm()
    warmed = set(imports)
    reply = await model.generate(LlmRequest(messages=(("user", "?"),), max_tokens=5, timeout_seconds=20))
    await model.close()
    here = {name for thread, name in imports if thread == "MainThread"}
    there = {name for thread, name in imports if thread == "jacquard-models"}
    there = any(name.startswith("litellm.") for name in there)
    print(reply.content, there, len(warmed) > 500, [name for name in here if name.startswith("litellm")])

asyncio.run(main())
gc.collect()
warnings.simplefilter("ignore")
asyncio.run(LiteLlmModel("openai/small", api_base=sys.argv[1]).warm())
print("a model that nobody closes does not keep the process")
"""


async def test_the_event_loop_imports_none_of_litellm_and_a_process_ends_clean(server: OpenAiServer) -> None:
    """In a fresh process: the import, the set-up and the first call all happen in the models' own thread."""
    server.set_script("text:[]")
    flags = ["-W", "error::ResourceWarning", "-W", "error::RuntimeWarning"]
    command = [sys.executable, *flags, "-c", FIRST_CALL, server.api_base]
    done = await anyio.run_process(command, check=False)
    assert done.stderr.decode() == ""
    assert done.stdout.decode().splitlines() == [
        "[] True True []",
        "a model that nobody closes does not keep the process",
    ]


async def test_closing_the_last_model_leaves_the_connections_of_a_remote_embedder_alone(server: OpenAiServer) -> None:
    import litellm

    from mnemosyne.retrieval.embedding.remote import RemoteEmbedder

    embedder = RemoteEmbedder("openai/embed", api_base=server.api_base)
    await embedder.embed(["one"], "query")
    model = LiteLlmModel("openai/small", api_base=server.api_base)
    await model.warm()
    await model.close()
    clients = (
        litellm.in_memory_llm_clients_cache.cache_dict.values()
    )  # those of other kinds cannot say if they are closed
    still_open = [type(each).__name__ for each in clients if "OpenAI" in type(each).__name__ and not each.is_closed()]
    assert set(still_open) == {"OpenAI"}
    assert (await embedder.embed(["two"], "query")).shape[0] == 1
