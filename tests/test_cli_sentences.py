"""Every command, given something damaged or wrong, ends with a sentence and an exit code, and never with a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

ROOT = Path(__file__).parents[1]
FOREST = ROOT / "examples" / "whispering_forest" / "en"
LATIN = "caf\xe9".encode("latin-1")
READING = [
    ["play", "explain", "-s", "s1"],
    ["play", "explain", "-s", "s1", "--find", "key", "--json"],
    ["play", "history", "-s", "s1"],
    ["play", "state", "-s", "s1"],
    ["author", "replay", "s1"],
    ["author", "replay", "s1", "--config", "play.yaml"],
    ["operate", "doc", "export", "s1"],
    ["operate", "doc", "export", "s1", "--linear"],
    ["memory", "source", "mnemosyne://session:s1/turn/p001"],
    ["author", "template", "preview", "-s", "s1"],
    ["author", "template", "diff", "chat", "combat", "-s", "s1"],
    ["memory", "erase", "-s", "s1", "--dry-run"],
    ["operate", "sweep"],
]
SHORT = [
    ["play", "commit", "-s", "s1", "--text", "<content>Yes.</content>"],
    ["play", "fork", "-s", "s1", "--at", "start", "--name", "b"],
]
WRITING = [
    ["play", "weave", "-s", "s1", "-i", "And now?", "--embedder", "none"],
    ["play", "weave", "-s", "s1", "-i", "Something else.", "--embedder", "none", "--json"],
    ["play", "commit", "-s", "s1", "--text", "<content>Yes.</content>"],
    ["play", "action", "-s", "s1", "-i", "rest"],
    ["play", "fork", "-s", "s1", "--at", "start", "--name", "third"],
    ["play", "switch", "-s", "s1", "--name", "main"],
    ["memory", "consolidate", "-s", "s1"],
    ["operate", "reindex", "--anew", "--embedder", "none"],
    ["memory", "erase", "-s", "s1", "--embedder", "none"],
]


def call(*args, given=None):
    return CliRunner().invoke(app, [str(arg) for arg in args], input=given)


def told(done):
    """Return what a command said when it failed; it must not be a traceback, nor an error that nobody foresaw."""
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert "Traceback" not in done.output
    assert "A fault of jacquard" not in done.output, done.output
    return done.stderr if done.exit_code else ""


def refused(done, *words):
    said = told(done)
    assert done.exit_code in (1, 2), done.output
    assert "error: " in said
    for word in words:
        assert word in said, said


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A folder with two stores in which a session was played: `sql` (SQLite) and `files`."""
    folder = tmp_path_factory.mktemp("played")
    for store in (folder / "sql", f"file:{folder / 'files'}"):
        for number, question in enumerate(("Is that the key that opens the temple?", "How far is it?")):
            replay_prompt = [
                "play",
                "weave",
                "-w",
                FOREST,
                "-s",
                "s1",
                "--store",
                store,
                "-i",
                question,
                "--embedder",
                "none",
            ]
            assert call(*replay_prompt).exit_code == 0
            reply = f'<content>She nods.</content><state_update>[["SUB", "hero.gold", {number + 1}]]</state_update>'
            assert call("play", "commit", "-s", "s1", "--store", store, "--text", reply).exit_code == 0
        assert call("play", "fork", "-s", "s1", "--store", store, "--at", "start", "--name", "again").exit_code == 0
        assert call("play", "switch", "-s", "s1", "--store", store, "--name", "main").exit_code == 0
        last = ["play", "weave", "-s", "s1", "--store", store, "-i", "And now?", "--embedder", "none"]
        assert call(*last).exit_code == 0
    return folder


@pytest.fixture
def here(played, tmp_path, monkeypatch):
    """A folder of its own to work in, with copies of both stores and a settings file."""
    monkeypatch.chdir(tmp_path)
    for store in ("sql", "files"):
        shutil.copytree(played / store, tmp_path / store)
    (tmp_path / "play.yaml").write_text("budget: {max_input_tokens: 4000}\n")
    return tmp_path


def flipped(data, chance):
    changed = bytearray(data)
    place = chance.randrange(len(changed))
    changed[place] ^= 1 << chance.randrange(8)
    return bytes(changed)


