"""Two hosts, processes with stores, indexes and caches of their own, take the index of a world from object storage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.s3_server import S3Server, running_s3

PACK = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
WORLD = "whispering_forest_en"
INPUT = "Is that key the one that opens the temple?"


WORDS = ("--embedder", "none")
"""Where the vectors are of no concern: a process that embeds takes twice as long."""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture(scope="module")
def published(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of a snapshot without vectors, which lies at `words/`."""
    store = tmp_path_factory.mktemp("worker")
    given = (PACK, "--at", s3.address("words"), "--store", store, *WORDS, "--json")
    return str(json.loads(jacquard("operate", "snapshot", "publish", *given))["published"]["snapshot"])


def copy_published(from_server: S3Server, server: S3Server, prefix: str) -> None:
    """Copy the snapshot without vectors to another place."""
    for key in from_server.keys("words/"):
        body = from_server.client().get_object(Bucket=from_server.bucket, Key=key)["Body"].read()
        server.client().put_object(Bucket=server.bucket, Key=key.replace("words", prefix, 1), Body=body)


def jacquard(*words: object, settings: Path | None = None, code: int = 0) -> str:
    command = [
        sys.executable,
        "-m",
        "jacquard",
        *map(str, words),
        *(() if settings is None else ("--config", str(settings))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == code, done.stderr
    assert "hunter2pass" not in done.stdout + done.stderr
    return done.stdout


def settings_of(folder: Path, address: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "settings.yaml"
    file.write_text(json.dumps({"snapshots": {"address": address, "cache_folder": str(folder / "cache")}}))
    return file


def codes_of(made: dict[str, Any]) -> list[str]:
    """Return the codes of what a turn did without, except an encoder."""
    codes = [each["code"] for each in made["report"]["degradations"]]
    return [code for code in codes if code != "no_embedder"]


def weave(folder: Path, settings: Path | None, *more: str, session: str = "s1") -> tuple[str, list[str]]:
    """Prepare a turn in a process of its own; return its prompt, and the codes of what it did without."""
    given = ("--world", PACK, "--session", session, "--store", folder / "store", "--input", INPUT, "--json")
    made = json.loads(jacquard("play", "weave", *given, *more, settings=settings))
    return json.dumps(made["messages"]), codes_of(made)


def has_own_index(folder: Path) -> bool:
    return any((folder / "store" / "index").glob("world_*"))


def test_two_hosts_open_what_a_worker_has_published(s3: S3Server, tmp_path: Path) -> None:
    address = s3.address("two")
    made = json.loads(
        jacquard("operate", "snapshot", "publish", PACK, "--at", address, "--store", tmp_path / "worker", "--json")
    )
    assert made["published"]["rows"] == 85
    alone = weave(tmp_path / "alone", None)
    for name in ("one", "two"):
        assert weave(tmp_path / name, settings_of(tmp_path / name, address)) == alone
        assert not has_own_index(tmp_path / name)
    assert has_own_index(tmp_path / "alone")
    listed = json.loads(jacquard("operate", "snapshot", "list", WORLD, "--at", address, "--verify", "--json"))
    assert [(each["snapshot"], each["fault"]) for each in listed] == [(made["published"]["snapshot"], "")]


def test_a_torn_upload_is_refused_with_its_name(s3: S3Server, published: str, tmp_path: Path) -> None:
    address = s3.address("torn")
    copy_published(s3, s3, "torn")
    keys = s3.keys("torn/")
    largest = max(keys, key=lambda key: s3.client().head_object(Bucket=s3.bucket, Key=key)["ContentLength"])
    s3.client().put_object(Bucket=s3.bucket, Key=largest, Body=b"torn")
    said = jacquard("operate", "snapshot", "list", WORLD, "--at", address, "--verify", code=1)
    assert published in said
    assert "is not what was published" in said
    prompt, codes = weave(tmp_path / "host", settings_of(tmp_path / "host", address), *WORDS)
    assert codes == ["snapshot_damaged"]
    assert has_own_index(tmp_path / "host")
    assert prompt == weave(tmp_path / "alone", None, *WORDS)[0]
    gone = json.loads(jacquard("operate", "snapshot", "delete", WORLD, "--at", address, "--keep", "0", "--json"))
    assert gone["deleted"] == [published]
    assert [key for key in s3.keys("torn/") if not key.endswith("/")] == []


@pytest.mark.usefixtures("published")
def test_a_changed_world_and_a_storage_that_is_away_are_in_the_receipt(s3: S3Server, tmp_path: Path) -> None:
    with running_s3() as server:
        address = server.address("away")
        copy_published(s3, server, "away")
        settings = settings_of(tmp_path / "host", address)
        assert weave(tmp_path / "host", settings, *WORDS)[1] == []
        assert not has_own_index(tmp_path / "host")
    assert weave(tmp_path / "host", settings, *WORDS, session="s2")[1] == ["snapshot_unreachable"]
    assert not has_own_index(tmp_path / "host")
    new = settings_of(tmp_path / "new", address)
    assert weave(tmp_path / "new", new, *WORDS)[1] == ["snapshot_unreachable"]
    assert has_own_index(tmp_path / "new")


def test_lore_that_was_added_since_is_found_and_the_receipt_says_so(s3: S3Server, tmp_path: Path) -> None:
    address, store = s3.address("old"), tmp_path / "host" / "store"
    settings = settings_of(tmp_path / "host", address)
    jacquard("memory", "import", PACK, "--session", "s9", "--store", store, *WORDS)
    jacquard("operate", "snapshot", "publish", WORLD, "--at", address, "--store", store, *WORDS)
    said = "The lighthouse keeper Orsolya owes the miller nine goats."
    jacquard("memory", "lore", "add", WORLD, "--text", said, "--store", store)
    given = ("--session", "s9", "--store", store, "--input", "What does Orsolya the keeper owe the miller?", "--json")
    made = json.loads(jacquard("play", "weave", *given, *WORDS, settings=settings))
    assert codes_of(made) == ["snapshot_old"]
    assert "nine goats" in json.dumps(made["messages"])
