"""A turn that is only looked at: it is what the real turn will be, and it leaves nothing behind."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from deadline_parts import deadline_by_hand
from hypothesis import given, settings
from hypothesis import strategies as st
from servers.openai_server import OpenAiServer
from typer.testing import CliRunner
from verb_faces import ASSISTANT, open_http, open_mcp

from jacquard import (
    ConsolidationConfig,
    CurationConfig,
    HistoryConfig,
    RuntimeConfig,
    SelectorConfig,
    SummaryConfig,
    create_context_engine,
    open_runtime,
    sync,
)
from jacquard.cli.app import app
from jacquard.config.service import ServiceSettings, TenantSettings
from jacquard.service.running.application import build_app
from mnemosyne import EvidenceSource, EvidenceType, MemoryStore, SessionNotFoundError, SourceKind, UserFact
from mnemosyne.core import codec
from mnemosyne.schema.memory import session_scope, world_scope

pytestmark = pytest.mark.anyio
FOREST = Path("examples/whispering_forest/zh")
QUESTION = "那把钥匙是不是开启神庙的?我记得之前提到过。"
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)")
PATIENT = CurationConfig(deadline_ms=60_000)
SHORT = {"trigger_message_count": 4, "preserve_recent_messages": 2, "timeout_ms": 60_000}


async def rows_of(store):
    rows = []

    def visit(row):
        rows.append(repr(row))
        return True

    await store.walk_rows(visit)
    return sorted(rows)


def bytes_of(folder):
    """All files of a store, but that in which SQLite counts its readers."""
    files = (file for file in folder.rglob("*") if file.is_file() and not file.name.endswith("-shm"))
    return {str(file): file.read_bytes() for file in files}


def seen(turn):
    """A prepared turn as JSON, without times and without how often its session was written."""
    report = replace(turn.report, timings_ms={})
    forms = replace(turn.forms, report=report, at_hand=None)
    plain = codec.to_plain(replace(turn, report=report, forms=forms, recorded=None, usages=(), version=0))
    return TIME.sub("T", json.dumps(plain, ensure_ascii=False, sort_keys=True))


async def dry_then_real(runtime, folder, text, config=None, session="s", **more):
    """Look at a turn twice, prepare it, and compare all three; return the real one."""
    assert await runtime.engine.settle(60)
    rows, files = await rows_of(runtime.store), bytes_of(folder)
    dry = [await runtime.engine.prepare_turn(session, text, config, dry_run=True, **more) for _ in range(2)]
    assert await runtime.engine.settle(60)
    assert await rows_of(runtime.store) == rows
    assert bytes_of(folder) == files
    real = await runtime.engine.prepare_turn(session, text, config, **more)
    assert [seen(each) for each in dry] == [seen(real)] * 2
    return real


STEPS = ["say", "say", "commit", "commit", "eat", "again", "own id", "rollback", "remember", "ingest"]


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=4, max_size=8))
def test_it_is_the_turn_that_follows_wherever_a_session_stands(tmp_path_factory, steps):
    anyio.run(play, tmp_path_factory.mktemp("store"), ["say", "commit", *steps, "say"])


async def play(folder, steps):
    config = RuntimeConfig(
        curation=PATIENT, history=HistoryConfig(max_messages=6), summary=SummaryConfig(**SHORT), locale="zh"
    )
    async with open_runtime(folder, world=FOREST, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        engine, waiting = runtime.engine, False
        for number, step in enumerate(steps):
            if step == "commit":
                if waiting:
                    await engine.commit_assistant_message("s", f"阿苇摇了摇头。{number}")
                waiting = False
            elif step == "rollback":
                turns = await runtime.store.turns("s", limit=3)
                await engine.rollback("s", turns[0].turn_id)
                waiting = False
            elif step == "remember":
                await engine.remember("林舟", [UserFact(text=f"第{number}件事是钥匙。")])
            elif step == "ingest":
                source = EvidenceSource(kind=SourceKind.TOOL, name="map")
                await engine.ingestor_of("s").ingest(f"钥匙在{number}号磨坊。", source, EvidenceType.TOOL_RESULT)
            elif step == "eat":
                await dry_then_real(runtime, folder, "吃一块面包")
                waiting = False
            else:
                said = QUESTION if step == "again" else f"{QUESTION}({number})"
                more = {"turn_id": f"mine-{number}"} if step == "own id" else {}
                await dry_then_real(runtime, folder, said, **more)
                waiting = True


async def test_a_session_that_is_not_there_is_prepared_as_if_it_were_new(tmp_path):
    config = RuntimeConfig(profile="assistant", curation=PATIENT)
    async with open_runtime(tmp_path, embedder="none", config=config) as runtime:
        with pytest.raises(SessionNotFoundError):
            await runtime.store.head("s")
        await dry_then_real(runtime, tmp_path, "Hello.", session="s")
        await runtime.engine.prepare_turn("t", "Hello.", dry_run=True)
        assert await runtime.store.sessions() == ("s",)


async def test_a_store_on_a_server_is_left_as_it_is(tmp_path, monkeypatch, postgres_url):
    monkeypatch.chdir(tmp_path)
    config = RuntimeConfig(profile="assistant", curation=PATIENT)
    async with open_runtime(postgres_url, embedder="none", config=config) as runtime:
        for number in range(3):
            await dry_then_real(runtime, tmp_path, f"Where is lamp {number}?")
            await runtime.engine.commit_assistant_message("s", f"Lamp {number} is here.")


async def test_a_pack_that_is_not_stored_is_read_and_its_new_session_recalls(tmp_path):
    config = RuntimeConfig(curation=PATIENT)
    async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
        rows, files = await rows_of(runtime.store), bytes_of(tmp_path)
        async with runtime.overlay() as looking:
            await looking.ensure_session("s")
            dry = await looking.engine.prepare_turn("s", QUESTION)
        assert await rows_of(runtime.store) == rows
        assert bytes_of(tmp_path) == files
        assert await runtime.index.count(session_scope("s")) == await runtime.index.count(world_scope("forest")) == 0
        await runtime.ensure_session("s")
        real = await runtime.engine.prepare_turn("s", QUESTION)
        assert seen(dry) == seen(real)
        assert "lore_temple_key" in real.report.stream_b.selected
        # A second session, whose world is indexed.
        async with runtime.overlay() as looking:
            await looking.ensure_session("t")
            dry = await looking.engine.prepare_turn("t", QUESTION)
        await runtime.ensure_session("t")
        assert seen(dry) == seen(await runtime.engine.prepare_turn("t", QUESTION))


@pytest.mark.parametrize("refuses", [False, True])
async def test_what_models_write_behind_a_turn_is_not_written(tmp_path, refuses):
    refusal = "status:401 no"
    with (
        OpenAiServer(refusal if refuses else "first:3") as chooser,
        OpenAiServer(refusal if refuses else "writer") as writer,
    ):
        asked = {"model": "openai/x", "api_base": writer.api_base}
        config = RuntimeConfig(
            curation=CurationConfig(deadline_ms=60_000, lease_turns=3),
            selector=SelectorConfig(model="openai/y", api_base=chooser.api_base, failure_limit=100),
            summary=SummaryConfig(**asked, **SHORT),
            consolidation=ConsolidationConfig(**asked, every_turns=1),
            history=HistoryConfig(max_messages=6),
        )
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
            await runtime.ensure_session("s")
            await runtime.warm()
            for number in range(4):
                await dry_then_real(runtime, tmp_path, f"{QUESTION}({number})")
                await runtime.engine.commit_assistant_message("s", "阿苇摇了摇头。")


async def test_a_choice_that_comes_late_is_not_kept(tmp_path):
    with OpenAiServer("slow:1") as server:
        config = RuntimeConfig(selector=SelectorConfig(model="openai/x", api_base=server.api_base), curation=PATIENT)
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
            await runtime.ensure_session("s")
            await runtime.warm()
            rows = await rows_of(runtime.store)
            look = partial(runtime.engine.prepare_turn, "s", QUESTION, dry_run=True)
            with deadline_by_hand(PATIENT) as deadline:
                turn = await deadline.missed(server, look)
            await anyio.sleep(1.5)
            assert await runtime.engine.settle(60)
            assert await rows_of(runtime.store) == rows
            assert "selection_late" in {each.code for each in turn.report.degradations}


async def test_an_engine_on_a_store_of_its_host_tells_nobody(tmp_path):
    store, told = MemoryStore(), []
    async with create_context_engine(store) as engine:
        await engine.prepare_turn("s", "One?")
        await engine.commit_assistant_message("s", "First.")
        engine.parts.events.on_all(lambda event: told.append(event))
        await engine.prepare_turn("s", "Two?", dry_run=True)
        await engine.prepare_turn("t", "Two?", dry_run=True)
        assert told == []
        assert await store.sessions() == ("s",)
        assert (await store.window("s", message_limit=1)).pending is None


def test_the_blocking_engine_looks_too():
    with sync.create_context_engine(MemoryStore()) as engine:
        turn = engine.prepare_turn("s", "Hello.", dry_run=True)
        assert turn.messages[-1]["content"] == "Hello."
        with pytest.raises(SessionNotFoundError):
            engine.branches("s")


def test_the_command_line_looks_at_a_turn_before_there_is_a_store(tmp_path, monkeypatch):
    world = shutil.copytree(FOREST, tmp_path / "world")
    monkeypatch.chdir(tmp_path)

    def weave(*more):
        line = [
            "play",
            "weave",
            "--session",
            "s",
            "--input",
            QUESTION,
            "--embedder",
            "none",
            "--deadline-ms",
            "60000",
            "--json",
        ]
        done = CliRunner().invoke(app, [*line, *more])
        assert done.exit_code == 0, done.output
        turn = json.loads(done.stdout)
        turn["report"]["timings_ms"] = {}
        return TIME.sub("T", json.dumps(turn, ensure_ascii=False))

    files = bytes_of(tmp_path)
    new = weave("--world", "world", "--dry-run")
    assert bytes_of(tmp_path) == files
    assert weave("--world", "world") == new
    # The author changes an entry and looks at the session that is there.
    lore = next(file for file in (world / "lore").iterdir() if "lore_temple_key" in file.read_text("utf-8"))
    lore.write_text(lore.read_text("utf-8").replace("唯一信物", "唯一信物（其实是铜的）"), "utf-8")
    files = bytes_of(tmp_path)
    changed = weave("--world", "world", "--dry-run")
    assert bytes_of(tmp_path) == files
    assert "其实是铜的" in changed
    assert weave("--world", "world") == changed


async def test_over_http_it_uses_no_quota_and_starts_no_session(tmp_path):
    service = ServiceSettings(
        store=str(tmp_path), embedder="none", each_tenant=TenantSettings(turns_a_minute=1, sessions=1)
    )
    application = build_app(service, ASSISTANT)
    transport = httpx.ASGITransport(application)
    client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1")
    async with application.router.lifespan_context(application), client:
        for _ in range(3):
            body = {"message": "Hello.", "dry_run": True}
            by_body = await client.post("/sessions/s/turns", json=body)
            by_query = await client.post("/sessions/s/turns?dry_run=true", json={"message": "Hello."})
            assert (by_body.status_code, by_query.status_code) == (200, 200)
            assert by_body.json()["messages"] == by_query.json()["messages"]
        assert (await client.get("/sessions")).json()["items"] == []
        real = await client.post("/sessions/s/turns", json={"message": "Hello."})
        assert real.json()["messages"] == by_body.json()["messages"]
        assert (await client.post("/sessions/s/turns", json={"message": "And?"})).status_code == 429


async def test_the_client_and_the_tools_look_too(tmp_path):
    async with open_http(tmp_path) as face:
        dry = await face.engine.prepare_turn("s", "Hello.", dry_run=True)
        assert dry.messages == (await face.engine.prepare_turn("s", "Hello.")).messages
    async with open_mcp(tmp_path) as face:
        ask = partial(face.ask, "prepare_turn", session_id="s", message="And then?")
        dry, real = await ask(dry_run=True), await ask()
        assert dry["messages"] == real["messages"]
        assert ("receipt" in dry, "receipt" in real) == (False, True)
