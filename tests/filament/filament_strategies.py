"""Texts, values and nodes that try to break the protocol."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from filament import Data, Element
from filament.nodes import Node, Text

NASTY = (
    "</status>",
    "<status>",
    "<content>",
    "</state_update>",
    "<![CDATA[x]]>",
    "<!-- x -->",
    "<?xml version='1.0'?>",
    "<!DOCTYPE a [<!ENTITY b 'c'>]>",
    "]]>",
    "&lt;",
    "&amp;lt;",
    "&#60;",
    "&#x3C;",
    "\"'><x y='",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "- item",
    "a: b",
    "a:",
    ": a",
    "a #b",
    "# a",
    "...",
    "---",
    "--- a",
    "%YAML 1.1",
    "&anchor",
    "*alias",
    "!!str a",
    "!tag",
    "| a",
    "> a",
    "[a, b]",
    "{a: b}",
    "a, b]",
    "'a'",
    '"a"',
    "a\\",
    "\\n",
    "? a",
    "@a",
    "`a`",
    "<<",
    "=",
    "~",
    "null",
    "True",
    "yes",
    "On",
    "n",
    "1",
    "-1",
    "1_000",
    "0x1F",
    "0o17",
    "017",
    "1e3",
    "1.5",
    ".5",
    ".inf",
    "-.INF",
    ".NaN",
    "12:30",
    "12:30:45.5",
    "2020-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "",
    " ",
    " a",
    "a ",
    "\ta",
    "a\t",
    "\n",
    "a\n",
    "\na",
    "a\nb",
    "a\n b",
    " a\nb",
    "a\n\nb",
    "a\n \nb",
    "a \nb",
    "a\n---\nb: c",
    "a\nb\n\n",
    "a\r\nb",
    "a\x85b",
    "a\u2028b\u2029c",
    "\ufeffa",
    "\x00\x07\x1b[31m\x7f\x9b",
    "\ufdd0\ufffe\U0001ffff",
    "\u202eabc\u202c",
    "\u00a0a\u3000",
    "😀👩‍👩‍👧",
    "低语森林：外部",
    "神庙钥匙\n翡翠雕刻",
    "k" * 1100,
    '"' * 600,
)

_INK = " \n\t:#-?,[]{}&*!|>'\"%@`~=<./+0123456789eExyn_\\a\x00\r\x85\u2028\ufeff中😀"


def texts(*, max_size: int = 40) -> st.SearchStrategy[str]:
    """Any text without surrogates, leaning to what breaks markup and YAML."""
    some = st.text(max_size=max_size)
    inked = st.text(alphabet=list(_INK), max_size=max_size)
    nasty = st.sampled_from(NASTY)
    return st.one_of(some, inked, nasty, st.tuples(some, nasty, inked).map("".join))


def scalars() -> st.SearchStrategy[Any]:
    """What a YAML scalar can be; no NaN, which equals nothing."""
    numbers = st.one_of(st.integers(), st.sampled_from([0, -1, 10**40, -(2**63)]), st.floats(allow_nan=False))
    return st.one_of(st.none(), st.booleans(), numbers, texts())


def values(*, max_leaves: int = 15) -> st.SearchStrategy[Any]:
    """Nested JSON-like values with any text as key and scalar."""
    return st.recursive(
        scalars(),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts(), inner, max_size=4)),
        max_leaves=max_leaves,
    )


NAMES = st.sampled_from(["status", "memory", "entry", "context_layer", "a.b-c", "_x", "content"])
DATA_NAMES = ("data", "yaml_body")


def elements(*, max_leaves: int = 6) -> st.SearchStrategy[Element]:
    """Trees of elements whose Data stands only in elements of DATA_NAMES, so that a reader can tell."""
    attributes = st.dictionaries(st.sampled_from(["id", "type", "turn", "x-y"]), texts(), max_size=3).map(
        lambda found: tuple(found.items())
    )

    def made(
        names: st.SearchStrategy[str], children: st.SearchStrategy[tuple[Node, ...]]
    ) -> st.SearchStrategy[Element]:
        return st.builds(Element, name=names, attributes=attributes, children=children)

    leaf = st.one_of(
        made(NAMES, st.one_of(st.just(()), texts().map(lambda text: (Text(text=text),)))),
        made(st.sampled_from(DATA_NAMES), values(max_leaves=6).map(lambda value: (Data(value=value),))),
    )
    return st.recursive(
        leaf,
        lambda inner: made(NAMES, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        max_leaves=max_leaves,
    )
