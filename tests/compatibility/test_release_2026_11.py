"""What the release of November 2026 wrote opens, replays byte for byte, and goes on.

`release_2026_11/` holds two world packs, a settings file, and the same two sessions in each kind of store: a Chinese one with
refused ops, actions, a fork, a tool result, summaries and a turn that waits for its reply, and an English one. `prompts.json`
has the SHA-256 of every recorded prompt and state as that release read them. The files are never edited.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import tarfile
from pathlib import Path

import anyio
import psycopg
import pytest
from typer.testing import CliRunner

from jacquard import load_config, open_runtime
from jacquard.cli.app import app

DATA = Path(__file__).with_name("release_2026_11")
SCHEMA = "jacquard_before"
EXPECTED = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))
SESSIONS = {"zh-cache": "我再看看那张地图。", "en-classic": "I look for the brass key once more."}
CONFIGS = {"zh-cache": DATA / "settings.yaml", "en-classic": None}


def digest(value) -> str:
    """Return the SHA-256 of a JSON value, its keys in order."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


@pytest.fixture(params=["sqlite", "file", "postgres"])
def address(request, tmp_path, monkeypatch):
    """The address of a store as that release left it, with its packs where they lay."""
    monkeypatch.chdir(tmp_path)
    packs = tmp_path / "packs"
    shutil.copytree(DATA / "packs", packs)
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        with psycopg.connect(server.uri, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
            connection.execute(lzma.decompress((DATA / "postgres.sql.xz").read_bytes()))
        return f"{server.uri}&schema={SCHEMA}"
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    notes = tmp_path / request.param / "worlds.json"
    notes.write_text(notes.read_text(encoding="utf-8").replace("PACKS", str(packs)), encoding="utf-8")
    return str(tmp_path / "sqlite") if request.param == "sqlite" else f"file:{tmp_path / 'file'}"


@pytest.fixture
def worlds(address, tmp_path):
    """The pack to name for each session: on PostgreSQL this host knows of none yet."""
    fresh = address.startswith("postgresql")
    return {
        "zh-cache": tmp_path / "packs" / "zh" if fresh else None,
        "en-classic": tmp_path / "packs" / "en" if fresh else None,
    }


async def digests_of(store, session_id: str) -> dict[str, dict[str, str]]:
    """Return by turn the digests of its recorded prompt and of the state after it."""
    found = {}
    for head in await store.branches(session_id):
        window = await store.window(session_id, message_limit=1, branch_id=head.branch_id)
        records = await store.turns(session_id, limit=100, branch_id=head.branch_id)
        names = [record.turn_id for record in records] + ([window.pending.turn_id] if window.pending else [])
        for name in names:
            record = await store.turn(session_id, name)
            prompt = dict(record.prompt or {})
            found[name] = {
                "messages": digest(prompt.get("messages")),
                "text": digest(prompt.get("text")),
                "said": digest([message.content for message in record.messages]),
            }
            if record.status.value == "committed":
                found[name]["state"] = digest(await store.state_at(session_id, name))
    return found


@pytest.mark.parametrize("session_id", SESSIONS)
def test_records_and_states_read_as_they_were_written(address, session_id):
    async def read():
        async with open_runtime(address, embedder="none") as runtime:
            return await digests_of(runtime.store, session_id)

    assert anyio.run(read) == EXPECTED[session_id]


@pytest.mark.parametrize("session_id", SESSIONS)
def test_every_prompt_comes_out_again_byte_for_byte(address, session_id):
    done = CliRunner().invoke(app, ["replay", "--session", session_id, "--store", address, "--json"])
    assert done.exit_code == 0, done.output
    turns = json.loads(done.stdout)["turns"]
    assert turns
    assert all(turn["same"] and not turn["faults"] for turn in turns)


@pytest.mark.parametrize("session_id", SESSIONS)
def test_a_session_goes_on(address, worlds, session_id):
    config = load_config(CONFIGS[session_id], {})

    async def go_on():
        async with open_runtime(address, world=worlds[session_id], embedder="none", config=config) as runtime:
            before = await runtime.ensure_session(session_id)
            first = await runtime.engine.prepare_turn(session_id, SESSIONS[session_id])
            done = await runtime.engine.commit_assistant_message(session_id, "<content>…</content>")
            second = await runtime.engine.prepare_turn(session_id, "……")
            return before, first, done, second

    before, first, done, second = anyio.run(go_on)
    persona = {"zh-cache": "叙述者", "en-classic": "narrator"}[session_id]
    assert persona in first.text.lower()
    assert SESSIONS[session_id] in first.messages[-1].content
    assert done.refused is None
    # The input that waited in the Chinese session stays in the talk, as a turn without a reply.
    waited = {"zh-cache": 1, "en-classic": 0}[session_id]
    assert second.depth == first.depth + 1 == before.depth + 2 + waited
    assert ("还有别的路吗?\n<notice>" in first.text) == bool(waited)


def test_a_turn_that_waits_is_answered_from_its_record(address, worlds):
    config = load_config(DATA / "settings.yaml", {})

    async def ask_again():
        async with open_runtime(address, world=worlds["zh-cache"], embedder="none", config=config) as runtime:
            return await runtime.engine.prepare_turn("zh-cache", "还有别的路吗?")

    turn = anyio.run(ask_again)
    expected = EXPECTED["zh-cache"][turn.turn_id]
    assert digest(turn.text) == expected["text"]
    assert (
        digest([{"role": message.role, "content": message.content} for message in turn.messages])
        == (expected["messages"])
    )


@pytest.mark.parametrize("pack", ["zh", "en"])
def test_a_pack_is_still_a_good_pack(pack):
    done = CliRunner().invoke(app, ["validate", str(DATA / "packs" / pack)])
    assert done.exit_code == 0, done.output
