"""A session's world is in the store: no secret after an edit, the same bytes without the folder, and an error, never another
prompt, where the pack is missing.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pack_parts import (
    ASKED,
    AT_NIGHT,
    HIDDEN,
    LORE,
    NIGHT,
    OF_THE_CHIEF,
    SECRETS,
    WORLD,
    call,
    commit,
    weave,
    write_pack,
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder with the pack in it."""
    monkeypatch.chdir(tmp_path)
    write_pack(Path("pack"))
    return tmp_path


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def store(request):
    """The address of a store; commands run in the same folder as before."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return "store" if request.param == "sqlite" else "file:store"


def begin(store="store"):
    weave(ASKED, "--world", "pack", store=store)
    commit(store=store)


def shows(turn, texts):
    return [text for text in texts if text in turn["text"]]


# Secrets after an edit of the pack


def test_an_axiom_that_becomes_a_secret_is_not_shown(store):
    begin(store)
    write_pack(Path("pack"), LORE + SECRETS)
    turn = weave(ASKED, store=store)
    assert shows(turn, HIDDEN) == [], "the pack in the store is the one that was named"
    assert "Bread is holy" in turn["text"]
    turn = weave(ASKED, "--world", "pack", store=store)
    assert shows(turn, HIDDEN) == [], "nobody in particular is no chief"
    assert "Bread is holy" in turn["text"]
    turn = weave(ASKED, "--viewer", "chief", store=store)
    assert set(shows(turn, HIDDEN)) == {*OF_THE_CHIEF}
    assert shows(weave(ASKED, "--viewer", "cook", store=store), HIDDEN) == []


def test_what_was_open_and_becomes_a_secret_is_hidden_from_then_on(store):
    begin(store)
    assert "Bread is holy" in weave(ASKED, store=store)["text"]
    closed = LORE.replace("{id: ax_bread,", "{id: ax_bread, viewers: [chief],")
    closed = closed.replace("{id: di_wheel,", '{id: di_wheel, when: ["hero.gold > 100"],')
    write_pack(Path("pack"), closed)
    turn = weave(ASKED, store=store)
    assert "Bread is holy" in turn["text"], "an edit alone changes nothing"
    turn = weave(ASKED, "--world", "pack", store=store)
    assert shows(turn, ("Bread is holy", "wheel be heard")) == []
    assert shows(weave(ASKED, store=store), ("Bread is holy", "wheel be heard")) == []


def test_a_preview_of_an_edited_pack_shows_no_secret_and_writes_nothing(store):
    begin(store)
    write_pack(Path("pack"), LORE + SECRETS.replace("viewers: [chief], name: Grave", "name: Grave"))
    preview = ("author", "template", "preview", "--session", "s", "--store", store, "--input", ASKED, "--json")
    shown = json.loads(call(*preview, "--world", "pack").stdout)
    assert shows(shown, HIDDEN) == ["third sack"], "what is open in the folder is shown, what is gated there is not"
    assert shows(json.loads(call(*preview).stdout), HIDDEN) == []
    assert shows(weave(ASKED, store=store), HIDDEN) == []


# The folder is gone


def test_the_same_bytes_without_the_folder(store):
    begin(store)
    before = weave(AT_NIGHT, store=store)
    for part in ("Weir", "Bread is holy", "You tell what happens", "rule: owls answer"):
        assert part in before["text"]
    Path("pack").rename("elsewhere")
    after = weave(AT_NIGHT, store=store)
    assert (after["messages"], after["text"]) == (before["messages"], before["text"])
    other = weave(AT_NIGHT, "--turn", "mine", store=store)
    assert (other["messages"], other["text"]) == (before["messages"], before["text"]), "made anew, not from its record"
    assert (
        "2 gold are left"
        in call("play", "action", "--session", "s", "--store", store, "--input", "pay the miller").stdout
    )
    replayed = json.loads(call("author", "replay", "--session", "s", "--store", store, "--json").stdout)["turns"]
    assert [(turn["same"], turn["faults"], turn["template_fault"]) for turn in replayed] == [(True, [], "")] * 3
    for turn in replayed:
        assert [turn["templates"][key] for key in ("changed", "added", "removed", "blocks")] == [[], [], [], []]
    Path("other.yaml").write_text("layout: cache_first\ntemplate_id: night\n")
    call("author", "replay", "s", "--config", "other.yaml", "--store", store)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_copy_of_the_store_on_another_host_gives_the_same_bytes(here, monkeypatch, kind):
    store = "store" if kind == "sqlite" else "file:store"
    begin(store)
    other = here / "host"
    shutil.copytree("store", other / "store")
    here_told = weave(AT_NIGHT, store=store)
    shutil.rmtree("pack")
    monkeypatch.chdir(other)
    there_told = weave(AT_NIGHT, store=store)
    assert (there_told["turn_id"], there_told["messages"]) == (here_told["turn_id"], here_told["messages"])
    assert there_told["text"] == here_told["text"]
    (other / "store" / "worlds.json").unlink(missing_ok=True)
    again = weave(AT_NIGHT, "--turn", "mine", store=store)
    assert again["text"] == here_told["text"]


def test_two_hosts_of_one_server_give_the_same_bytes(here, monkeypatch, postgres_url):
    begin(postgres_url)
    here_told = weave(AT_NIGHT, "--turn", "one", store=postgres_url)
    shutil.rmtree("pack")
    host = here / "host"
    host.mkdir()
    monkeypatch.chdir(host)
    there_told = weave(AT_NIGHT, "--turn", "two", store=postgres_url)
    assert (there_told["messages"], there_told["text"]) == (here_told["messages"], here_told["text"])


def test_authors_still_look_at_templates_when_the_folder_is_gone():
    begin()
    weave(AT_NIGHT)
    preview = ("author", "template", "preview", "--session", "s", "--store", "store", "--json")
    assert json.loads(call(*preview).stdout)["recorded_same"] is True
    Path("pack/templates/night/guidance.j2").write_text(NIGHT.replace("owls", "foxes"))
    edited = json.loads(call(*preview).stdout)
    assert "foxes answer" in edited["text"], "an author sees the folder"
    assert edited["recorded_same"] is False
    shutil.rmtree("pack")
    gone = json.loads(call(*preview).stdout)
    assert (gone["recorded_same"], "owls answer" in gone["text"]) == (True, True)
    named = json.loads(call(*preview, "night").stdout)
    assert named["text"] == gone["text"]
    assert "turns" in call("author", "template", "diff", "night", "chat", "--session", "s", "--store", "store").stdout
    call("author", "template", "watch", "--session", "s", "--store", "store", "--renders", "1")


def test_a_fault_in_a_template_of_the_store_names_its_file_and_line():
    write_pack(Path("pack"), files={"templates/night/guidance.j2": "<guidance>\n{{ nowhere.x }}\n</guidance>\n"})
    begin()
    options = ("--session", "s", "--store", "store", "--input", AT_NIGHT, "--embedder", "none")
    named = call("play", "weave", *options, "--world", "pack", code=1).stderr
    assert "pack/templates/night/guidance.j2:2" in named
    shutil.rmtree("pack")
    told = call("play", "weave", *options, code=1).stderr
    assert "pack mill: templates/night/guidance.j2:2" in told
    assert "nowhere" in told


def test_layouts_of_a_pack_are_kept_too():
    layout = Path(__file__).parents[2] / "templates" / "layouts" / "cache_first.yaml"
    write_pack(Path("pack"), files={"templates/layouts/mine.yaml": layout.read_text()})
    begin()
    shutil.rmtree("pack")
    assert weave(ASKED, "--layout", "mine")["text"] == weave(ASKED, "--layout", "cache_first")["text"]
    options = ("--session", "s", "--input", ASKED, "--embedder", "none", "--store", "store")
    assert "mine" in call("play", "weave", *options, "--layout", "other", code=1).stderr


# The pack is missing


def test_a_missing_pack_is_an_error_and_never_another_prompt(store):
    begin(store)
    weave(AT_NIGHT, store=store)
    call("operate", "doc", "export", "s", "--store", store, "--out", "s.json")
    call("operate", "doc", "import", "s.json", "--store", "fresh")
    options = ("--session", "s", "--store", "fresh", "--input", ASKED, "--embedder", "none")
    for _ in range(2):
        told = call("play", "weave", *options, code=1)
        assert told.stdout == ""
        assert "'mill'" in told.stderr
        assert "--world DIR" in told.stderr
        assert "helpful agent" not in told.output
    for command in (
        ("play", "commit", "--text", "<content>No.</content>"),
        ("play", "action", "--input", "pay the miller"),
        ("author", "template", "preview"),
    ):
        assert "'mill'" in call(*command, "--session", "s", "--store", "fresh", code=1).stderr
    history = json.loads(call("play", "history", "--session", "s", "--store", "fresh", "--json").stdout)
    assert len(history["turns"]) == 1, "nothing was written"
    replayed = json.loads(call("author", "replay", "s", "--store", "fresh", "--json").stdout)["turns"]
    assert [turn["same"] for turn in replayed] == [True], "the bytes come from the record alone"
    assert "'mill'" in replayed[0]["template_fault"]
    call("operate", "doc", "export", "s", "--store", "fresh", "--out", "again.json")
    assert (
        json.loads(Path("again.json").read_text())["turn_tree"] == json.loads(Path("s.json").read_text())["turn_tree"]
    )
    weave(ASKED, "--world", "pack", store="fresh")
    shutil.rmtree("pack")
    assert "Bread is holy" in weave(AT_NIGHT, store="fresh")["text"]


def test_a_document_of_an_older_release_does_not_lose_its_world_in_silence():
    begin()
    call("operate", "doc", "export", "s", "--store", "store", "--out", "s.json")
    document = json.loads(Path("s.json").read_text())
    del document["turn_tree"]["has_pack"]
    Path("s.json").write_text(json.dumps(document))
    call("operate", "doc", "import", "s.json", "--store", "fresh")
    options = ("--session", "s", "--store", "fresh", "--input", ASKED, "--embedder", "none")
    assert "'mill'" in call("play", "weave", *options, code=1).stderr


def test_a_corpus_has_no_pack_by_design(store):
    lines = [
        {"id": f"t{n}", "chain": "history", "session": "talk", "turn": n, "speaker": speaker, "text": f"word {n}"}
        for n, speaker in enumerate(("Ann", "Bea"))
    ]
    Path("corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    call("memory", "import", "corpus.jsonl", "--store", store, "--embedder", "none")
    turn = weave("What was the word?", session="talk", store=store)
    assert "helpful agent" in turn["text"]
    call("play", "action", "--session", "talk", "--store", store, "--input", "pay the miller", code=1)
    call("author", "template", "preview", "--session", "talk", "--store", store)


# One broken pack, one damaged file


def two_worlds():
    begin()
    write_pack(Path("barn"), LORE.replace("mill", "barn"), {"world.yaml": WORLD.replace("id: mill", "id: barn")})
    weave(ASKED, "--world", "barn", session="b")


@pytest.mark.parametrize("damage", [b"", b"x", b"xyz", b"{}", b'{"format": 1}', b'{"format": 99, "pack": {}}', b"[1]"])
def test_a_pack_that_is_damaged_in_the_store_is_told_and_can_be_named_again(damage):
    two_worlds()
    with closing(sqlite3.connect("store/store.db")) as connection:
        connection.execute("UPDATE packs SET body = ? WHERE world_id = 'barn'", (damage,))
        connection.commit()
    assert "Bread is holy" in weave(ASKED)["text"]
    options = ("--session", "b", "--input", ASKED, "--embedder", "none", "--store", "store")
    told = call("play", "weave", *options, code=1).stderr
    assert "'barn'" in told
    assert "--world DIR" in told
    assert "Bread is holy" in weave(ASKED, "--world", "barn", session="b")["text"]
    assert "Bread is holy" in weave(ASKED, session="b")["text"]


NOTES = {
    "no json": b'{"mill": ',
    "a list": b'["mill"]',
    "a number": b'{"mill": 3}',
    "a nul": b'{"mill": "\\u0000"}',
    "not utf-8": b'{"mill": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "empty": b"",
}


@pytest.mark.parametrize("name", NOTES)
def test_damaged_notes_are_told_and_hinder_nothing_that_the_store_holds(name):
    begin()
    Path("store/worlds.json").write_bytes(NOTES[name])
    assert "Bread is holy" in weave(ASKED)["text"]
    call("play", "history", "--session", "s", "--store", "store")
    assert "worlds.json" in call("author", "template", "preview", "--session", "s", "--store", "store").stderr
    weave(ASKED, "--world", "pack")
    assert Path("store/worlds.json").read_bytes() == NOTES[name], "what cannot be read is not overwritten"


def test_reindex_knows_worlds_without_sessions():
    call("memory", "import", "pack", "--store", "store", "--embedder", "none")
    shutil.rmtree("pack")
    done = json.loads(call("operate", "reindex", "all", "--store", "store", "--embedder", "none", "--json").stdout)
    assert [scope["scope"] for scope in done["scopes"]] == ["world:mill"]


def test_erasing_what_a_player_said_leaves_the_prologue_of_the_pack(store):
    line = "I have walked since the second bell and my boots are full of the river."
    history = f"turns:\n  - user: {line}\n    assistant: Sit down by the stones.\n"
    write_pack(Path("pack"), files={"history.yaml": history})
    begin(store)
    done = json.loads(call("memory", "erase", "--user", "Lin", "--store", store, "--embedder", "none", "--json").stdout)
    assert done["proved"], done
    shutil.rmtree("pack")
    fresh = weave(ASKED, session="s", store=store)
    assert line not in fresh["text"]
    assert "Bread is holy" in fresh["text"]


def test_an_erased_session_may_be_called_like_a_word_of_the_pack(store):
    write_pack(Path("pack"), files={"lore/all.yaml": "[]\n"})
    weave(ASKED, "--world", "pack", session="patient", store=store)
    commit(session="patient", store=store)
    planned = json.loads(
        call("memory", "erase", "--session", "patient", "--store", store, "--dry-run", "--json").stdout
    )
    assert planned["erasures"][0]["whole"] == ["patient"]
    done = json.loads(
        call("memory", "erase", "--session", "patient", "--store", store, "--embedder", "none", "--json").stdout
    )
    assert done["proved"], done
