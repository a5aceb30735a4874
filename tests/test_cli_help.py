"""Help of every command and faults in how it is called, in Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from unicodedata import east_asian_width

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.cli.help import read_chinese_help, split_help, translate_help
from jacquard.cli.language import take_language

_PROSE = re.compile(r"[A-Za-z][A-Za-z'’]*(?: [A-Za-z][A-Za-z'’]*){2,}")
_COMMAND = re.compile(r"`[^`]*`|jacquard [a-z \n]+|python -m jacquard[a-z ]*|--\S+ \S+")


def _walk(words: tuple[str, ...] = (), command: Any = None) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command and group with the words that call it."""
    command = command or get_command(app)
    yield words, command
    if isinstance(command, TyperGroup):
        for name in command.list_commands(None):  # type: ignore[arg-type]
            yield from _walk((*words, name), command.get_command(None, name))  # type: ignore[arg-type]


_COMMANDS = dict(_walk())


def _run(*words: str, **environment: str) -> Any:
    return CliRunner(env={"COLUMNS": "80", "LC_ALL": "", "LANG": "C", **environment}).invoke(app, list(words))


def _english(text: str) -> list[str]:
    return _PROSE.findall(_COMMAND.sub("", text))


def _paragraphs() -> set[str]:
    texts = [
        text for each in _COMMANDS.values() for text in (each.help, *(getattr(p, "help", "") for p in each.params))
    ]
    return {each for text in texts for each in split_help(text or "") if each}


def test_every_paragraph_of_help_has_its_chinese_and_no_row_is_left_over() -> None:
    assert _paragraphs() | {"Show this message and exit."} == set(read_chinese_help())


def test_a_chinese_paragraph_names_the_same_options_commands_and_values() -> None:
    code = re.compile(r"`[^`]*`|--[a-z][a-z-]*|\.[a-z]+(?=[,.])|[A-Z]{3,}(?:_[A-Z]+)*")
    for english, chinese in read_chinese_help().items():
        named = {each.replace("docs/en/", "docs/zh/") for each in code.findall(english)}
        assert {each for each in named if each not in chinese} <= {"PDF", "BERT"}, english


@pytest.mark.parametrize("words", _COMMANDS, ids=" ".join)
def test_the_help_of_a_command_is_chinese(words: tuple[str, ...]) -> None:
    done = _run(*words, "--help", "--lang", "zh")
    assert done.exit_code == 0
    assert done.output.startswith("用法：")
    assert _english(done.output) == []
    wide = [line for line in done.output.splitlines() if sum(1 + (east_asian_width(c) in "WF") for c in line) > 80]
    assert [line for line in wide if "://" not in line] == []
    assert _run(*words, "--help", LANG="zh_CN.UTF-8").output == done.output
    assert _run(*words, "--help").output.startswith("Usage: ")


def test_a_list_of_commands_has_whole_sentences() -> None:
    assert "..." not in _run("memory", "--help").output.partition("Commands:")[2]
    assert "按召回的方式查找记忆，最好的在前，并说明每条为何被找到。" in re.sub(
        r"\n +", "", _run("memory", "--help", "--lang", "zh").output
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("play", "weav"), "没有命令“weav”。你是不是要用 `jacquard play weave`？"),
        (("wibble",), "没有命令“wibble”。"),
        (("author", "template", "lnt"), "你是不是要用 'lint'？"),
        (("author", "template"), "用法："),
        (("play", "weave", "--foo"), "没有选项 --foo"),
        (("play", "weave", "--sessio", "s"), "没有选项 --sessio"),
        (("play", "weave"), "缺少选项 '--session' / '-s'。"),
        (("memory", "show", "-s", "s"), "缺少参数"),
        (("play", "history", "-s", "s", "--limit", "x"), "应为整数"),
        (("play", "explain", "--at", "-1"), "0"),
        (("author", "schema", "nope"), "不在可选值之中："),
        (("memory", "import", "--activation", "x", "y"), "请选其中一个：recall, sillytavern"),
        (("operate", "reindex", "all", "--session", "s"), "请只选一个：all、--session、--world"),
        (("operate", "serve", "--port"), "值"),
        (("play", "sessions", "list", "a", "b"), "多余的参数：b"),
        (("play", "weave", "--json=1"), "不带值"),
        (("memory", "import", "--workers", "2", "x"), "--workers 与 --address 需要 --engine ray"),
        (("play", "history", "--lang", "fr", "-s", "s"), "请选 en 或 zh。"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_mistake_in_a_command_is_told_in_chinese(words: tuple[str, ...], expected: str) -> None:
    done = _run(*words, LANG="zh_CN.UTF-8")
    assert done.exit_code == 2
    assert expected in done.output
    assert _english(done.output) == []


def test_the_language_may_stand_anywhere_before_two_dashes() -> None:
    assert take_language(["--lang", "zh", "play", "--help"]) == ("zh", ["play", "--help"])
    assert take_language(["play", "--lang=zh", "--help"]) == ("zh", ["play", "--help"])
    assert take_language(["play", "--lang", "zh", "--lang", "en"]) == ("en", ["play"])
    assert take_language(["play", "--lang", "fr"]) == (None, ["play", "--lang", "fr"])
    assert take_language(["play", "--lang"]) == (None, ["play", "--lang"])
    assert take_language(["a", "--", "--lang", "zh"]) == (None, ["a", "--", "--lang", "zh"])
    assert _run("play", "--lang", "zh", "--help").output.startswith("用法：")


def test_help_is_translated_by_paragraph_and_unknown_text_stays() -> None:
    assert translate_help("Undo an edit.\n\nSomething else.", "zh") == "撤销一次修改。\n\nSomething else."
    assert translate_help("Undo an edit.", "en") == "Undo an edit."


def test_english_help_reads_no_table() -> None:
    read_chinese_help.cache_clear()
    assert "Prepare one turn" in _run("play", "weave", "--help").output
    assert read_chinese_help.cache_info().currsize == 0