def mutated(value, chance):
    """Change one thing in a JSON value: the name of a key, or a value."""
    names = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not names:
        return value
    name = chance.choice(names)
    if isinstance(value[name], dict | list) and value[name] and chance.random() < 0.8:
        mutated(value[name], chance)
    elif isinstance(value, dict) and chance.random() < 0.5:
        value[f"{name}x"] = value.pop(name)
    else:
        value[name] = chance.choice((None, 5, "x", [], {}))
    return value


def damaged(data, how, chance):
    """Return stored bytes as a fault would leave them."""
    if how == "cut":
        return data[: chance.randrange(len(data))]
    if how == "flip":
        return flipped(data, chance)
    if how == "no UTF-8":
        return b"\xff\xfe" + data
    packed = data[:1] == b"x"
    changed = json.dumps(mutated(json.loads(zlib.decompress(data) if packed else data), chance)).encode()
    return zlib.compress(changed) if packed else changed


COLUMNS = [
    ("branch_states", "state"),
    ("snapshots", "state"),
    ("turns", "plan"),
    ("turns", "ops"),
    ("turns", "draft"),
    ("turns", "anchors"),
    ("turns", "kind"),
    ("turns", "status"),
    ("turns", "created_at"),
    ("papers", "receipt"),
    ("papers", "prompt"),
    ("papers", "report"),
    ("messages", "body"),
    ("entries", "body"),
    ("summaries", "body"),
    ("evidences", "body"),
    ("parts", "body"),
    ("branches", "head_turn"),
    ("sessions", "world_id"),
    ("sessions", "active_branch"),
]


HOW = ("flip", "cut", "no UTF-8", "another value")


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_damaged_column_ends_a_command_with_a_traceback(here, table, column):
    chance = random.Random(f"{table} {column}")
    damage_column(here, table, column, chance.choice(HOW), chance)
    for command in (chance.choice(READING), chance.choice(SHORT), WRITING[0]):
        told(call(*command, "--store", "sql"))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_command_ends_with_a_traceback_whatever_is_damaged(here, table, column, how, seed):
    chance = random.Random(f"{table} {column} {how} {seed}")
    damage_column(here, table, column, how, chance)
    for command in [*chance.sample(READING, 5), *chance.sample(WRITING[:-1], 3)]:
        told(call(*command, "--store", "sql"))


def damage_column(here, table, column, how, chance):
    """Damage the newest value of a column, if there is any."""
    with sqlite3.connect(here / "sql" / "store.db") as database:
        rows = (
            database.execute(f"SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
            if (table != "branches")
            else [(name, tip) for name, tip in database.execute("SELECT branch_id, head_turn FROM branches") if tip]
        )
        if not rows:
            return
        key, value = chance.choice(rows[-3:])
        text = isinstance(value, str)
        how = "flip" if text and how == "another value" else how
        new = damaged(value.encode() if text else value, how, chance)
        place = "branch_id" if table == "branches" else "rowid"
        cast = "cast(? AS text)" if text else "?"
        database.execute(f"UPDATE {table} SET {column} = {cast} WHERE {place} = ?", (new, key))
    database.close()


@pytest.mark.parametrize(
    "command", [["play", "explain", "-s", "s1"], WRITING[0], ["operate", "doc", "export", "s1"]], ids=lambda c: c[1]
)
@pytest.mark.parametrize("column", ["receipt", "prompt"])
def test_a_flipped_bit_in_a_paper_is_told_with_store_session_and_turn(here, column, command):
    """What shows this paper is refused; a turn and an export go on without it."""
    with sqlite3.connect(here / "sql" / "store.db") as database:
        for turn, paper in database.execute(f"SELECT turn, {column} FROM papers WHERE {column} IS NOT NULL").fetchall():
            changed = paper[:200] + bytes([paper[200] ^ 1]) + paper[201:]
            database.execute(f"UPDATE papers SET {column} = ? WHERE turn = ?", (changed, turn))
    database.close()
    done = call(*command, "--store", "sql")
    told(done)
    assert done.exit_code == (1 if command[1] == "explain" else 0), done.output
    for word in ("store.db", f"The {column} of papers/t0000", "'s1'", "damaged", "backup"):
        assert word in done.stderr


def test_a_receipt_that_is_json_but_no_receipt_is_told_with_its_turn(here):
    with sqlite3.connect(here / "sql" / "store.db") as database:
        database.execute("UPDATE papers SET receipt = ? WHERE receipt IS NOT NULL", (b'{"budget": 5}',))
    database.close()
    refused(call("play", "explain", "-s", "s1", "--store", "sql"), "receipt of turn 't0000", "session 's1'", "damaged")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["sessions", "worlds", "store.json"])
