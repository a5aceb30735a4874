"""Sentences that code writes in English, and their forms in other languages."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import jacquard
from jacquard.core.degradations import SENTENCES
from jacquard.core.sentences import (
    LANGUAGES,
    Sentence,
    find_templates,
    list_codes,
    parse_sentence,
    render_sentence,
    translate,
)

_ROOT = Path(jacquard.__file__).parent.parent
_PLAIN_KINDS = {"": "Mira 的船", "any": "Mira 的船", "word": "mira", "number": "7"}


def _placeholders(text: str) -> list[tuple[str, str]]:
    return [(name, kind or "") for _, name, kind, _ in Formatter().parse(text) if name is not None]


@cache
def _phrase_tables() -> frozenset[str]:
    files = [_ROOT / "jacquard/core/sentences" / f"{name}.toml" for name in ("phrases", "terminal", "usage")]
    return frozenset(table for file in files for table in tomllib.loads(file.read_text(encoding="utf-8")))


def _fill(code: str, language: str = "en") -> str:
    """Return a sentence of this code with sample facts."""
    forms = find_templates(code)
    facts = {}
    for name, kind in _placeholders(forms["en"]):
        if kind in _PLAIN_KINDS:
            facts[name] = _PLAIN_KINDS[kind]
        else:
            rows = [each for each in list_codes() if each.startswith(f"{kind}.")]
            simple = min(rows, key=lambda each: len(_placeholders(find_templates(each)["en"])))
            facts[name] = _fill(simple, language)
    text = re.sub(r"\{(\w+):\w+\}", r"{\1}", forms[language])
    return text.format(**facts)


_SENTENCES = [code for code in list_codes() if code.partition(".")[0] not in _phrase_tables()]
_FOREIGN = tomllib.loads((_ROOT / "jacquard/core/sentences/foreign.toml").read_text(encoding="utf-8"))
"""Tables of sentences that the operating system or a library writes."""
_LINES = [code for code in list_codes() if code.startswith("line.")]


@pytest.mark.parametrize("code", list_codes())
def test_each_code_has_every_language_with_the_same_placeholders(code: str) -> None:
    forms = find_templates(code)
    assert set(forms) == set(LANGUAGES)
    names = {name for name, _ in _placeholders(forms["en"])}
    assert {name for name, _ in _placeholders(forms["zh"])} == names
    assert not any(kind for _, kind in _placeholders(forms["zh"]))
    kinds = {kind for _, kind in _placeholders(forms["en"])} - set(_PLAIN_KINDS)
    assert kinds <= _phrase_tables()
    assert "}{" not in re.sub(r"\{\{|\}\}", "", forms["en"]), "two placeholders without a text between them"


@pytest.mark.parametrize("code", _SENTENCES)
def test_a_sentence_is_read_and_rendered_by_its_code(code: str) -> None:
    english = _fill(code)
    found = parse_sentence(english)
    assert found is not None
    assert found.code == code
    assert render_sentence(found, "en") == english
    assert translate(english, "zh") == render_sentence(found, "zh") == _fill(code, "zh")
    assert translate(english, "en") == english


def test_a_code_stands_in_one_file() -> None:
    files = sorted((_ROOT / "jacquard/core/sentences").glob("*.toml"))
    tables = [tomllib.loads(file.read_text(encoding="utf-8")) for file in files]
    assert len(list_codes()) == sum(len(rows) for each in tables for rows in each.values())


def test_every_row_has_the_form_that_is_read() -> None:
    files = sorted((_ROOT / "jacquard/core/sentences").glob("*.toml"))
    tables = [tomllib.loads(file.read_text(encoding="utf-8")) for file in files]
    rows = {f"{name}.{key}": row for each in tables for name, table in each.items() for key, row in table.items()}
    assert rows == {code: dict(find_templates(code)) for code in list_codes()}


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("world.yaml:3: lore[0].id: is missing; add it", "world.yaml:3：lore[0].id：缺失；请补上"),
        (
            "play.yaml:1: budgt: is no setting; did you mean 'budget'?",
            "play.yaml:1：budgt：没有这个设置；是不是 'budget'？",
        ),
        ("a.yaml: cannot be read: Permission denied", "a.yaml：无法读取：没有权限"),
        (
            "a: is missing; add it\nhost: of a host\nb: is empty; fill it in, or remove the file",
            "a：缺失；请补上\nhost: of a host\nb：是空的；请填写，或删除文件",
        ),
        (
            "world.yaml:2: while parsing a flow mapping did not find expected ',' or '}'.",
            "world.yaml:2：在 { } 里缺少“,”或“}”。",
        ),
    ],
)
def test_a_sentence_after_its_place_is_translated_line_by_line(english: str, chinese: str) -> None:
    assert translate(english, "zh") == chinese
    assert translate(english, "en") == english


def test_a_text_that_is_no_sentence_of_ours_stays() -> None:
    for text in (
        "",
        "The captain chose it.",
        "我把它放在桌上。",
        "a now b; c new: d",
        "x" * 20_000,
        "error",
        "{0} {name}",
    ):
        assert parse_sentence(text) is None
        assert translate(text, "zh") == text
    assert translate("It must be in every prompt.", "fr") == "It must be in every prompt."


@pytest.mark.parametrize("code", _LINES)
def test_a_line_of_the_terminal_is_translated_only_there(code: str) -> None:
    assert translate(_fill(code), "zh", "line") == _fill(code, "zh")
    assert parse_sentence(_fill(code)) is None


def test_facts_are_data_and_never_a_template() -> None:
    sentence = "{why} says the same already."
    assert parse_sentence(sentence) == Sentence(code="block.duplicate", facts={"block": "{why}"})
    assert translate(sentence, "zh") == "{why} 已有同样的内容。"


def test_a_sentence_inside_of_a_sentence_is_translated_too() -> None:
    reason = "It needs 20 tokens and 4 were left. That could not be done."
    assert translate(reason, "zh") == "它需要 20 词元，只剩 4。但没能做到。"
    nested = "That could not be done. " * 400
    assert translate(nested.strip(), "zh").count("但没能做到。") < 20


@pytest.mark.parametrize("code", sorted(SENTENCES))
def test_every_degradation_has_a_chinese_sentence(code: str) -> None:
    assert translate(SENTENCES[code], "zh") != SENTENCES[code]


# Whether the tables agree with the code.


@cache
def _written_texts() -> str:
    """Return all texts that the code writes, each on a line of its own; there is a line break for each value in them."""
    found: set[str] = set()
    for folder in ("filament", "mnemosyne", "jacquard"):
        for file in sorted((_ROOT / folder).rglob("*.py")):
            found.update(_texts_of(file))
    return "\n".join(sorted(found))


def _texts_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("code", [each for each in (*_SENTENCES, *_LINES) if each.partition(".")[0] not in _FOREIGN])
def test_code_writes_the_english_sentence(code: str) -> None:
    """A template whose words no code writes any more is dead: the sentence was changed, and the table was not."""
    english = re.sub(r"'?\{\w+(?::\w+)?\}'?", "\n", find_templates(code)["en"]).replace("{{", "{").replace("}}", "}")
    clauses = [clause.strip() for clause in re.split(r"\n|[.;:,()](?= |$|\n)", english)]
    missing = [clause for clause in clauses if len(clause) > 2 and clause not in _written_texts()]
    assert not missing
