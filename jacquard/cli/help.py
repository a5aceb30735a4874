"""Renders the help of commands, and faults in how they are called, in the chosen language.

Each command declares its English help. `help.toml` has each of its paragraphs in Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from inspect import cleandoc
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import typer

from jacquard.cli.language import chosen_language
from jacquard.core.sentences import translate

_Formatter: Any = typer.Context.formatter_class
_USAGE = (("[OPTIONS]", "[选项]"), ("COMMAND [ARGS]...", "命令 [参数]..."))
_REMARKS = (("required", "必填"), ("default: ", "默认："))
_HEADINGS = {"Options": "选项", "Arguments": "参数", "Commands": "命令"}
_UNIT = re.compile(r"\s+|[（「“]*(?:[!-~…–—·]+|\S)[，。：；！？、）」”]*")
"""Part of a text after which a line may end: blanks, a word, or one Chinese character with its punctuation."""
_WIDEST_NAME = 30


class HelpContext(typer.Context):
    """Context of a command whose help is in the chosen language."""

    def make_formatter(self) -> Any:
        """Return the formatter of the help."""
        if chosen_language() != "zh":
            return super().make_formatter()
        return _ChineseFormatter(width=self.terminal_width, max_width=self.max_content_width)


def prepare_help(command: Any) -> None:
    """Make a command and those of its group show their help in the chosen language; lists show the whole first paragraph."""
    command.context_class = HelpContext
    command.short_help = split_help(command.help or "")[0]
    for each in getattr(command, "commands", {}).values():
        prepare_help(each)


def split_help(text: str) -> Sequence[str]:
    """Return the paragraphs of a help text, each in one line."""
    return [" ".join(each.split()) for each in cleandoc(text).split("\n\n")]


def translate_help(text: str, language: str) -> str:
    """Return a help text, paragraph by paragraph, in a language of `LANGUAGES`; unknown paragraphs stay unchanged."""
    if language != "zh":
        return text
    return "\n\n".join(read_chinese_help().get(each, each) for each in split_help(text))


@cache
def read_chinese_help() -> Mapping[str, str]:
    """Return the Chinese paragraph of each English one."""
    import tomllib  # English readers do without it

    file = Path(__file__).with_suffix(".toml")
    table: dict[str, str] = tomllib.loads(file.read_text(encoding="utf-8"))["help"]
    return table


@contextmanager
def translate_usage_errors() -> Iterator[None]:
    """Make an error in how a command is called, which is raised inside of the block, show itself in the chosen language."""
    try:
        yield
    except Exception as error:
        # Such errors have no class that all releases of typer name; an empty command line shows the help itself.
        has_form = hasattr(error, "format_message") and type(error).__name__ != "NoArgsIsHelpError"
        if has_form and chosen_language() == "zh":
            error.show = partial(_show_error, error)  # type: ignore[attr-defined]
        raise


def _show_error(error: Any, file: Any = None) -> None:
    context = getattr(error, "ctx", None)
    if context is not None:
        typer.echo(context.get_usage(), err=True)
        typer.echo(f"用 `{context.command_path} {context.help_option_names[0]}` 查看说明。\n", err=True)
    typer.echo(f"错误：{translate(error.format_message(), 'zh', 'usage')}", err=True)


class _ChineseFormatter(_Formatter):  # type: ignore[misc]
    """Formatter of help in Chinese, whose characters are two columns wide."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        for english, chinese in _USAGE:
            args = args.replace(english, chinese)
        super().write_usage(prog, args, "用法：")

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{_HEADINGS.get(heading, heading)}：\n")

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        paragraphs = translate_help(text, "zh").split("\n\n")
        lines = [[f"{indent}{line}\n" for line in _wrap(each, self.width - len(indent))] for each in paragraphs]
        self.write("\n".join("".join(each) for each in lines))

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = _WIDEST_NAME, col_spacing: int = 2) -> None:
        named = [(re.sub(r" range>", ">", name), _translate_entry(text)) for name, text in rows]
        left = min(max(_width(name) for name, _ in named), col_max) + col_spacing
        indent = " " * self.current_indent
        for name, text in named:
            lines = _wrap(text, max(self.width - left - len(indent), 10)) or [""]
            if _width(name) > left - col_spacing:
                self.write(f"{indent}{name}\n{indent}{'':{left}}{lines[0]}\n")
            else:
                self.write(f"{indent}{name}{'':{left - _width(name)}}{lines[0]}".rstrip() + "\n")
            self.write("".join(f"{indent}{'':{left}}{line}\n" for line in lines[1:]))


def _translate_entry(text: str) -> str:
    """Return the help of an option in Chinese, with the remarks that typer adds after two blanks."""
    if text in read_chinese_help():
        return read_chinese_help()[text]
    help_text, _, remarks = text.rpartition("  [")
    if not help_text and not text.startswith("["):
        return text
    for english, chinese in _REMARKS:
        remarks = re.sub(rf"(?:^|(?<=; )){english}", chinese, remarks)
    return f"{translate_help(help_text, 'zh')}  [{remarks.lstrip('[').replace('; ', '；')}".lstrip()


def _width(text: str) -> int:
    """Return how many columns a terminal needs for `text`."""
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


def _wrap(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` columns; only a longer word is longer."""
    lines, line = [], ""
    for unit in _UNIT.findall(text):
        if line and _width(line + unit.rstrip()) > width:
            lines.append(line.rstrip())
            line = unit.lstrip()
        else:
            line += unit
    return [*lines, line.rstrip()] if line.strip() else lines
