"""No text breaks out; what is rendered reads back. Each law in a quick form and a long one (`-m full`)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from filament_strategies import DATA_NAMES, elements, scalars, texts, values
from hypothesis import given, settings
from hypothesis import strategies as st

from filament import (
    Data,
    Element,
    clean_text,
    dump_yaml,
    element,
    escape_attribute,
    escape_text,
    load_yaml,
    parse_element,
    render,
    scalar,
    unescape,
)
from filament.nodes import Node, Text
from filament.render import render_body

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
READERS: tuple[Callable[[str], Any], ...] = (load_yaml, lambda text: yaml.load(text, yaml.CSafeLoader))


def cleaned(node: Node) -> Node:
    """What a node becomes on the page: its texts cleaned."""
    if isinstance(node, Text):
        return Text(text=clean_text(node.text))
    if isinstance(node, Data):
        return node
    return Element(
        name=node.name,
        attributes=tuple((key, clean_text(value)) for key, value in node.attributes),
        children=tuple(cleaned(child) for child in node.children),
    )


def same_structure(node: Element, found: ElementTree.Element) -> None:
    assert found.tag == node.name
    assert list(found.attrib.items()) == [(key, clean_text(value)) for key, value in node.attributes]
    inner = [child for child in node.children if isinstance(child, Element)]
    assert len(found) == len(inner)
    for child in node.children:
        if isinstance(child, Text):
            assert (found.text or "") == clean_text(child.text)
        elif isinstance(child, Data):
            for read in READERS:
                assert read(found.text or "") == child.value
    for one, other in zip(inner, found, strict=True):
        same_structure(one, other)
        assert not (other.tail or "").strip()


def body_law(value: Any, indent: int) -> None:
    body = render_body(value, indent)
    assert not CONTROLS.search(body)
    for read in READERS:
        assert read(unescape(body)) == value
        assert read(f"\n{unescape(body)}\n") == value


def scalar_law(value: Any) -> None:
    line = scalar(value)
    assert line
    assert not set(line) & set("\n\r\t\x85\u2028\u2029")
    assert not CONTROLS.search(line)
    for read in READERS:
        assert read(f"{{k: {line}, l: [{line}, {line}]}}") == {"k": value, "l": [value, value]}
        assert read(f"k: {line}\nl:\n  - {line}\n  - m: {line}\n") == {"k": value, "l": [value, {"m": value}]}
        if isinstance(value, str) and len(value) < 150:
            assert read(f"{line}: 1\nother: 2") == {value: 1, "other": 2} or value == "other"


def escape_law(text: str) -> None:
    assert unescape(escape_text(text)) == unescape(escape_attribute(text)) == clean_text(text)
    assert not set(escape_text(text)) & set("<>")
    assert not set(escape_attribute(text)) & set("<>\"'\n\t")
    assert clean_text(clean_text(text)) == clean_text(text)
    assert not CONTROLS.search(clean_text(text))


def break_out_law(text: str) -> None:
    """One text in every place at once: the page keeps its shape."""
    page = element(
        "root",
        element("text", text, id=text),
        Element(name="data", children=(Data(value={text: [text, {"k": text}], "after": 1}),)),
        element("end", "sound"),
    )
    shown = render(page)
    assert not CONTROLS.search(shown)
    found = ElementTree.fromstring(shown)
    same_structure(page, found)
    assert [child.tag for child in found] == ["text", "data", "end"]
    in_templates = f"<s>\na: {escape_text(scalar(text))}\nb: {{ x: {escape_text(scalar(text))}, y: 1 }}\n</s>"
    assert load_yaml(ElementTree.fromstring(in_templates).text or "") == {"a": text, "b": {"x": text, "y": 1}}


def tree_law(node: Element) -> None:
    shown = render(node)
    assert render(node) == shown
    same_structure(node, ElementTree.fromstring(shown))
    assert parse_element(shown, data=DATA_NAMES) == cleaned(node)
    assert render(parse_element(shown, data=DATA_NAMES)) == shown


LAWS: dict[str, tuple[Callable[..., None], tuple[st.SearchStrategy[Any], ...]]] = {
    "body": (body_law, (values(), st.integers(min_value=0, max_value=6))),
    "scalar": (scalar_law, (scalars(),)),
    "escape": (escape_law, (st.one_of(texts(), st.text(st.characters(), max_size=30)),)),
    "break_out": (break_out_law, (texts(),)),
    "tree": (tree_law, (elements(),)),
}


def hold(name: str, examples: int) -> None:
    law, strategies = LAWS[name]
    settings(max_examples=examples, deadline=None)(given(*strategies)(law))()


@pytest.mark.parametrize("name", LAWS)
def test_law(name: str) -> None:
    hold(name, 300)


@pytest.mark.full
@pytest.mark.parametrize("name", LAWS)
def test_law_at_length(name: str) -> None:
    hold(name, 10_000)


def test_surrogates_become_replacement_characters_everywhere() -> None:
    text = "a\ud83d b"
    assert clean_text(text) == "a\ufffd b"
    assert load_yaml(unescape(render_body({"k": text}))) == {"k": "a\ufffd b"}
    render(element("x", text, id=text)).encode("utf-8")


def test_another_process_gives_the_same_bytes() -> None:
    value = {"b": {"名": "钥匙", "a": [1, 2.5, None, True]}, "a": "x: y"}
    script = (
        "import json, sys; from filament import *; v = json.loads(sys.argv[1]);"
        "sys.stdout.buffer.write(render(Element(name='s', children=(Data(value=v),))).encode())"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", script, json.dumps(value)],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert shown == {render(Element(name="s", children=(Data(value=value),))).encode()}


def test_emoji_and_chinese_stay_literal_and_long_lines_whole() -> None:
    text = "长长的一句 😀 " * 200 + "end"
    assert dump_yaml({"键": text}) == f"键: {text}"