def test_no_damaged_file_of_a_file_store_ends_a_command_with_a_traceback(here, kind, how):
    damage_file(here, kind, how, random.Random(f"{kind} {how}"))
    for command in (READING[0], READING[2], SHORT[0]):
        told(call(*command, "--store", "file:files"))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["sessions", "worlds", "store.json"])
def test_no_command_ends_with_a_traceback_whatever_file_is_damaged(here, kind, how, seed):
    chance = random.Random(f"{kind} {how} {seed}")
    damage_file(here, kind, how, chance)
    for command in [*chance.sample(READING, 4), *chance.sample(WRITING[:-1], 3)]:
        told(call(*command, "--store", "file:files"))


def damage_file(here, kind, how, chance):
    """Damage a line of a file of the file store."""
    files = [file for file in (here / "files").rglob("*.jsonl") if kind in str(file)]
    file = chance.choice(files) if files else here / "files" / kind
    lines = file.read_bytes().splitlines(keepends=True)
    number = chance.randrange(len(lines))
    lines[number] = damaged(lines[number].rstrip(b"\n"), how, chance) + b"\n"
    file.write_bytes(b"".join(lines))


def test_a_damaged_line_of_a_journal_is_told_with_file_and_line(here):
    (file,) = (here / "files").rglob("sessions/*.jsonl")
    before, found, after = file.read_bytes().rpartition(b'"role":"user"')
    file.write_bytes(before + found.replace(b"user", b"usfr") + after)
    done = call("play", "history", "-s", "s1", "--store", "file:files")
    assert (told(done), done.exit_code) == ("", 0)
    for word in (file.name, "Line ", "damaged", "checksum", "jacquard operate check"):
        assert word in done.stderr


@pytest.fixture
def broken_files(here):
    """Files and folders that are not what a command takes them for."""
    (here / "latin.txt").write_bytes(LATIN)
    (here / "noise").write_bytes(bytes(range(256)))
    (here / "a_folder").mkdir()
    (here / "loop").symlink_to("loop")
    (here / "pack").mkdir()
    (here / "pack" / "world.yaml").write_bytes(b"id: " + LATIN)
    (here / "corpus").mkdir()
    (here / "corpus" / "corpus.jsonl").write_bytes(b'{"text": "' + LATIN + b'"}\n')
    return here


@pytest.mark.parametrize("file", ["latin.txt", "noise", "a_folder", "missing", "loop", "latin.txt/below"])
@pytest.mark.parametrize(
    "command",
    [
        ["play", "commit", "-s", "s1", "--store", "sql", "--file"],
        ["play", "commit", "-s", "s1", "--store", "sql", "--text", "x", "--config"],
        ["play", "action", "-s", "s1", "--store", "sql", "-i", "rest", "--config"],
        ["play", "weave", "-s", "s1", "--store", "sql", "-i", "x", "--config"],
        ["author", "replay", "s1", "--store", "sql", "--config"],
        ["memory", "consolidate", "-s", "s1", "--store", "sql", "--config"],
        ["author", "validate"],
        ["memory", "import", "--store", "new", "--embedder", "none"],
        ["operate", "doc", "validate"],
        ["operate", "doc", "import", "--store", "new"],
        ["operate", "doc", "migrate"],
        ["play", "weave", "-s", "s2", "--store", "new", "-i", "x", "--embedder", "none", "--world"],
        ["operate", "reindex", "--store", "sql", "--embedder", "none", "--world"],
        ["author", "template", "test"],
        ["author", "template", "new", "night", "--world"],
        ["author", "template", "preview", "--world"],
        ["author", "template", "watch", "--renders", "1", "--world"],
        ["play", "weave", "-s", "s1", "--store", "sql", "-i", "x", "--embedder", "none", "--reranker"],
        ["operate", "doc", "export", "s1", "--store", "nowhere", "-o"],
    ],
    ids=lambda command: " ".join(command[:2] + command[-1:]),
)
def test_a_file_that_is_none_or_no_utf_8_is_told_by_its_name(broken_files, command, file):
    done = call(*command, file)
    refused(done)
    if command[-1] != "-o" and file != "a_folder":
        assert file in done.stderr


