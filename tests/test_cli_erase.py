import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app
from mnemosyne import (
    Author,
    AuthorKind,
    Evidence,
    EvidenceSource,
    EvidenceType,
    Message,
    Role,
    SessionStart,
    SourceKind,
    open_store,
)
from mnemosyne.schema.record import ImportedTurn

SECRET = "My sister Ottoline keeps the quicksilver ledger behind the brewery at Harrowgate."
SECRET_ZH = "我姐姐把水银账册藏在酿酒坊的夹墙后面，没有人知道这件事。"
OTHER = "The ferryman takes three coins for the crossing."
AT = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture(params=["", "file:///"])
def place(request, tmp_path):
    """The address of a store in which two people talk and a tool said something, for two seconds."""
    folder = tmp_path / "place"
    address = f"{request.param}{folder}"

    async def fill():
        store = open_store(address)
        lin, kai = (Author(kind=AuthorKind.USER, id=name) for name in ("lin", "kai"))
        turns = (
            ImportedTurn(turn_id="p001", messages=(Message(role=Role.USER, content=SECRET, author=lin),)),
            ImportedTurn(turn_id="p002", messages=(Message(role=Role.USER, content=OTHER, author=kai),)),
            ImportedTurn(turn_id="p003", messages=(Message(role=Role.USER, content=SECRET_ZH, author=lin),)),
        )
        for name in ("s1", "s2"):
            start = SessionStart(
                session_id=name, world_id="w", locale="en", state={}, turns=turns[: 3 if name == "s1" else 2]
            )
            await store.create_session(start)
        evidence = Evidence(
            evidence_id="ev1",
            type=EvidenceType.TOOL_RESULT,
            source=EvidenceSource(kind=SourceKind.TOOL, name="harbour"),
            content="The Gannet left at dawn with nine barrels of lamp oil.",
            metadata={"asked_by": "lin"},
            created_at=AT,
            expires_at=AT + timedelta(seconds=2),
        )
        await store.put_evidence("s1", evidence)
        await store.close()

    anyio.run(fill)
    return address, folder


def erase(address, *options):
    return CliRunner().invoke(app, ["memory", "erase", "--store", address, "--embedder", "none", *options])


def bytes_with(folder: Path, text: str):
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


def test_a_user_is_forgotten_and_it_is_proved(place):
    address, folder = place
    dry = erase(address, "--user", "lin", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "sessions that stay, cleaned: s1, s2" in dry.output
    assert "messages: 3" in dry.output
    assert "Nothing was changed." in dry.output
    assert bytes_with(folder, SECRET)
    done = erase(address, "--user", "lin", "--reason", "asked to")
    assert done.exit_code == 0, done.output
    assert "nothing is left" in done.output
    assert "audit record" in done.output
    assert "not covered: In sessions that stay (s1, s2)" in done.output
    assert "the id still stands in 1 rows that others wrote: evidence" in done.output
    assert bytes_with(folder, SECRET) == bytes_with(folder, SECRET_ZH) == bytes_with(folder, "Ottoline") == []
    assert bytes_with(folder, OTHER)


def test_a_session_is_forgotten(place):
    address, folder = place
    done = erase(address, "--session", "s1", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["proved"]) == (0, True)
    (one,) = told["erasures"]
    assert one["sessions"] == ["s1"]
    assert one["counts"]["messages"] == 3
    assert one["proof"] | {"files": 0} == {
        "holds": True,
        "texts": 5,
        "files": 0,
        "elsewhere": 2,
        "places": [],
        "found_files": [],
        "mentions": [],
        "too_short": 0,
        "unsearched": 0,
    }
    assert any("other sessions" in sentence for sentence in one["not_covered"])
    assert bytes_with(folder, SECRET_ZH) == []
    assert bytes_with(folder, SECRET)


def test_evidence_is_found_by_its_id_alone(place):
    address, folder = place
    done = erase(address, "--evidence", "ev1")
    assert done.exit_code == 0, done.output
    assert "1 evidences" in done.output
    assert bytes_with(folder, "Gannet") == []
    again = erase(address, "--evidence", "ev1")
    assert again.exit_code == 1
    assert "No session has evidence 'ev1'" in again.stderr


def test_what_has_expired_is_swept(place):
    address, folder = place
    dry = erase(address, "--expired", "--dry-run")
    assert "evidences: 1" in dry.output
    done = erase(address, "--expired")
    assert done.exit_code == 0, done.output
    assert bytes_with(folder, "Gannet") == []
    assert "nothing to forget" in erase(address, "--expired").output


def test_a_sweep_empties_and_tells(place):
    address, folder = place
    done = CliRunner().invoke(app, ["operate", "sweep", "--store", address])
    assert (done.exit_code, done.output) == (0, "s1: 1 evidences emptied\n")
    # A journal keeps what was written until it is written anew; a sweep is no erasure.
    assert address.startswith("file") or bytes_with(folder, "Gannet") == []
    assert "Nothing has expired." in CliRunner().invoke(app, ["operate", "sweep", "--store", address]).output


def test_what_is_left_fails_and_is_named(place):
    address, folder = place
    if address.startswith("file"):
        (folder / "copy.txt").write_text(SECRET_ZH, encoding="utf-8")
        done = erase(address, "--session", "s1")
        assert done.exit_code == 1
        assert "copy.txt" in done.stderr
        assert "Not all is gone" in done.stderr


@pytest.mark.parametrize(
    "options", [(), ("--user", "a", "--session", "b"), ("--expired", "--user", "a"), ("--expired", "--evidence", "e")]
)
def test_one_thing_must_be_said(tmp_path, options):
    done = erase(str(tmp_path / "place"), *options)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
