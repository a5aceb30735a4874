"""The MCP server, with the client of the official SDK: over standard input and output, and over streamable HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import httpx2
import jsonschema
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from verb_faces import ASSISTANT, Tools, connect

from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Principal, Scope
from mnemosyne import CalibratedEstimator

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
WORLD = ROOT / "examples" / "whispering_forest" / "en"
FACT = "The boat key hangs behind the blue clock, where nobody but Ida has ever looked in all those years."
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
NOISE = """
import os, subprocess
print("noise of an import")
class Redactor:
    def __init__(self, argument="", *, rules=None):
        from mnemosyne.privacy.redact import RegexRedactor
        self.redactor = RegexRedactor(rules) if rules is not None else RegexRedactor()
    async def redact(self, text, rules=None):
        print("noise of a call: " + text)
        os.write(1, b"noise of the system\\n")
        subprocess.run(["echo", "noise of a child"])
        return await self.redactor.redact(text, rules)
"""


async def fault_of(client, tool, **arguments):
    done = await client.call_tool(tool, arguments)
    assert done.is_error
    return done.content[0].text


@asynccontextmanager
async def serve(folder, **settings):
    """Give the requests of a service in this process, as a client of its ASGI application makes them."""
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none", **settings), ASSISTANT)
    async with app.router.lifespan_context(app):
        yield app


@asynccontextmanager
async def over_http(app, token=None, mode="auto"):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=headers) as transport,
        Client(streamable_http_client("http://127.0.0.1:8321/mcp", http_client=transport), mode=mode) as client,
    ):
        yield client


async def make_token(folder, tenant, scope=Scope.PLAY, viewer=None):
    async with using_records(str(folder / "store")) as records:
        return (await records.tokens.create(tenant, scope, viewer=viewer))[0]


async def test_a_turn_with_memory_over_standard_input_and_output(tmp_path):
    command = [
        "-m",
        "jacquard",
        "operate",
        "mcp",
        "--store",
        str(tmp_path / "store"),
        "--world",
        str(WORLD),
        "--embedder",
        "none",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=str(ROOT))
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            tools = Tools(client)
            await tools.ask("start_session", session_id="s")
            made = await tools.ask("remember_memory", session_id="s", text=FACT)
            await tools.ask("pin_memory", session_id="s", memory_id=made["edit_id"])
            assert FACT in await tools.prompt("I look around.")
            turn = (await client.read_resource("jacquard://sessions/s/messages")).contents[0]
            assert "I look around." in turn.text
            await tools.ask("set_state", session_id="s", changes={"hero.health": 42})
            assert (await tools.ask("get_state", session_id="s"))["hero"]["health"][0] == 42
            assert await tools.ask("list_lore", world_id="whispering_forest_en", query="brass key")
            fault = await fault_of(client, "add_lore", world_id="whispering_forest_en", text="A new one.")
            assert "is read from a folder" in fault
    lines = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert "mcp pin_memory" in {line.get("operation") for line in lines}
    assert FACT not in str(lines)


def test_nothing_but_the_protocol_reaches_standard_output(tmp_path):
    (tmp_path / "noisy.py").write_text(NOISE, encoding="utf-8")
    (tmp_path / "noisy-1.dist-info").mkdir()
    (tmp_path / "noisy-1.dist-info" / "METADATA").write_text("Name: noisy\nVersion: 1\n", encoding="utf-8")
    entry = "[jacquard.redactors]\nnoisy = noisy:Redactor\n"
    (tmp_path / "noisy-1.dist-info" / "entry_points.txt").write_text(entry, encoding="utf-8")
    settings = "profile: assistant\nredaction: {redactor: noisy}\n"
    (tmp_path / "settings.yaml").write_text(settings, encoding="utf-8")
    asked = [
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "start_session", "arguments": {"session_id": "s"}}},
        {
            "id": 3,
            "method": "tools/call",
            "params": {"name": "remember_memory", "arguments": {"session_id": "s", "text": FACT}},
        },
        {
            "id": 4,
            "method": "tools/call",
            "params": {
                "name": "remember_memory",
                "arguments": {"session_id": "s", "text": "C:\\ud800 has half \ud83d"},
            },
        },
    ]
    command = [sys.executable, "-m", "jacquard", "operate", "mcp", "--store", "store", "--config", "settings.yaml"]
    process = subprocess.Popen(
        [*command, "--embedder", "none"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
    )
    answers = {}
    for each in asked:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n")
        process.stdin.flush()
        if "id" in each:
            answer = json.loads(process.stdout.readline())
            answers[answer["id"]] = answer["result"]
    # The end of its input ends it.
    rest, log = process.communicate(timeout=120)
    assert (process.returncode, rest) == (0, b"")
    assert not answers[3]["isError"]
    assert "C:\\ud800 has half \ufffd" in answers[4]["structuredContent"].values()
    for noise in (b"noise of an import", b"noise of a call", b"noise of the system", b"noise of a child"):
        assert noise in log


async def test_tools_say_what_they_take_give_and_change(tmp_path):
    async with connect(tmp_path) as client:
        tools = (await client.list_tools()).tools
        assert client.instructions
    told = json.dumps([{"name": each.name, "doc": each.description, "in": each.input_schema} for each in tools])
    # Every request to a model carries this.
    assert CalibratedEstimator().estimate(told) < 2_250
    for each in tools:
        jsonschema.Draft202012Validator.check_schema(each.input_schema)
        jsonschema.Draft202012Validator.check_schema(each.output_schema)
        assert each.input_schema["additionalProperties"] is False
    hints = {each.name: each.annotations for each in tools}
    assert hints["search_memory"].read_only_hint
    assert hints["forget_memory"].destructive_hint
    assert not hints["remember_memory"].destructive_hint
    assert not any(each.open_world_hint for each in hints.values())


async def test_resources_and_prompts(tmp_path):
    async with connect(tmp_path) as client:
        tools = Tools(client)
        await tools.ask("start_session", session_id="a/b ä")
        turn = await tools.ask("prepare_turn", session_id="a/b ä", message="Hello.")
        receipt = json.loads((await client.read_resource(turn["receipt"])).contents[0].text)
        assert receipt["report"]["turn_id"] == turn["turn_id"]
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        assert "jacquard://sessions/a%2Fb%20%C3%A4" in listed
        for uri in listed:
            assert (await client.read_resource(uri)).contents[0].text
        templates = (await client.list_resource_templates()).resource_templates
        assert "jacquard://worlds/{world_id}" in {each.uri_template for each in templates}
        for uri in (
            "jacquard://nothing",
            "file:///etc/passwd",
            "jacquard://sessions/../worlds",
            "jacquard://sessions/no",
        ):
            with pytest.raises(MCPError, match="There is no"):
                await client.read_resource(uri)
        prompts = (await client.list_prompts()).prompts
        for each in prompts:
            given = {argument.name: "{s}" for argument in each.arguments}
            assert "{s}" in (await client.get_prompt(each.name, given)).messages[0].content.text
        for name, given in (("play", {}), ("play", {"session_id": "s", "more": "x"}), ("nothing", {})):
            with pytest.raises(MCPError, match="rompt"):
                await client.get_prompt(name, given)


async def test_what_memory_gave_a_model_does_not_come_back_as_new(tmp_path):
    async with connect(tmp_path) as client:
        tools = Tools(client)
        await tools.ask("start_session", session_id="s")
        known = await tools.ask("remember_memory", session_id="s", text=FACT)
        found = await tools.ask("search_memory", session_id="s", text="boat key")
        for text in (FACT, found[0]["text"], f"Note: {FACT}"):
            assert "Nothing of this text is new" in await fault_of(client, "remember_memory", session_id="s", text=text)
        said = "Remember that the ferryman sleeps on Mondays and takes no coin from widows of the northern bank."
        await tools.prompt(said)
        # What the user has just said was not recalled.
        mine = await tools.ask("remember_memory", session_id="s", text=said)
        assert (await tools.ask("get_memory", session_id="s", memory_id=mine["edit_id"]))["trust"] == "model"
        fixed = FACT.replace("blue clock", "green clock")
        edited = await tools.ask("edit_memory", session_id="s", memory_id=known["edit_id"], text=fixed)
        assert edited["after"] == fixed
        await tools.prompt("Where is the boat key?")
        assert "Nothing of this text is new" in await fault_of(client, "remember_memory", session_id="s", text=fixed)


async def test_wrong_calls_are_answered_with_what_is_wrong(tmp_path):
    async with connect(tmp_path) as client:
        await client.call_tool("start_session", {"session_id": "s"})
        with pytest.raises(MCPError, match="There is no tool 'nothing'; there are: list_sessions"):
            await client.call_tool("nothing", {})
        for arguments, sentence in (
            ({"session_id": "s"}, "search_memory needs 'text'"),
            (
                {"session_id": "s", "text": "x", "sql": 1},
                "has no argument 'sql'; it has: session_id, text, limit, viewer",
            ),
            ({"session_id": "s", "text": 5}, "wrong type: Expected `str`, got `int`"),
            ({"session_id": ["s"], "text": "x"}, "session_id of search_memory is \"['s']\"; give a text"),
            ({"session_id": "s", "text": "x", "viewer": 1}, "viewer of search_memory"),
            ({"session_id": "no", "text": "x"}, "There is no session 'no'"),
            ({"session_id": "s", "text": "x" * 200_000}, "200,000"),
            ({"session_id": "s", "text": "x" * 2_000_000}, "more than 1,000,000 characters"),
        ):
            assert sentence in await fault_of(client, "search_memory", **arguments)
        assert "a memory at most 20000" in await fault_of(client, "remember_memory", session_id="s", text="y" * 30_000)
        assert "limit is 'ten'" in await fault_of(client, "list_sessions", limit="ten")


async def test_null_leaves_an_optional_argument_out(tmp_path):
    async with connect(tmp_path) as client:
        tools = Tools(client)
        await tools.ask("start_session", session_id="s")
        await tools.ask("remember_memory", session_id="s", text=FACT, viewer=None)
        for limit in (None, 5.0, "5"):
            found = await tools.ask("search_memory", session_id="s", text="key", limit=limit, viewer=None)
            assert FACT in str(found)
        assert "needs 'text'" in await fault_of(client, "search_memory", session_id="s", text=None)


async def test_a_viewer_neither_sees_nor_edits_what_it_may_not_know(tmp_path):
    async with connect(tmp_path) as client:
        tools = Tools(client)
        await tools.ask("start_session", session_id="s")
        own = await tools.ask("remember_memory", session_id="s", text=FACT, viewer="elara")
        assert await tools.ask("search_memory", session_id="s", text="boat key", viewer="tom") == []
        assert await tools.ask("search_memory", session_id="s", text="boat key", viewer="elara")
        pin = await tools.ask("pin_memory", session_id="s", memory_id=own["edit_id"], viewer="elara")
        turn = await tools.ask("prepare_turn", session_id="s", message="Hello.", viewer="elara")
        assert FACT in str(turn["messages"])
    tom = Principal(scope=Scope.PLAY, viewer="tom")
    async with connect(tmp_path, tom) as client:
        tools = Tools(client)
        listed = (await client.list_tools()).tools
        assert all("viewer" not in each.input_schema["properties"] for each in listed)
        assert not {"explain", "get_state", "set_state", "list_lore"} & {each.name for each in listed}
        assert "bound to a viewer" in await fault_of(client, "get_state", session_id="s")
        assert "bound to the viewer 'tom'" in await fault_of(client, "memory_log", session_id="s", viewer="elara")
        assert await tools.ask("memory_log", session_id="s") == []
        for name in ("get_memory", "edit_memory", "pin_memory", "unpin_memory", "forget_memory", "supersede_memory"):
            given = {"text": "Mine."} if name == "edit_memory" else {}
            fault = await fault_of(client, name, session_id="s", memory_id=own["edit_id"], **given)
            assert ("There is no memory" in fault) or ("is not pinned" in fault), name
        assert "There is no edit" in await fault_of(client, "undo_memory_edit", session_id="s", edit_id=pin["edit_id"])
        with pytest.raises(MCPError, match="bound to a viewer"):
            await client.read_resource(turn["receipt"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http_a_token_opens_its_own_tenant_in_its_scope(tmp_path, mode):
    north = await make_token(tmp_path, "north", Scope.AUTHOR)
    south = await make_token(tmp_path, "south")
    async with serve(tmp_path, tenants=True) as app:
        async with over_http(app, north, mode) as client:
            tools = Tools(client)
            await tools.ask("start_session", session_id="s")
            made = await tools.ask("remember_memory", session_id="s", text=FACT)
            # The log names the token, not what a client calls itself.
            assert made["author"] == north.split("_")[1]
            assert FACT in await tools.prompt("Where is the boat key?")
            receipt = (await tools.ask("prepare_turn", session_id="s", message="And now?"))["receipt"]
        async with over_http(app, south, mode) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            assert not {"set_state", "add_lore", "edit_lore", "list_lore"} & names
            assert "needs a token of scope author" in await fault_of(client, "add_lore", world_id="w", text="x")
            assert await Tools(client).ask("list_sessions") == []
            for tool, given in (("search_memory", {"text": "boat"}), ("memory_log", {}), ("get_state", {})):
                assert "There is no session 's'" in await fault_of(client, tool, session_id="s", **given)
            with pytest.raises(MCPError, match="There is no session"):
                await client.read_resource(receipt)


async def test_over_http_nothing_is_open_but_to_those_who_may(tmp_path):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with serve(tmp_path, tenants=True, limits=ServiceLimits(body_bytes=10_000)) as app:
        token = await make_token(tmp_path, "north")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://memory.example") as client:
            assert (await client.post("/mcp", json=call, headers=accept)).status_code == 401
            own = {**accept, "Authorization": f"Bearer {token}"}
            assert len((await client.post("/mcp", json=call, headers=own)).json()["result"]["tools"]) > 10
            large = {**call, "params": {"x": "y" * 20_000}}
            assert (await client.post("/mcp", json=large, headers=own)).status_code == 413
            # A stream that waits for nothing would hold a place in the service.
            assert (await client.get("/mcp", headers=own)).status_code == 405
    async with serve(tmp_path) as app:
        for base, origin, status in (
            ("http://127.0.0.1:8321", "http://localhost:3000", 200),
            ("http://127.0.0.1:8321", "https://elsewhere.example", 403),
            ("http://elsewhere.example", None, 403),
        ):
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as client:
                headers = accept if origin is None else {**accept, "Origin": origin}
                assert (await client.post("/mcp", json=call, headers=headers)).status_code == status