@pytest.mark.parametrize("name", ["./missing", "/missing/model", "onnx:missing", "onnx:noise", "./noise"])
def test_an_embedder_that_is_not_there_is_told(broken_files, name):
    refused(
        call("play", "weave", "-s", "s1", "--store", "sql", "-i", "x", "--embedder", name), name.removeprefix("onnx:")
    )


@pytest.mark.parametrize("source", ["pack", "corpus"])
def test_what_is_imported_must_be_utf_8(broken_files, source):
    refused(call("memory", "import", source, "--store", "new", "--embedder", "none"), "UTF-8", ":1: ")


@pytest.mark.parametrize(
    "command",
    [
        ["play", "commit", "-s", "s1", "--text"],
        ["play", "weave", "-s", "s1", "-i"],
        ["play", "action", "-s", "s1", "-i"],
    ],
)
def test_standard_input_that_is_no_utf_8_is_told_and_nothing_happens(here, command):
    before = call("play", "history", "-s", "s1", "--store", "sql").output
    refused(call(*command, "-", "--store", "sql", given=b"one\n" + LATIN), "standard input:2", "UTF-8")
    assert call("play", "history", "-s", "s1", "--store", "sql").output == before


def test_standard_input_in_utf_8_is_taken_with_line_breaks_of_any_kind(here):
    done = call(
        "play", "commit", "-s", "s1", "--text", "-", "--store", "sql", given="<content>一\r\n二</content>".encode()
    )
    assert (done.exit_code, done.stdout) == (0, "一\n二\n")


def test_a_process_of_its_own_says_it_too(here):
    run = [sys.executable, "-m", "jacquard", "play", "commit", "-s", "s1", "--store", "sql"]
    done = subprocess.run([*run, "--text", "-"], input=LATIN, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"error: standard input:1: byte 3 is not UTF-8 text; save it as UTF-8.")


