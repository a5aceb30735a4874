"""The files of a pack: which must be there, which are passed over, and what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mnemosyne import WorldPackError, load_world
from mnemosyne.world.scaffold import starter_files


def write_pack(folder: Path, changes: Mapping[str, bytes | str | None] | None = None) -> Path:
    files: dict[str, bytes | str | None] = {**starter_files("en"), **(changes or {})}
    for name, data in files.items():
        if data is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return folder


def faults_of(folder: Path) -> tuple[str, ...]:
    with pytest.raises(WorldPackError) as caught:
        load_world(folder)
    return caught.value.faults


def test_an_empty_folder(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path)
    assert fault.startswith("world.yaml: is missing")
    assert "is an empty folder" in fault


def test_a_folder_without_a_world(tmp_path: Path) -> None:
    (fault,) = faults_of(write_pack(tmp_path, {"world.yaml": None}))
    assert fault.startswith("world.yaml: is missing")


def test_no_folder_at_all(tmp_path: Path) -> None:
    (missing,) = faults_of(tmp_path / "nowhere")
    assert missing == f"{tmp_path / 'nowhere'}: does not exist; name the folder that holds world.yaml"
    file = tmp_path / "file"
    file.write_text("x")
    (fault,) = faults_of(file)
    assert "is not a folder" in fault


@pytest.mark.parametrize("name", ["world.yaml", "quests.yaml", "lore/empty.yaml", "planner.yaml"])
@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n"])
def test_an_empty_file(name: str, text: str, tmp_path: Path) -> None:
    (fault,) = [each for each in faults_of(write_pack(tmp_path, {name: text})) if each.startswith(name)]
    assert "is empty; fill it in, or remove the file" in fault


def test_an_unknown_yaml_file_is_not_ignored(tmp_path: Path) -> None:
    (fault,) = faults_of(write_pack(tmp_path, {"quest.yaml": "- 1"}))
    assert fault.startswith("quest.yaml:1: is not a file of a pack; did you mean 'quests.yaml'?")
    (tmp_path / "quest.yaml").unlink()
    (tmp_path / "Lore").mkdir()
    assert "did you mean 'lore'?" in faults_of(tmp_path)[0]


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    pack = write_pack(tmp_path, {"README.md": "x", ".hidden.yaml": "[", "map.png": b"\x89PNG", "notes/plan.yaml": "["})
    assert load_world(pack).digest == load_world(write_pack(tmp_path / "second")).digest


def test_a_lore_file_of_another_kind(tmp_path: Path) -> None:
    (fault,) = faults_of(write_pack(tmp_path, {"lore/notes.txt": "x"}))
    assert fault.startswith("lore/notes.txt:1: is not a lore file")


@pytest.mark.parametrize(
    ("encoding", "guess"), [("utf-16", "perhaps UTF-16"), ("gb18030", "perhaps GBK"), ("latin-1", "byte 0xe9")]
)
def test_a_wrong_encoding(encoding: str, guess: str, tmp_path: Path) -> None:
    text = "# first line\n- id: café\n" if encoding == "latin-1" else "# 第一行\n- id: 任务\n"
    (fault,) = [
        each for each in faults_of(write_pack(tmp_path, {"quests.yaml": text.encode(encoding)})) if "UTF-8" in each
    ]
    assert guess in fault
    assert fault.startswith("quests.yaml:2:" if encoding == "latin-1" else "quests.yaml:1:")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    base = starter_files("en")
    marked = {name: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n") for name, data in base.items()}
    assert load_world(write_pack(tmp_path, dict(marked))).title == "The Lighthouse at Gull Rock"


def test_a_link_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "secret.yaml"
    outside.write_text("- {id: lore_x, name: x, category: axiom, content: x}")
    pack = write_pack(tmp_path / "pack")
    (pack / "lore" / "x.yaml").symlink_to(outside)
    (fault,) = faults_of(pack)
    assert fault.startswith("lore/x.yaml:1: is a link that leads out of the pack")
    (pack / "lore" / "x.yaml").unlink()
    (pack / "lore" / "more").symlink_to(tmp_path, target_is_directory=True)
    (fault,) = faults_of(pack)
    assert fault.startswith("lore/more: is a link; put the folder itself into the pack")


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    pack = write_pack(tmp_path)
    (pack / "history.yaml").unlink()
    (pack / "history.yaml").symlink_to(pack / "nothing")
    (fault,) = faults_of(pack)
    assert fault.startswith("history.yaml: cannot be read")


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    pack = write_pack(tmp_path, {"history.yaml": None})
    (pack / "history.yaml").mkdir()
    (fault,) = faults_of(pack)
    assert fault.startswith("history.yaml:1: is not a regular file")


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    pack = write_pack(tmp_path)
    (pack / "templates").write_text("x")
    (fault,) = faults_of(pack)
    assert fault.startswith("templates: is not a folder")


def test_a_pipe_and_an_odd_name_do_not_stop_the_reader(tmp_path: Path) -> None:
    pack = write_pack(tmp_path)
    os.mkfifo(pack / "lore" / "pipe.yaml")
    (pack / "lore" / "odd\nname\udcff.yaml").write_text("- 1")
    odd, pipe = faults_of(pack)
    assert pipe == "lore/pipe.yaml:1: is not a regular file; put a file here"
    assert odd.startswith("lore/odd?name\ufffd.yaml:1: lore[0]: is a number, but must be a mapping")


def test_a_file_that_is_too_big(tmp_path: Path) -> None:
    (fault,) = faults_of(write_pack(tmp_path, {"lore/big.yaml": b"# " + b"x" * 16_000_000}))
    assert fault.startswith("lore/big.yaml:1: has more than 16,000,000 bytes; split it")


def test_deep_nesting_is_a_fault_and_no_crash(tmp_path: Path) -> None:
    for depth in (60, 20_000):
        text = starter_files("en")["world.yaml"].decode() + "  deep: " + "[" * depth + "]" * depth + "\n"
        assert all(fault.startswith("world.yaml:") for fault in faults_of(write_pack(tmp_path, {"world.yaml": text})))
