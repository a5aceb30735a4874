"""Bringing in a talk: who of it is the user, and how it goes on in a world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard import RuntimeConfig, open_runtime
from jacquard.cli.app import app

ROOT = Path(__file__).parents[2]
PACK = ROOT / "examples" / "whispering_forest" / "en"
TALK = [("Bea", "Hello! How can I help?"), ("Ann", "My sister keeps three goats in Porto."), ("Bea", "How nice!")]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words, code=0):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == code, done.output
        return done

    return call


def corpus(folder: Path, talk=TALK, roles=(), session="talk", name="corpus.jsonl") -> Path:
    rows = [
        {"id": f"d{n}", "chain": "history", "session": session, "speaker": speaker, "text": text}
        for n, (speaker, text) in enumerate(talk)
    ]
    for row, role in zip(rows, roles, strict=False):
        row |= {"role": role} if role else {}
    file = folder / name
    file.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return file


def roles_of(run, session="talk"):
    turns = json.loads(run("play", "history", "--session", session, "--json").stdout)["turns"]
    return [message["role"] for each in turns for message in each["messages"]]


@pytest.mark.parametrize(
    ("options", "roles", "expected", "said"),
    [
        ((), (), "uau", "user: Bea; assistant: Ann (the first speaker was taken for the user)"),
        (("--user", "Ann"), (), "aua", "user: Ann; assistant: Bea (as you say)"),
        (("--assistant", "Bea"), (), "aua", "user: Ann; assistant: Bea (as you say)"),
        ((), ("assistant", "user", "assistant"), "aua", "user: Ann; assistant: Bea (as the file says)"),
        ((), ("assistant",), "aua", "user: Ann; assistant: Bea (as the file says)"),
        (("--user", "Ann"), (None, None, "user"), "auu", "user: Ann; assistant: Bea (as you say)"),
    ],
)
def test_roles_come_from_the_file_the_options_or_a_rule_that_is_told(run, tmp_path, options, roles, expected, said):
    done = run("memory", "import", corpus(tmp_path, roles=roles), "--embedder", "none", *options)
    assert said in done.stderr
    assert ("--user NAME" in done.stderr) == ("first speaker" in said)
    assert [role[0] for role in roles_of(run)] == list(expected)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("assistant", "user"), "au"),
        (("Narrator", "Ann"), "au"),
        (("旁白", "玩家"), "au"),
        (("Ann", "AI"), "ua"),
        (("assistant", "assistant"), "aa"),
        ((None, "Ann"), "ua"),
    ],
)
def test_names_that_everybody_uses_are_understood(run, tmp_path, names, expected):
    talk = [(name, f"Words {n}.") for n, name in enumerate(names)]
    run("memory", "import", corpus(tmp_path, talk), "--embedder", "none", "--json")
    assert [role[0] for role in roles_of(run)] == list(expected)


def test_a_name_that_does_not_speak_and_a_role_that_is_none_are_errors(run, tmp_path):
    done = run("memory", "import", corpus(tmp_path), "--user", "Anne", "--embedder", "none", code=1)
    assert "'Anne' is not a speaker in it; did you mean 'Ann'? Its speakers: 'Bea', 'Ann'." in done.stderr
    assert json.loads(run("memory", "import", corpus(tmp_path), "--embedder", "none", "--json").stdout) == {
        "sessions": {"talk": 3}
    }
    done = run("memory", "import", corpus(tmp_path, roles=("narrator",)), "--session", "new", code=1)
    assert ":1: role: is 'narrator'; it must be user or assistant" in done.stderr
    lore = tmp_path / "lore.jsonl"
    lore.write_text(json.dumps({"id": "l", "chain": "lore", "text": "A gate.", "role": "gatekeeper"}))
    run("memory", "import", lore, "--session", "lore", "--embedder", "none")
    for option in ("--user", "--assistant", "--only"):
        assert run("memory", "import", PACK, option, "Ann", code=2)


def test_imported_again_a_session_keeps_its_roles_and_says_so(run, tmp_path):
    run("memory", "import", corpus(tmp_path), "--embedder", "none")
    done = run(
        "memory", "import", corpus(tmp_path, [*TALK, ("Ann", "And a cow.")]), "--user", "Ann", "--embedder", "none"
    )
    assert "session talk was there: the turns that it had keep their speakers' roles" in done.stderr
    assert roles_of(run) == ["user", "assistant", "user", "user"]


def test_a_corpus_goes_on_in_a_world(run, tmp_path):
    run("memory", "import", corpus(tmp_path), "--session", "s", "--world", PACK, "--user", "Ann", "--embedder", "none")
    check_world(run, "s")
    assert json.loads(run("memory", "import", corpus(tmp_path), "--session", "s", "--world", PACK, "--json").stdout)[
        "sessions"
    ] == {"s": 4}, "the input that waited for its reply counts"


@pytest.mark.parametrize("store", ["sqlite", "file", "postgresql"])
def test_a_session_that_never_had_a_pack_adopts_one(run, tmp_path, store, request):
    where = {"sqlite": "folder", "file": "file:plain"}.get(store) or request.getfixturevalue("postgres_url")
    run("memory", "import", corpus(tmp_path), "--session", "s", "--embedder", "none", "--store", where)
    before = json.loads(
        run(
            "play", "weave", "--session", "s", "--input", "goats?", "--store", where, "--embedder", "none", "--json"
        ).stdout
    )
    assert json.loads(run("play", "state", "--session", "s", "--store", where, "--json").stdout) == {}
    check_world(run, "s", "--store", where)
    run("author", "replay", before["report"]["turn_id"], "--session", "s", "--store", where)
    run("memory", "import", corpus(tmp_path), "--session", "s", "--embedder", "none", "--store", where)


def check_world(run, session, *store):
    turn = json.loads(
        run(
            "play",
            "weave",
            "--world",
            PACK,
            "--session",
            session,
            "--input",
            "Does the temple key open the gate?",
            *store,
            "--embedder",
            "none",
            "--json",
        ).stdout
    )
    assert "lore_temple_key" in turn["report"]["stream_b"]["selected"]
    prompt = turn["text"]
    for part in ("<active_quests>", "<status>", "three goats in Porto"):
        assert part in prompt
    state = json.loads(run("play", "state", "--session", session, *store, "--json").stdout)
    assert state["quests"]
    later = json.loads(
        run(
            "play", "weave", "--session", session, "--input", "And then?", *store, "--embedder", "none", "--json"
        ).stdout
    )
    assert "<active_quests>" in later["text"]


def test_a_session_of_another_world_is_refused(run, tmp_path):
    run("author", "init", "mine")
    run("memory", "import", "mine", "--session", "s", "--embedder", "none")
    for words in (
        ("play", "weave", "--session", "s", "--input", "hi"),
        ("memory", "import", corpus(tmp_path), "--session", "s"),
    ):
        done = run(*words, "--world", PACK, "--embedder", "none", code=1)
        assert "lives in world" in done.stderr
    assert roles_of(run, "s").count("user") == roles_of(run, "s").count("assistant")


@pytest.mark.anyio
async def test_a_state_that_a_turn_has_changed_is_not_taken_away(tmp_path):
    from mnemosyne import SessionStart
    from mnemosyne.core.errors import WorldNotAdoptedError

    async with open_runtime(tmp_path, embedder="none", config=RuntimeConfig(profile="story")) as runtime:
        await runtime.import_session(
            SessionStart(session_id="s", world_id="", locale="en", state={"hero": {"gold": 1}})
        )
        await runtime.engine.prepare_turn("s", "I find a coin.")
        reply = '<content>You do.</content><state_update>[["SET","hero.gold",2]]</state_update>'
        assert (await runtime.engine.commit_assistant_message("s", reply)).verdicts[0].is_applied
    async with open_runtime(tmp_path, world=PACK, embedder="none") as runtime:
        with pytest.raises(WorldNotAdoptedError, match="its state has been changed"):
            await runtime.ensure_session("s")
        assert await runtime.store.state_at("s", (await runtime.store.head("s")).turn_id) == {"hero": {"gold": 2}}
