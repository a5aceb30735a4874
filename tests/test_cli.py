"""The command line as a user types it: the example world, a whole session, bad input."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

FOREST = Path(__file__).parents[1] / "examples" / "whispering_forest"
SEED_QUESTION = "那把钥匙是不是开启神庙的?我记得之前提到过。"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.fixture
def weave(run):
    def call(text, *more, session="demo", world=FOREST / "zh"):
        args = [
            "play",
            "weave",
            "--world",
            world,
            "--session",
            session,
            "--input",
            text,
            "--embedder",
            "none",
            "--json",
            *more,
        ]
        return json.loads(run(*args).stdout)

    return call


def test_the_package_runs_as_the_command_does(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "jacquard", "author", "init", "world"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, (tmp_path / "world" / "world.yaml").is_file()) == (0, True)


def test_the_seeds_own_question_brings_the_temple_key_and_the_earlier_talk(weave):
    turn = weave(SEED_QUESTION)
    assert turn["plan"]["triage"] == "narrative"
    assert turn["plan"]["search_intent"]["temporal_context"] == "past"
    assert "神庙钥匙" in turn["plan"]["search_intent"]["focus_keywords"]
    system = turn["messages"][0]["content"]
    for part in (
        "<status>",
        "<active_quests>",
        "<guidance>",
        '<context_layer type="probabilistic"',
        "<knowledge_base>",
    ):
        assert part in system
    selected = turn["report"]["stream_b"]["selected"]
    assert "lore_temple_key" in selected
    assert any(entry.startswith("p0") or entry.startswith("macro") or entry.startswith("ev_") for entry in selected)
    last = turn["messages"][-1]
    assert last["role"] == "user"
    assert last["content"].endswith(f"<user_input>\n{SEED_QUESTION}\n</user_input>")


def test_the_english_twin_answers_the_same_question(weave):
    turn = weave("Is that the key that opens the temple? I remember it came up before.", world=FOREST / "en")
    assert "lore_temple_key" in turn["report"]["stream_b"]["selected"]


def test_the_json_has_the_shape_that_programs_rely_on(weave):
    turn = weave(SEED_QUESTION)
    assert {"messages", "text", "plan", "package", "report"} <= set(turn)
    report = turn["report"]
    assert report["stream_b"]["path"] == "heuristic"
    assert report["stream_b"]["code"] == "no_model"
    assert {"path", "reason", "model", "candidates", "selected"} <= set(report["stream_b"])
    assert {"block_id", "action", "code", "reason", "tokens"} <= set(report["decisions"][0])
    assert set(report["budget"]) >= {"limit_tokens", "used_tokens"}
    assert set(report["prefix"]) == {"shared_tokens", "total_tokens", "first_break", "stable_messages", "stable_chars"}
    assert report["timings_ms"]["total"] > 0
    assert [d["code"] for d in report["degradations"]] == ["no_embedder"]
    assert turn["package"]["version"] == "0.1"
    assert turn["package"]["user_message"]["content"] == SEED_QUESTION
    assert sum(span["tokens"] for span in report["spans"]) == report["budget"]["used_tokens"]


def test_the_same_turn_twice_gives_the_same_bytes(run, weave):
    first, second = weave(SEED_QUESTION), weave(SEED_QUESTION)
    assert first == second
    other = weave(SEED_QUESTION, session="other")
    assert other["messages"] == first["messages"]
    assert other["text"] == first["text"]
    turns = json.loads(run("play", "history", "--session", "demo", "--json").stdout)["turns"]
    assert turns[-1]["turn_id"] == "p040"


def test_a_session_is_played_committed_and_explained(run, weave):
    turn = weave(SEED_QUESTION)
    reply = '<thought>hm</thought><content>阿苇摇头。</content><state_update>[["SUB", "hero.gold", 1]]</state_update>'
    before = json.loads(run("play", "state", "--session", "demo", "--json").stdout)
    done = json.loads(run("play", "commit", "--session", "demo", "--text", reply, "--json").stdout)
    assert done["content"] == "阿苇摇头。"
    assert done["refused"] is None
    assert [op["path"] for op in done["ops"]] == ["/hero/gold"]
    after = json.loads(run("play", "state", "--session", "demo", "--json").stdout)
    assert _plain(after["hero"]["gold"]) == _plain(before["hero"]["gold"]) - 1
    turns = json.loads(run("play", "history", "--session", "demo", "--json").stdout)["turns"]
    assert turns[-1]["turn_id"] == turn["turn_id"]
    explained = run("play", "explain", turn["turn_id"], "--session", "demo").stdout
    assert "lore_temple_key" in explained
    next_turn = weave("我们去找村长。")
    assert next_turn["report"]["prefix"]["shared_tokens"] > 0
    assert next_turn["report"]["prefix"]["first_break"]


def _plain(value):
    return value[0] if isinstance(value, list) else value


def test_an_op_that_is_refused_changes_nothing_but_the_talk_goes_on(run, weave):
    weave("我把钱都扔了。")
    before = run("play", "state", "--session", "demo", "--json").stdout
    reply = (
        '<content>好。</content><state_update>[["SUB","hero.gold",1],["SET","no_such_thing.count",0]]</state_update>'
    )
    done = json.loads(run("play", "commit", "--session", "demo", "--text", reply, "--json").stdout)
    assert "no_such_thing" in done["refused"]
    assert done["ops"] == []
    assert run("play", "state", "--session", "demo", "--json").stdout == before


def test_a_numerical_action_answers_without_a_model_and_stays_out_of_memory(run):
    args = ["--world", FOREST / "zh", "--session", "demo", "--json"]
    done = json.loads(run("play", "action", *args, "--input", "喝一瓶治疗药水").stdout)
    assert done["triage"] == "numerical"
    assert done["reply"]
    assert done["report"]["stream_b"]["path"] == "skipped"
    health = json.loads(run("play", "state", "--session", "demo", "--json").stdout)["hero"]["health"]
    assert _plain(health) > 85
    none = run("play", "action", "--world", FOREST / "zh", "--session", "demo", "--input", "我想念家乡的河", code=1)
    assert "No numerical action matches" in none.stderr


def test_a_fork_leaves_the_old_branch_as_it_is(run, weave):
    weave("往东走。")
    run("play", "commit", "--session", "demo", "--text", "你向东走去。")
    run("play", "fork", "--session", "demo", "--at", "p040", "--name", "west")
    turn = weave("往西走。")
    assert turn["branch_id"] == "west"
    assert "你向东走去" not in turn["text"]
    run("play", "commit", "--session", "demo", "--text", "你向西走去。")
    run("play", "switch", "--session", "demo", "--name", "main")
    assert "你向东走去" in run("play", "history", "--session", "demo", "--limit", 1).stdout


def test_both_layouts_hold_the_same_facts(weave):
    classic = weave(SEED_QUESTION, session="a")
    cached = weave(SEED_QUESTION, "--layout", "cache_first", session="b")
    assert cached["report"]["stream_b"]["selected"] == classic["report"]["stream_b"]["selected"]
    assert "<status>" not in cached["messages"][0]["content"]
    assert "<status>" in cached["messages"][-1]["content"]


def test_a_secret_reaches_nobody_who_may_not_know_it(weave):
    turn = weave("村长的秘密是什么?神庙钥匙在哪里?")
    told = json.dumps(turn, ensure_ascii=False)
    hidden = [entry for entry in _restricted() if entry in told]
    assert hidden == []


def _restricted():
    from mnemosyne import load_world

    return [entry.entry_id for entry in load_world(FOREST / "zh").lore if entry.viewers or entry.when]


def test_init_makes_a_pack_that_validates_and_plays(run, weave):
    run("author", "init", "mine")
    assert json.loads(run("author", "validate", "mine", "--json").stdout)["ok"]
    assert weave("Hello", world="mine", session="x")["messages"]
    again = run("author", "init", "mine", code=1)
    assert "mine" in again.stderr


def test_validate_warns_and_counts_in_words(run):
    run("author", "init", "mine")
    told = run("author", "validate", "mine")
    assert told.stderr == ""
    assert "lore: 6 (1 axiom, 1 agent, 3 encyclopedia, 1 directive)" in told.stdout
    assert "{" not in told.stdout
    assert "[" not in told.stdout
    with Path("mine/world.yaml").open("a", encoding="utf-8") as file:
        file.write("  skills: [hacking, sneaking]\n")
    told = run("author", "validate", "mine")
    assert told.stderr.startswith("warning: world.yaml:")
    assert "state.skills: has two texts" in told.stderr
    assert "is a good pack, with 1 warning." in told.stdout
    answer = json.loads(run("author", "validate", "mine", "--json").stdout)
    assert (answer["ok"], len(answer["warnings"])) == (True, 1)


def test_validate_tells_all_faults_at_once(run):
    run("author", "init", "mine")
    Path("mine/planner.yaml").write_text("default_template: opera\n", encoding="utf-8")
    done = run("author", "validate", "mine", code=1)
    assert (
        "template 'opera' does not exist; there are: assistant, chat, coding, combat, dense, flashback, support"
        in done.stderr
    )
    with Path("mine/world.yaml").open("a", encoding="utf-8") as file:
        file.write("titel: typo\n")
    done = run("author", "validate", "mine", code=1)
    assert "world.yaml:" in done.stderr
    assert "title" in done.stderr


def test_a_template_of_the_pack_that_is_broken_is_named_with_its_line(run):
    run("author", "init", "mine")
    chat = Path("mine/templates/chat")
    chat.mkdir(parents=True)
    (chat / "guidance.j2").write_text("<guidance>\n{{ no_such_thing }}\n</guidance>\n", encoding="utf-8")
    args = ["play", "weave", "--world", "mine", "--session", "s", "--input", "Hello", "--embedder", "none"]
    done = run(*args, code=1)
    assert "guidance.j2:2" in done.stderr
    assert "no_such_thing" in done.stderr


def test_import_makes_sessions_from_a_corpus(run, monkeypatch):
    # What the conversation or its summary shows is no memory.
    monkeypatch.setenv("JACQUARD_HISTORY__MAX_MESSAGES", "20")
    monkeypatch.setenv("JACQUARD_SUMMARY__ENABLED", "false")
    lines = [
        {
            "id": f"d{n}",
            "chain": "history",
            "session": "talk",
            "turn": n,
            "at": None,
            "speaker": "AB"[n % 2],
            "text": text,
            "meta": {},
        }
        for n, text in enumerate(
            ["My sister keeps three goats in Porto.", *["How nice!", "I am baking bread.", "Rye?"] * 40]
        )
    ]
    Path("corpus.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    made = json.loads(run("memory", "import", "corpus.jsonl", "--embedder", "none", "--json").stdout)
    assert made == {"sessions": {"talk": 121}}
    args = [
        "play",
        "weave",
        "--session",
        "talk",
        "--input",
        "What animals does the sister in Porto have?",
        "--embedder",
        "none",
        "--json",
    ]
    turn = json.loads(run(*args).stdout)
    chosen = turn["report"]["stream_b"]["selected"]
    assert chosen
    assert any("goats" in message["content"] for message in turn["messages"][:-1])


IN_FOREST = ["play", "weave", "--world", FOREST / "zh", "--session", "s", "--input"]


@pytest.mark.parametrize(
    ("args", "say"),
    [
        (["play", "weave", "--session", "nobody", "--input", "hi"], "There is no session 'nobody'"),
        (["play", "weave", "--session", "nobody", "--input", "hi"], "with --world DIR, or with --profile assistant"),
        (["play", "state", "--session", "nobody"], "There is no session 'nobody'"),
        (["play", "weave", "--world", "no_such_folder", "--session", "s", "--input", "hi"], "no_such_folder"),
        (["memory", "import", "no_such.jsonl"], "no_such.jsonl"),
        (
            [*IN_FOREST, "hi", "--layout", "sideways"],
            "Known layouts",
        ),
        ([*IN_FOREST, "hi", "--template", "opera"], "opera"),
        ([*IN_FOREST, "  "], "empty"),
        (
            [
                "play",
                "weave",
                "--world",
                FOREST / "zh",
                "--session",
                "s",
                "--input",
                "hi",
                "--budget",
                "300",
                "--reserve",
                "10",
            ],
            "What must be kept",
        ),
        (
            [*IN_FOREST, "hi", "--embedder", "no_such_model"],
            "no_such_model",
        ),
        (["play", "commit", "--session", "s", "--text", "x", "--file", "y"], "one of them"),
    ],
)
def test_bad_input_says_what_is_wrong_and_fails(run, args, say):
    if "--embedder" not in args and args[1] == "weave":
        args = [*args, "--embedder", "none"]
    code = 2 if "--file" in args else 1
    done = run(*args, code=code)
    assert say in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""


def test_a_turn_that_does_not_fit_leaves_nothing_behind(run, weave):
    run("memory", "import", FOREST / "zh", "--session", "demo", "--embedder", "none")
    args = ["--world", FOREST / "zh", "--session", "demo", "--input", "你好", "--embedder", "none"]
    run("play", "weave", *args, "--budget", 300, "--reserve", 10, code=1)
    done = run("play", "explain", "--session", "demo", code=1)
    assert "p040 was imported" in done.stderr


def test_a_locked_database_is_named_and_nothing_is_written(run, weave):
    weave("你好")
    lock = sqlite3.connect(Path(".jacquard") / "store.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    try:
        done = run("play", "commit", "--session", "demo", "--text", "好", code=1)
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    assert "stayed locked" in done.stderr
    run("play", "commit", "--session", "demo", "--text", "好")
