"""Zip archives are unpacked into a folder: without the top folder that all members share, and only as much as was allowed."""

from __future__ import annotations

import zipfile

import pytest

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.archives import unpack_archive


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return path


def names_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("members", "unpacked"),
    [
        (("vault/a.md", "vault/b/c.md"), ["a.md", "b/c.md"]),
        (("a.md", "b/c.md"), ["a.md", "b/c.md"]),
        (("vault/a.md", "other/b.md"), ["other/b.md", "vault/a.md"]),
        (("vault/a.md", "__MACOSX/vault/._a.md", "vault/.DS_Store"), ["a.md"]),
        (("灯塔/灯.md",), ["灯.md"]),
    ],
)
def test_members_are_unpacked_without_their_common_folder(tmp_path, members, unpacked):
    unpack_archive(zipped(tmp_path / "a.zip", **dict.fromkeys(members, "x")), tmp_path / "out", 1_000)
    assert names_in(tmp_path / "out") == unpacked


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", **{f"{number}.md": "x" * 30_000 for number in range(5)})
    with pytest.raises(CorpusError, match="unpacks to more than"):
        unpack_archive(path, tmp_path / "out", 100_000)


def test_a_file_that_is_no_archive_is_named(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK\3\4 nothing")
    with pytest.raises(CorpusError, match=r"a\.zip: cannot be read as a zip archive"):
        unpack_archive(tmp_path / "a.zip", tmp_path / "out", 1_000)
