"""`jacquard memory import` and `jacquard memory export` of cards, books and chats of other programs, as a user types them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Mira",
        "description": "{{char}} keeps the ferry at the north pier. She is sixty and fears nothing but fog.",
        "personality": "dry, patient",
        "scenario": "{{user}} has missed the last ferry.",
        "first_mes": "*{{char}} looks up from her rope.* Too late for today, {{user}}.",
        "mes_example": "<START>\n{{user}}: Is it far?\n{{char}}: Farther than you swim.",
        "creator_notes": "made for a test",
        "system_prompt": "",
        "post_history_instructions": "Keep replies short.",
        "alternate_greetings": ["*The pier is empty.*", "Morning, {{user}}."],
        "tags": ["harbour"],
        "creator": "someone",
        "character_version": "3",
        "extensions": {"talkativeness": "0.5", "own_tool": {"x": [1, 2]}},
        "character_book": {
            "name": "North Pier",
            "extensions": {},
            "entries": [
                {
                    "id": 7,
                    "keys": ["ferry", "boat"],
                    "content": "The ferry is called Heron and leaks a little.",
                    "extensions": {"probability": 80},
                    "enabled": True,
                    "insertion_order": 120,
                    "position": "after_char",
                    "comment": "the Heron",
                    "custom": "kept",
                }
            ],
        },
    },
}
BOOK = {
    "entries": {
        "0": {
            "uid": 0,
            "key": ["lighthouse", "灯塔"],
            "keysecondary": [],
            "comment": "Lighthouse",
            "content": "The lighthouse has been dark since the storm of 1911.",
            "constant": False,
            "order": 100,
            "position": 0,
            "sticky": 3,
            "homemade": {"a": 1},
        },
        "1": {
            "uid": 1,
            "key": [],
            "comment": "Law of the pier",
            "content": "Nobody sails after the bell.",
            "constant": True,
            "position": 0,
        },
        "2": {"uid": 2, "key": ["whale"], "content": "There are no whales.", "disable": True},
    },
    "name": "Coast",
    "own": True,
}
CHAT = [
    {
        "user_name": "Tom",
        "character_name": "Mira",
        "create_date": "2025-3-1@10h 0m 0s",
        "chat_metadata": {"tainted": True},
    },
    {"name": "Mira", "is_user": False, "mes": "Too late for today, Tom.", "send_date": "March 1, 2025 10:00am"},
    {"name": "Tom", "is_user": True, "mes": "When does the ferry go?", "send_date": "March 1, 2025 10:01am"},
    {
        "name": "Mira",
        "is_user": False,
        "mes": "At six. Bring a coat.",
        "send_date": "March 1, 2025 10:02am",
        "swipe_id": 1,
        "swipes": ["At seven.", "At six. Bring a coat."],
        "extra": {"api": "x", "model": "y"},
    },
    {"name": "Tom", "is_user": True, "mes": "I left my coat in the lighthouse.", "send_date": "March 1, 2025 10:03am"},
    {"name": "Mira", "is_user": False, "mes": "Then you will be cold.", "send_date": "March 1, 2025 10:04am"},
]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.fixture
def files(tmp_path):
    (tmp_path / "Mira.json").write_text(json.dumps(CARD), encoding="utf-8")
    (tmp_path / "Coast.json").write_text(json.dumps(BOOK, ensure_ascii=False), encoding="utf-8")
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, CHAT)) + "\n", encoding="utf-8")
    return tmp_path


def _import(run, files, *names, code=0, more=()):
    return run(
        "memory",
        "import",
        *(files / name for name in names),
        "--session",
        "mira",
        "--embedder",
        "none",
        *more,
        code=code,
    )


def _weave(run, text, session="mira"):
    return json.loads(
        run("play", "weave", "--session", session, "--input", text, "--embedder", "none", "--json").stdout
    )


def test_card_book_and_chat_become_one_session_that_goes_on(run, files):
    done = _import(run, files, "Mira.json", "Coast.json", "chat.jsonl")
    assert "session mira: 3 turns (3 new)" in done.stdout
    turn = _weave(run, "Tell me about the lighthouse.")
    prompt = turn["text"]
    assert "Mira keeps the ferry at the north pier" in prompt
    assert "Nobody sails after the bell." in prompt
    assert "dark since the storm of 1911" in prompt
    assert "Tom" in prompt
    assert "{{" not in prompt
    assert "There are no whales" not in prompt
    assert "Keep replies short." in prompt


def test_the_report_names_what_becomes_of_each_field_and_a_dry_run_writes_nothing(run, files):
    done = _import(run, files, "Mira.json", "Coast.json", "chat.jsonl", more=["--dry-run"])
    assert "Nothing was written" in done.stdout
    assert "homemade" in done.stdout
    told = json.loads(_import(run, files, "Mira.json", "Coast.json", "chat.jsonl", more=["--dry-run", "--json"]).stdout)
    assert [file["format"] for file in told["files"]] == ["card", "world-info", "chat"]
    assert told["written"] is None
    run("play", "history", "--session", "mira", code=1)


def test_fields_of_one_fate_are_told_in_one_line(run, files):
    lines = _import(run, files, "Coast.json", more=["--dry-run"]).stdout.splitlines()
    assert len(lines) == len({line.partition(":")[0] for line in lines})


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
def test_a_chat_with_a_byte_order_mark_is_recognised(run, files, encoding):
    mark = "" if encoding == "utf-8-sig" else "\ufeff"
    text = (files / "chat.jsonl").read_text(encoding="utf-8")
    (files / "marked.jsonl").write_bytes(f"{mark}{text}".encode(encoding))
    told = json.loads(_import(run, files, "marked.jsonl", more=["--dry-run", "--json"]).stdout)
    assert [(file["format"], file["chats"]) for file in told["files"]] == [("chat", {"marked": 3})]


def test_a_second_import_changes_nothing(run, files):
    names = ("Mira.json", "Coast.json", "chat.jsonl")
    _import(run, files, *names)
    before = run("play", "history", "--session", "mira", "--json").stdout
    told = json.loads(_import(run, files, *names, more=["--json"]).stdout)["written"]
    assert told["lore_changed"] == 0
    assert told["sessions"] == {"mira": {"turns": 3, "new": 0}}
    assert run("play", "history", "--session", "mira", "--json").stdout == before


def test_files_may_come_one_after_the_other(run, files):
    _import(run, files, "Mira.json")
    assert "Too late for today" in run("play", "history", "--session", "mira").stdout
    _import(run, files, "Coast.json")
    _import(run, files, "chat.jsonl")
    shown = run("play", "history", "--session", "mira").stdout
    assert shown.count("Too late for today") == 1
    assert "Then you will be cold." in shown
    prompt = _weave(run, "Tell me about the lighthouse.")["text"]
    assert "dark since the storm of 1911" in prompt
    assert "keeps the ferry" in prompt
    assert "Tom has missed the last ferry" in prompt


def test_other_replies_and_other_greetings_are_branches(run, files):
    _import(run, files, "chat.jsonl")
    told = json.loads(run("play", "history", "--session", "mira", "--json").stdout)
    others = [each["branch_id"] for each in told["branches"]][1:]
    assert len(others) == 1
    assert "At seven." in run("play", "history", "--session", "mira", "--branch", others[0]).stdout
    run("memory", "import", files / "Mira.json", "--session", "two", "--embedder", "none")
    names = [
        each["branch_id"]
        for each in json.loads(run("play", "history", "--session", "two", "--json").stdout)["branches"]
    ]
    assert names == ["main", "greeting-2", "greeting-3"]
    assert "The pier is empty" in run("play", "history", "--session", "two", "--branch", "greeting-2").stdout


def test_what_is_exported_is_what_was_imported(run, files):
    _import(run, files, "Mira.json", "Coast.json", "chat.jsonl")
    run("memory", "export", "mira", "--format", "world-info", "--name", "Coast", "--to", files / "book.json")
    book = json.loads((files / "book.json").read_text(encoding="utf-8"))
    for uid, entry in BOOK["entries"].items():
        assert {key: book["entries"][uid][key] for key in entry} == entry
    assert book["own"] is True
    run("memory", "export", "mira", "--format", "card", "--to", files / "card.json")
    card = json.loads((files / "card.json").read_text(encoding="utf-8"))
    data = {key: value for key, value in card["data"].items() if key != "character_book"}
    assert data == {key: value for key, value in CARD["data"].items() if key != "character_book"}
    entry = card["data"]["character_book"]["entries"][0]
    assert {key: entry[key] for key in ("id", "keys", "content", "enabled", "insertion_order", "custom")} == {
        key: CARD["data"]["character_book"]["entries"][0][key]
        for key in ("id", "keys", "content", "enabled", "insertion_order", "custom")
    }
    run("memory", "export", "mira", "--format", "chat", "--to", files / "out.jsonl")
    lines = [json.loads(line) for line in (files / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line.get("mes") for line in lines[1:]] == [line["mes"] for line in CHAT[1:]]
    assert lines[0]["chat_metadata"]["tainted"] is True
    assert sorted(lines[3]["swipes"]) == sorted(CHAT[3]["swipes"])
    run(
        "memory",
        "import",
        files / "card.json",
        files / "book.json",
        files / "out.jsonl",
        "--session",
        "back",
        "--embedder",
        "none",
    )
    run("memory", "export", "back", "--format", "card", "--to", files / "again.json")
    assert json.loads((files / "again.json").read_text(encoding="utf-8")) == card


def test_what_was_played_since_is_exported_under_the_names_of_the_chat(run, files):
    _import(run, files, "Mira.json", "chat.jsonl")
    _weave(run, "Is it cold?")
    run("play", "commit", "--session", "mira", "--text", "As the sea.")
    assert "wrote" in run("memory", "export", "mira", "--format", "chat", "--to", files / "out.jsonl").stderr
    lines = [json.loads(line) for line in (files / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["name"], line["mes"]) for line in lines[-2:]] == [("Tom", "Is it cold?"), ("Mira", "As the sea.")]
    assert all(line["send_date"] for line in lines[1:])


def test_activation_is_chosen_at_import_and_stays_that_of_a_pack(run, files):
    assert (
        "by sillytavern from now on" in _import(run, files, "Coast.json", more=["--activation", "sillytavern"]).stderr
    )
    pack = files / "pack"
    _import(run, files, "Coast.json", more=["--world", str(pack), "--session", "p"])
    told = _import(
        run, files, "Coast.json", more=["--world", str(pack), "--session", "p", "--activation", "sillytavern"]
    )
    assert "write `activation: sillytavern` there" in told.stderr


def test_a_card_is_written_as_a_png_and_read_again(run, files):
    _import(run, files, "Mira.json")
    run("memory", "export", "mira", "--format", "card", "--to", files / "mira.png")
    done = run("memory", "import", files / "mira.png", "--session", "png", "--embedder", "none")
    assert "card of Mira" in done.stdout
    assert "keeps the ferry" in _weave(run, "Hello?", session="png")["text"]


def test_a_world_is_written_as_a_pack_that_can_be_edited(run, files):
    pack = files / "pack"
    _import(run, files, "Mira.json", "Coast.json", more=["--world", pack])
    run("author", "validate", pack)
    assert (
        json.loads(_import(run, files, "Coast.json", more=["--world", pack, "--json"]).stdout)["written"]["files"] == []
    )
    lore = next((pack / "lore" / "imported").glob("coast*.yaml"))
    lore.write_text(lore.read_text(encoding="utf-8").replace("1911", "1912"), encoding="utf-8")
    changed = {**BOOK, "entries": {**BOOK["entries"], "3": {"uid": 3, "key": ["x"], "content": "New."}}}
    (files / "Coast.json").write_text(json.dumps(changed), encoding="utf-8")
    refused = _import(run, files, "Coast.json", more=["--world", pack], code=1)
    assert "was edited since the book was imported" in refused.stderr
    assert "1912" in lore.read_text(encoding="utf-8")


def test_the_world_of_a_session_is_written_to_a_folder_later(run, files):
    _import(run, files, "Mira.json", "chat.jsonl")
    pack = files / "later"
    _import(run, files, "Coast.json", more=["--world", str(pack)])
    lore = pack / "lore" / "imported" / "coast.yaml"
    lore.write_text(lore.read_text(encoding="utf-8").replace("- id:", "- viewers: [joss]\n  id:"), encoding="utf-8")
    asked = (
        "play",
        "weave",
        "--session",
        "mira",
        "--world",
        pack,
        "--embedder",
        "none",
        "--input",
        "The lighthouse?",
        "--viewer",
    )
    told = "dark since the storm of 1911"
    assert told in run(*asked, "joss").stdout
    assert told not in run(*asked, "mira").stdout
    # What was edited there is not replaced by what the store knows of the book.
    assert "Name that folder" in _import(run, files, "Coast.json", code=1).stderr
    assert _import(run, files, "chat.jsonl")
    run("author", "init", files / "own")
    refused = _import(run, files, "Coast.json", code=1, more=["--world", str(files / "own")])
    assert "Name another session" in refused.stderr
    assert not (files / "own" / "lore" / "imported").exists()


def test_a_book_comes_into_the_pack_of_an_author(run, files):
    run("author", "init", files / "own")
    before = (files / "own" / "world.yaml").read_bytes()
    _import(run, files, "Coast.json", "Mira.json", more=["--world", files / "own"])
    assert (files / "own" / "world.yaml").read_bytes() == before
    run("author", "validate", files / "own")
    prompt = _weave(run, "Tell me about the lighthouse and about Mira.")["text"]
    assert "dark since the storm of 1911" in prompt
    assert "keeps the ferry at the north pier" in prompt


def test_lore_of_another_world_needs_its_folder(run, files):
    run("author", "init", files / "own")
    run("memory", "import", files / "own", "--session", "mira", "--embedder", "none")
    refused = _import(run, files, "Coast.json", code=1)
    assert "--world DIR" in refused.stderr


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("broken.json", b'{"entries": {', "broken.json:1:"),
        ("gbk.json", '{"entries": {"0": {"content": "灯塔"}}}'.encode("gbk"), "save it as UTF-8"),
        ("empty.json", b"", "empty"),
        ("card.png", b"\x89PNG\r\n\x1a\n\x00\x00", "card.png"),
        ("thing.zip", b"PK\x03\x04nothing", "thing.zip"),
        ("list.json", b'{"hello": 1}', "--format"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_written(run, tmp_path, name, data, told):
    (tmp_path / name).write_bytes(data)
    refused = run("memory", "import", tmp_path / name, "--session", "mira", "--embedder", "none", code=1)
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr
    run("play", "history", "--session", "mira", code=1)


def test_notes_and_memories_of_other_programs_are_recalled(run, tmp_path):
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    (vault / "Heron.md").write_text(
        "---\nkeys: [heron]\n---\nThe Heron is a [[Ferries|ferry]] that leaks.", encoding="utf-8"
    )
    (tmp_path / "mem0.json").write_text(
        json.dumps({"results": [{"id": "m1", "memory": "Tom is afraid of herons.", "user_id": "tom"}]}),
        encoding="utf-8",
    )
    done = run("memory", "import", vault, tmp_path / "mem0.json", "--session", "notes", "--embedder", "none")
    assert "memories: 1 new of 1" in done.stdout
    prompt = _weave(run, "Is the heron safe, and is Tom afraid of it?", session="notes")["text"]
    assert "The Heron is a ferry that leaks." in prompt
    assert "Tom is afraid of herons." in prompt
    told = json.loads(
        run(
            "memory", "import", vault, tmp_path / "mem0.json", "--session", "notes", "--embedder", "none", "--json"
        ).stdout
    )["written"]
    assert (told["lore_changed"], told["memories"]) == (0, 0)


def test_entries_are_set_off_by_the_rules_of_sillytavern_where_that_is_wished(run, files):
    _import(run, files, "Mira.json", "Coast.json", more=["--activation", "sillytavern"])
    turn = _weave(run, "Tell me about the 灯塔.")
    assert "dark since the storm of 1911" in turn["text"]
    assert sorted(each["code"] for each in turn["report"]["activation"]) == ["constant", "key"]


def test_a_dialogue_of_two_lines_is_shown_as_a_dialogue(run, files):
    _import(run, files, "Mira.json")
    assert "User: Is it far?\n  Mira: Farther than you swim." in _weave(run, "Hello?")["text"]
