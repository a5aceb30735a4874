"""A kill at any moment of an erasure among the originals: the proof tells what is left, and the next erasure ends it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "mnemosyne"))

from kill_eraser import KILLED
from raw_search import bytes_of_folder, find_runs, runs_of

from mnemosyne import Author, AuthorKind, Erasure, Message, Role, SessionStart, open_store
from mnemosyne.evidence import FolderVault
from mnemosyne.privacy.forget import MemoryLocations, forget, prove
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.testing.stores.samples import AT, evidence

pytestmark = pytest.mark.anyio

SAID = "The quicksilver ledger lies behind the old brewery wall tonight."
OTHER = "Harrowgate ferry leaves at seven from the lower landing stage."


async def prepare(folder: Path) -> None:
    """A session of lin's own and one in which lin wrote, with originals that quote it; a writer was killed there once."""
    store, vault = open_store(f"sqlite:///{folder / 'store.db'}"), FolderVault(folder / "originals")
    for session_id, owner in (("own", "lin"), ("shared", "kai")):
        said = Message(role=Role.USER, content=SAID, author=Author(kind=AuthorKind.USER, id="lin"))
        also = Message(role=Role.USER, content=OTHER, author=Author(kind=AuthorKind.USER, id="kai"))
        turns = (ImportedTurn(turn_id="a", messages=(said,)), ImportedTurn(turn_id="b", messages=(also,)))
        await store.create_session(
            SessionStart(session_id=session_id, world_id="w1", locale="en", state={}, turns=turns)
        )
        await store.patch_session(session_id, {"meta": {"actor": {"user_id": owner}}})
        for number in range(2):
            await store.put_evidence(session_id, evidence(f"{session_id}.e{number}"))
            await vault.put(session_id, f"{session_id}.e{number}", f"{OTHER} {SAID} {number}")
    draft = next((folder / "originals").glob("*/*.json"))
    for place in (folder / "originals").iterdir():
        (place / f".{draft.name}.0123.new").write_text(f'{{"original": "{SAID} and half')
    await store.close()


async def check(folder: Path, number: int) -> None:
    runs = runs_of([SAID]) - runs_of([OTHER])
    vault = FolderVault(folder / "originals")
    store = open_store(f"sqlite:///{folder / 'store.db'}")
    place = MemoryLocations(store=store, vault=vault, folders=(folder / "originals",))
    left = find_runs(bytes_of_folder(folder / "originals"), runs)
    proof = await prove(place, [SAID])
    assert bool(proof.found_files) == bool(left), (number, left[:3], proof)
    again = await forget(place, Erasure(at=AT, user_id="lin"))
    assert again.done, (number, again.proof, again.faults)
    assert find_runs(bytes_of_folder(folder), runs) == [], number
    for evidence_id in ("shared.e0", "shared.e1"):
        kept = await vault.get("shared", evidence_id)
        assert kept is not None, number
        assert kept.startswith(OTHER), number
    assert [*(folder / "originals").glob("*/.*")] == []
    await store.close()


def test_a_kill_among_the_originals_leaves_nothing_that_the_next_erasure_does_not_end(tmp_path):
    anyio.run(prepare, tmp_path / "whole")
    eraser = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("kill_eraser.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert eraser.stdin is not None
    assert eraser.stdout is not None
    try:
        number, code = 0, -KILLED
        while code == -KILLED:
            number += 1
            copy = tmp_path / f"copy{number}"
            shutil.copytree(tmp_path / "whole", copy)
            eraser.stdin.write(f"{copy} {number}\n")
            eraser.stdin.flush()
            code = int(eraser.stdout.readline())
            anyio.run(check, copy, number)
        assert code == 0
        assert number > 12
    finally:
        eraser.stdin.close()
        eraser.wait()
        eraser.stdout.close()


@pytest.mark.parametrize("part", [0.3, 0.9])
async def test_an_original_that_was_half_overwritten_is_finished(tmp_path, part):
    await prepare(tmp_path)
    for file in (tmp_path / "originals").glob("*/*.json"):
        data = file.read_bytes()
        file.write_bytes(b"\0" * int(len(data) * part) + data[int(len(data) * part) :])
    store, vault = open_store(f"sqlite:///{tmp_path / 'store.db'}"), FolderVault(tmp_path / "originals")
    assert await vault.count(texts=[SAID]) == 4 + 2, "also what a killed writer has left"
    place = MemoryLocations(store=store, vault=vault, folders=(tmp_path / "originals",))
    assert (await forget(place, Erasure(at=AT, user_id="lin"))).done
    assert find_runs(bytes_of_folder(tmp_path), runs_of([SAID]) - runs_of([OTHER])) == []
    await store.close()
