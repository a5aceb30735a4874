"""The faces of the memory verbs as one: Python, HTTP, MCP and the command line, with the same methods and results as JSON."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import ClassVar

import httpx
from anyio import to_thread
from mcp import Client
from typer.testing import CliRunner

from jacquard import MemoryVerbs, RedactionConfig, RuntimeConfig, open_runtime
from jacquard.cli.app import app as command
from jacquard.client import RemoteEngine
from jacquard.config.service import ServiceSettings
from jacquard.service.access.principals import RequestNote
from jacquard.service.mcp.calls import Service
from jacquard.service.mcp.server import build_server
from jacquard.service.running.application import build_app
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal
from mnemosyne.core import codec

ASSISTANT = RuntimeConfig(profile="assistant")


def assistant(*, redacts):
    return replace(ASSISTANT, redaction=RedactionConfig(enabled=redacts))


def plain(value):
    """Return a value as JSON data, without what each face may leave out."""
    told = json.loads(codec.encode(value))
    return told["items"] if isinstance(told, dict) and set(told) == {"items"} else told


class Methods:
    """Verbs whose methods are those of `MemoryVerbs`, with the engine beside them."""

    def __init__(self, engine, verbs):
        self.engine, self.verbs = engine, verbs

    async def call(self, verb, *args, **options):
        return plain(await getattr(self.verbs, verb)(*args, **options))

    async def prompt(self, text):
        turn = await self.engine.prepare_turn("s", text)
        await self.engine.commit_assistant_message("s", "I see.", turn_id=turn.turn_id)
        return "\n".join(message.content for message in turn.messages)


class Tools:
    """The verbs as tools."""

    names: ClassVar = {
        "search": "search_memory",
        "memory": "get_memory",
        "facts": "list_facts",
        "remember": "remember_memory",
        "edit": "edit_memory",
        "supersede": "supersede_memory",
        "pin": "pin_memory",
        "unpin": "unpin_memory",
        "undo": "undo_memory_edit",
        "log": "memory_log",
        "forget": "forget_memory",
        "sessions": "list_sessions",
        "get_state": "get_state",
        "set_state": "set_state",
        "lore": "list_lore",
        "add_lore": "add_lore",
        "edit_lore": "edit_lore",
        "continue_session": "continue_session",
        "proposals": "memory_proposals",
        "accept": "accept_proposal",
        "reject": "reject_proposal",
    }
    second: ClassVar = {
        "undo": "edit_id",
        "search": "text",
        "remember": "text",
        "set_state": "changes",
        "continue_session": "new_session_id",
        "accept": "proposal_id",
        "reject": "proposal_id",
    }

    def __init__(self, client):
        self.client = client

    async def ask(self, tool, **arguments):
        done = await self.client.call_tool(tool, arguments)
        assert not done.is_error, done.content[0].text
        assert json.loads(done.content[0].text) == done.structured_content
        return plain(done.structured_content)

    async def call(self, verb, session, *args, **options):
        given = dict(zip((self.second.get(verb, "memory_id"), "text"), args, strict=False))
        told = await self.ask(self.names[verb], session_id=session, **given, **options)
        return told["evidence_ids"] if verb == "forget" else told

    async def prompt(self, text):
        turn = await self.ask("prepare_turn", session_id="s", message=text)
        await self.ask("commit_assistant_message", session_id="s", message="I see.", turn_id=turn["turn_id"])
        return "\n".join(message["content"] for message in turn["messages"])


class Commands:
    """The verbs as commands."""

    def __init__(self, folder, author, *, redacts):
        self.store, self.author, self.redacts = ["--store", str(folder / "store")], author, redacts

    def run(self, *args):
        env = {"JACQUARD_PROFILE": "assistant", "JACQUARD_REDACTION__ENABLED": str(self.redacts).lower()}
        done = CliRunner().invoke(command, [*args, *self.store], env=env)
        assert done.exit_code == 0, done.output
        return done.stdout

    async def ask(self, *args):
        return json.loads(await to_thread.run_sync(self.run, *args, "--json"))

    async def call(self, verb, session, *args, **options):
        said = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in options.items()
        ]
        by = ["--author", self.author] if verb not in ("search", "memory", "log", "proposals") else []
        embedder = ["--embedder", "none"] if verb == "search" else []
        if verb == "continue_session":
            return await self.ask("play", "sessions", "continue", session, *args, *by)
        told = await self.ask("memory", {"memory": "show"}.get(verb, verb), *args, *said, *by, *embedder, "-s", session)
        return told["evidence_ids"] if verb == "forget" else told

    async def prompt(self, text):
        turn = await self.ask("play", "weave", "-s", "s", "-i", text, "--embedder", "none")
        await to_thread.run_sync(self.run, "play", "commit", "-s", "s", "--text", "I see.")
        return "\n".join(message["content"] for message in turn["messages"])


@asynccontextmanager
async def open_python(folder, *, redacts=True):
    config = assistant(redacts=redacts)
    async with open_runtime(str(folder / "store"), embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        yield Methods(runtime.engine, MemoryVerbs(runtime, author="ana"))


@asynccontextmanager
async def open_http(folder, *, redacts=True):
    service = build_app(ServiceSettings(store=str(folder / "store"), embedder="none"), assistant(redacts=redacts))
    transport = httpx.ASGITransport(service)
    async with (
        service.router.lifespan_context(service),
        RemoteEngine("http://127.0.0.1", transport=transport) as engine,
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"})
        yield Methods(engine, engine.verbs(author="ana"))


@asynccontextmanager
async def connect(folder, principal=None, mode="auto", *, redacts=True, **settings):
    """Give a client of an MCP server in this process, on `folder / "store"`."""
    given = ServiceSettings(store=str(folder / "store"), embedder="none", **settings)
    who = principal or Principal()
    async with TenantRuntimes(given, assistant(redacts=redacts)) as tenants:
        server = build_server(Service(tenants=tenants), lambda _: RequestNote(principal=who))
        async with Client(server, mode=mode) as client:
            yield client


@asynccontextmanager
async def open_mcp(folder, *, redacts=True):
    async with connect(folder, Principal(author="ana"), redacts=redacts) as client:
        tools = Tools(client)
        await tools.ask("start_session", session_id="s")
        yield tools


@asynccontextmanager
async def open_command(folder, *, redacts=True):
    commands = Commands(folder, "ana", redacts=redacts)
    await commands.prompt("Hello.")
    yield commands


FACES = {"python": open_python, "http": open_http, "mcp": open_mcp, "command": open_command}
