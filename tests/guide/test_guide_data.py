"""Every block of the guide that is no program is read by what reads such a text: settings, packs, sets, plays, JSON, TOML, XML."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cli_calls import call, find_command
from guide_blocks import PAGES, ROOT, Block, is_console, read_blocks

from docs.reference import list_errors
from evals.dataset import read_set
from evals.play.script.reading import read_play
from filament import load_yaml, parse_op
from jacquard import RuntimeConfig, config_from_yaml
from jacquard.config import extension_points
from jacquard.config.service import load_settings
from mnemosyne import plugins

BLOCKS = [block for page in PAGES for block in read_blocks(page)]
CHECKED = {
    "python": "tests/architecture/test_docs.py runs them",
    "console": "test_guide_commands.py runs them",
    "py": "below: parts of programs, which need a framework",
    "yaml": "below",
    "json": "below",
    "toml": "below",
    "xml": "below",
    "text": "below",
    "jinja": "written and linted by test_guide_commands.py, on the page of templates",
    "markdown": "loaded as part of a pack by tests/mnemosyne/test_world_load.py",
    "nginx": "not checked: there is no nginx in the tests",
}
"""Check of the blocks of each language."""


ERROR_CODES = {re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Error")).lower() for _, name, _ in list_errors()}
EXTENSION_GROUPS = {
    each.group
    for module in (plugins, extension_points)
    for each in vars(module).values()
    if isinstance(each, plugins.ExtensionPoint)
}


def blocks_of(language: str) -> list[Block]:
    """Return the blocks of a language."""
    return [block for block in BLOCKS if block.language == language]


def test_every_language_of_a_block_is_checked() -> None:
    assert {block.language for block in BLOCKS} == set(CHECKED)


def read_settings(text: str, folder: Path) -> None:
    """Read settings of a service and of turns."""
    (folder / "settings.yaml").write_text(text, encoding="utf-8")
    load_settings(folder / "settings.yaml", {})


def read_script(text: str, folder: Path) -> None:
    """Read the script of a play, with a world beside it."""
    play = folder / "harbour"
    play.mkdir()
    (play / "play.yaml").write_text(text, encoding="utf-8")
    (play / "world").symlink_to(ROOT / "examples" / "whispering_forest" / "en")
    assert read_play(play).turns


def read_pack_part(text: str, _: Path) -> None:
    """Read a part of a pack. The whole pack is loaded by tests/mnemosyne/test_world_load.py."""
    assert load_yaml(text)


def read_profile(text: str, folder: Path) -> None:
    """Play a turn of a pack that has a profile and its template."""
    pack = folder / "pack"
    call("author", "init", pack)
    call("author", "template", "new", "clerk", "--world", pack, "--from", "chat", "--blocks", "guidance")
    (pack / "templates" / "profiles").mkdir()
    (pack / "templates" / "profiles" / "clerk.yaml").write_text(text, encoding="utf-8")
    with (pack / "world.yaml").open("a", encoding="utf-8") as world:
        world.write("\nprofile: clerk\n")
    store = ("--store", folder / "store", "--embedder", "none")
    call("play", "weave", "--world", pack, "--session", "s", "--input", "Hello", *store)


READERS: dict[str, Callable[[str, Path], object]] = {
    "plays": read_script,
    "profiles": read_profile,
    "templates": read_pack_part,
    **dict.fromkeys(("pack-world", "pack-lore", "pack-quests", "pack-actions", "pack-planner"), read_pack_part),
}
"""Reader of the YAML of a page, by the name of the page; the YAML of all other pages is read as settings."""


@pytest.mark.parametrize("block", blocks_of("yaml"), ids=lambda block: block.place)
def test_yaml_is_read(block: Block, tmp_path: Path) -> None:
    READERS.get(block.page.stem, read_settings)(block.text, tmp_path)


def test_a_fault_in_settings_is_found(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="max_tokenz"):
        read_settings("service:\n  proxy: {max_tokenz: 3000}\n", tmp_path)
    assert config_from_yaml("budget: {max_input_tokens: 4600}") != RuntimeConfig()


@pytest.mark.parametrize("block", blocks_of("json"), ids=lambda block: block.place)
def test_json_is_read(block: Block, tmp_path: Path) -> None:
    value = json.loads(block.text)
    if "ops" in value:
        assert all(parse_op(op) for op in value["ops"])
    elif "error" in value:
        assert value["error"]["code"] in ERROR_CODES
    elif "mcpServers" in value:
        for server in value["mcpServers"].values():
            if "command" in server:
                words = [word for word in server["args"] if re.fullmatch("[a-z]+", word)]
                assert server["command"] == "jacquard"
                assert find_command(*words) is not None, words


@pytest.mark.parametrize("language", ["en", "zh"])
def test_lines_of_a_labelled_set_are_one(language: str, tmp_path: Path) -> None:
    lines = [block.text for block in blocks_of("json") if block.page == ROOT / "docs" / language / "evaluating.md"]
    if lines:
        (tmp_path / "corpus.jsonl").write_text(lines[0], encoding="utf-8")
        (tmp_path / "queries.jsonl").write_text(lines[1], encoding="utf-8")
        assert read_set(tmp_path).queries[0].relevant == {"t1:3": 2}


@pytest.mark.parametrize("block", blocks_of("toml"), ids=lambda block: block.place)
def test_toml_names_extension_points(block: Block) -> None:
    project = tomllib.loads(block.text)["project"]
    assert set(project.get("entry-points", {})) <= EXTENSION_GROUPS


@pytest.mark.parametrize("block", blocks_of("py"), ids=lambda block: block.place)
def test_parts_of_programs_name_what_there_is(block: Block) -> None:
    tree = compile(block.text, block.place, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jacquard"):
            found = find_spec(str(node.module))
            assert found is not None, node.module
            source = ast.parse(Path(str(found.origin)).read_text(encoding="utf-8"))
            named = {each.name for each in source.body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
            for each in ast.walk(source):
                named |= (
                    {name.asname or name.name for name in each.names} if isinstance(each, ast.ImportFrom) else set()
                )
            assert {alias.name for alias in node.names} <= named
        if isinstance(node, ast.Call) and any(word.arg == "params" for word in node.keywords):
            (params,) = [word.value for word in node.keywords if word.arg == "params"]
            words = [word for word in ast.literal_eval(params)["args"] if re.fullmatch("[a-z]+", word)]
            assert find_command(*words) is not None, words


@pytest.mark.parametrize("block", blocks_of("xml"), ids=lambda block: block.place)
def test_the_prompt_that_is_shown_is_that_of_the_example(block: Block, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    page = block.page.read_text(encoding="utf-8")
    (said,) = set(re.findall(r'prepare_turn\("demo", "([^"]+)"\)', page))
    (language,) = set(re.findall(r"whispering_forest/(en|zh)", page))
    world = ("--world", ROOT / "examples" / "whispering_forest" / language)
    shown = json.loads(
        call("play", "weave", *world, "--session", "s", "--input", said, "--embedder", "none", "--json").stdout
    )
    text = re.sub(r"\s+", " ", shown["text"])
    for line in filter(str.strip, block.text.splitlines()):
        parts = [part.strip() for part in re.split("…+", line) if part.strip()]
        assert [part for part in parts if re.sub(r"\s+", " ", part) not in text] == [], line


TEXTS = {
    "budget": "a sentence of a receipt; tests/jacquard has those of a state that is too large",
    "evaluating": "a fault of a set, in tests/evals/test_evals_run.py, and the fields of a report",
    "memory": "a summary without a model, in tests/jacquard/memory",
    "models": "the beginning of a layer of memories, in tests/jacquard/test_rationale.py",
    "world-packs": "faults of a pack, compared below",
}
"""Pages with blocks of plain text that are not commands, with what they are."""


def test_every_text_is_known() -> None:
    assert {block.page.stem for block in blocks_of("text") if not is_console(block)} <= set(TEXTS)


MISTAKES = {
    "world.yaml": ("aliases: ", "alias: "),
    "lore/places.yaml": ("category: encyclopedia", "category: encyclopaedia"),
    "quests.yaml": ("requires: [q_light]", "requires: [q_lihgt]"),
    "actions.yaml": ("path: hero.health", "path: hero.helth"),
}
"""Mistakes in each file of the starter pack, which cause the faults that the page on packs shows."""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_faults_that_are_shown_are_those_of_such_mistakes(language: str, tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    call("author", "init", pack)
    for name, (right, wrong) in MISTAKES.items():
        file = pack / name
        file.write_text(file.read_text(encoding="utf-8").replace(right, wrong, 1), encoding="utf-8")
    printed = strip_names(call("author", "validate", pack, codes=(1,)).output)
    (shown,) = [block for block in blocks_of("text") if block.page == ROOT / "docs" / language / "world-packs.md"]
    for line in shown.text.splitlines():
        file, _, sentence = line.split(": ", 2)
        assert file.split(":")[0] in MISTAKES
        assert strip_names(sentence) in printed


def strip_names(text: str) -> str:
    """Return a text without quoted names, on one line."""
    return re.sub(r"'[^']*'", "NAME", " ".join(text.split()))
