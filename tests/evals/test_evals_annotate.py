"""Marks on the command line are those of the studio: one store, one set, one gate."""

from __future__ import annotations

import io
import json
import zipfile

import anyio
import pytest
from typer.testing import CliRunner

from evals.app import app
from evals.dataset import read_set
from jacquard import MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.authoring.marks import export_marks, list_marks

FACTS = ("The boat key hangs behind the blue clock.", "船夫的女儿叫阿苇。")


@pytest.fixture
def session(tmp_path):
    """Return the address of a store and the ids of two memories that its session had before its turn."""
    store = str(tmp_path / "store")

    async def play():
        async with open_runtime(store, config=RuntimeConfig(profile="assistant"), embedder="none") as runtime:
            await runtime.ensure_session("s")
            verbs = MemoryVerbs(runtime)
            names = [(await verbs.remember("s", each)).edit_id for each in FACTS]
            await runtime.engine.prepare_turn("s", "Where is the boat key?", turn_id="t1")
            await runtime.engine.commit_assistant_message("s", "Behind the clock.", turn_id="t1")
            return names

    return store, anyio.run(play)


def annotate(store, *arguments):
    return CliRunner().invoke(app, ["annotate", "s", "--store", store, *map(str, arguments)])


def test_marks_are_stored_shown_and_taken_back(session):
    store, (boat, daughter) = session
    done = annotate(store, "--turn", "t1", "--wanted", boat, "--unwanted", daughter, "--author", "Mo")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [f"t1  wanted  {boat}", f"t1  unwanted  {daughter}"]
    again = annotate(store, "--turn", "t1", "--take-back", daughter)
    assert again.stdout.splitlines() == [f"t1  wanted  {boat}"]

    async def stored():
        async with open_runtime(store, config=RuntimeConfig(), embedder="none") as runtime:
            return await list_marks(runtime.store, "s")

    (mark,) = anyio.run(stored)
    assert (mark.memory_id, mark.wanted, mark.author) == (boat, True, "Mo")


def test_the_set_is_that_of_the_studio_and_has_a_gate(session, tmp_path):
    store, (boat, daughter) = session
    out = tmp_path / "marks"
    assert annotate(store, "--turn", "t1", "--wanted", boat, "--unwanted", daughter, "--out", out).exit_code == 0
    assert sorted(each.name for each in out.iterdir()) == ["corpus.jsonl", "gate.json", "queries.jsonl", "set.json"]
    (query,) = read_set(out).queries
    assert sorted(query.relevant.values()) == [0, 1]

    async def exported():
        async with open_runtime(store, config=RuntimeConfig(), embedder="none") as runtime:
            return await export_marks(runtime.store, "s")

    pack = zipfile.ZipFile(io.BytesIO(anyio.run(exported)))
    assert all(pack.read(name) == (out / name).read_bytes() for name in pack.namelist())
    run = ["gate", "--gate", str(out / "gate.json"), "--embedder", "none"]
    assert CliRunner().invoke(app, [*run, "--update"]).exit_code == 0
    kept = json.loads((out / "gate.json").read_text(encoding="utf-8"))["baseline"]
    assert kept
    assert annotate(store, "--out", out).exit_code == 0
    assert json.loads((out / "gate.json").read_text(encoding="utf-8"))["baseline"] == kept, "the kept figures stay"
    assert CliRunner().invoke(app, run).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--wanted", "x"], "A mark belongs to a turn; name it with --turn"),
        (["--turn", "t9", "--wanted", "x"], "t9"),
        (["--turn", "t1", "--wanted", "nothing"], "nothing"),
        (["--out", "{tmp}/set"], "has no marks yet"),
        (["--out", "{tmp}"], "holds other files (store); name a folder of its own"),
    ],
)
def test_what_cannot_be_marked_is_said(session, tmp_path, arguments, told):
    done = annotate(session[0], *(each.format(tmp=tmp_path) for each in arguments))
    assert done.exit_code == 1
    assert told in done.stderr
    assert "Traceback" not in done.output


def test_a_session_that_does_not_exist_is_said(session):
    done = CliRunner().invoke(app, ["annotate", "other", "--store", session[0]])
    assert done.exit_code == 1
    assert "other" in done.stderr