def a_folder_in_place_of(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.mkdir(parents=True)


STORES = {
    "a database that is a folder": lambda here: (a_folder_in_place_of(here / "sql" / "store.db"), "sql")[1],
    "a database that is text": lambda here: ((here / "sql" / "store.db").write_text("hello " * 999), "sql")[1],
    "a database that was cut": lambda here: (os.truncate(here / "sql" / "store.db", 9000), "sql")[1],
    "a log that is a folder": lambda here: (a_folder_in_place_of(here / "sql" / "store.db-wal"), "sql")[1],
    "a file for a folder": lambda here: str(here / "play.yaml"),
    "below a file": lambda here: str(here / "play.yaml" / "store"),
    "a folder for a file": lambda here: f"sqlite:///{here / 'sql'}",
    "no database": lambda here: f"sqlite:///{here / 'play.yaml'}",
    "another program's sign": lambda here: (
        (here / "files" / "store.json").write_text('{"program": "x", "format": 1}'),
        "file:files",
    )[1],
    "a sign that is a folder": lambda here: (a_folder_in_place_of(here / "files" / "store.json"), "file:files")[1],
    "journals that are folders": lambda here: (
        [a_folder_in_place_of(each) for each in [*(here / "files").rglob("*/sessions/*.jsonl")]],
        "file:files",
    )[1],
    "a server that is not there": lambda here: "postgresql://user:pass@127.0.0.1:9/games",
    "another program's address": lambda here: "mysql://user:pass@db/games",
    "nothing": lambda here: "",
}


@pytest.mark.parametrize("kind", STORES)
def test_a_store_that_cannot_be_used_is_told(here, kind):
    store = STORES[kind](here)
    for command in random.Random(kind).sample([*READING, *WRITING], 4):
        refused(call(*command, "--store", store))


@pytest.mark.full
@pytest.mark.parametrize("kind", STORES)
def test_a_store_that_cannot_be_used_is_told_by_every_command(here, kind):
    store = STORES[kind](here)
    for command in [*READING, *WRITING]:
        refused(call(*command, "--store", store))


def test_an_index_that_is_a_file_is_told_and_no_turn_is_lost(here):
    shutil.rmtree(here / "sql" / "index")
    (here / "sql" / "index").write_text("x")
    refused(call("operate", "reindex", "--store", "sql", "--embedder", "none"), "index", "is a file", "move that file")
    done = call(*WRITING[1], "--store", "sql")
    assert (told(done), done.exit_code) == ("", 0)
    assert json.loads(done.stdout)["messages"]


@pytest.mark.parametrize("place", ["a_folder", "missing/file.json", "latin.txt/below"])
def test_an_export_that_cannot_be_written_names_the_file_that_was_asked_for(broken_files, place):
    refused(call("operate", "doc", "export", "s1", "--store", "sql", "-o", place), f"{place}: cannot be written")
    assert not [file for file in broken_files.rglob(".*") if file.name.startswith((".a_folder", ".file", ".below"))]


def test_an_error_that_nobody_foresaw_is_one_sentence_too():
    def work():
        raise ZeroDivisionError("by nought")

    import typer

    from jacquard.cli.command_parts import run

    one = typer.Typer()

    @one.command()
    def command():
        run(work)

    done = CliRunner().invoke(one, [])
    assert done.exit_code == 1
    assert "ZeroDivisionError: by nought" in done.stderr
    assert "report" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_reply_to_no_turn_is_told_in_words(here):
    assert call(*SHORT[0], "--store", "sql").exit_code == 0
    refused(call(*SHORT[0], "--store", "sql"), "No turn of session 's1' waits for a reply", "jacquard play weave")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE papers SET receipt = 'x'::bytea || substr(receipt, 3)", "The receipt of papers/t0000"),
        ("UPDATE turns SET plan = '{' WHERE plan IS NOT NULL", "The plan of turns/t0000"),
        ("UPDATE branch_states SET state = '['", "The state of branch_states/main"),
        ("UPDATE turns SET kind = 'other'", "The row of turns/p0"),
    ],
)
def test_what_is_damaged_in_postgresql_is_told_too(postgres_url, tmp_path, monkeypatch, statement, what):
    psycopg = pytest.importorskip("psycopg")
    from mnemosyne.stores.locate import postgres_address

    monkeypatch.chdir(tmp_path)
    replay_prompt = [
        "play",
        "weave",
        "-w",
        FOREST,
        "-s",
        "s1",
        "--store",
        postgres_url,
        "-i",
        "And now?",
        "--embedder",
        "none",
    ]
    assert call(*replay_prompt).exit_code == 0
    address = postgres_address(postgres_url)
    with psycopg.connect(address.conninfo) as database:
        database.execute(f"SET search_path = {address.schema}")
        database.execute(statement)
    done = call(*WRITING[1], "--store", postgres_url)
    assert (told(done), done.exit_code) == ("", 0)
    assert any(each["code"] == "record_damaged" for each in json.loads(done.stdout)["report"]["degradations"])
    for word in (what, "damaged", "a backup brings it back"):
        assert word in done.stderr


def test_a_session_goes_on_after_the_damage_and_from_a_turn_before_it(here):
    with sqlite3.connect(here / "sql" / "store.db") as database:
        database.execute("UPDATE papers SET receipt = ?, prompt = ?", (b"{", b"x1"))
    database.close()
    done = call(*WRITING[0], "--store", "sql")
    assert (told(done), done.exit_code) == ("", 0)
    assert "damaged" in done.stderr
    assert told(call("play", "fork", "-s", "s1", "--at", "p001", "--name", "before", "--store", "sql")) == ""
    done = call("play", "weave", "-s", "s1", "-i", "Once more.", "--embedder", "none", "--store", "sql")
    assert (told(done), done.exit_code) == ("", 0)
