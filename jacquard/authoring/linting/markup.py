"""Checks the XML in the literal text of a template: tags are balanced in every branch, and values are printed in safe
places. Pure.

A tag may begin in one piece of text and end in another, for example `<a id="{{ x | attr }}">`. Therefore the reader
keeps a state on its way through the branches of the template: the open tags, and whether the text is inside of a tag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from jacquard.templating.syntax import Node, Syntax, Token
from mnemosyne.values import dataclass

ReportAt = Callable[[str, int, int, str], None]
"""Function that takes a finding as (code, line, column, message)."""

_SIGN = re.compile(r"<!--|<(/?)([A-Za-z_][A-Za-z0-9_.-]*)|<|&")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NUMBER_FILTERS = ("count", "int", "length", "round")
_BRANCHES = frozenset({"If", "For", "Block", "Macro", "CallBlock", "With", "Scope", "AssignBlock", "FilterBlock"})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tag:
    name: str
    line: int
    column: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _UnfinishedTag:
    """Tag whose end has not been read; `quote` is the quotation mark of the open attribute."""

    tag: _Tag
    closing: bool
    quote: str = ""
    slash: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    open: tuple[_Tag, ...] = ()
    inside: _UnfinishedTag | None = None
    comment: bool = False
    owed: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        return tuple(tag.name for tag in self.open)


class MarkupReader:
    """Checks the literal text of one template. `column(node)` returns the column of an expression in its line."""

    def __init__(self, syntax: Syntax, report: ReportAt, column: Callable[[Node], int | None]) -> None:
        self._report = report
        self._column = column
        self._data = [token for token in syntax.tokens if token.kind == "data"]
        self._used = 0
        self._root = syntax.root

    def read(self) -> None:
        """Report tags that are not balanced, bare `<` and `&`, tabs, and values in unsafe places."""
        extends = any(self._root.find("Extends"))
        if not extends:
            self._read_balanced(self._root.nodes("body"))
            return
        for node in self._root.nodes("body"):
            if node.kind in _BRANCHES:
                self._walk((node,), _State())
            else:
                for text in node.find("TemplateData"):
                    self._place(text)

    def _read_balanced(self, body: tuple[Node, ...]) -> None:
        """Read a body whose tags must be balanced in itself."""
        end = self._walk(body, _State())
        for tag in end.open:
            self._report("unclosed-tag", tag.line, tag.column, f"<{tag.name}> is never closed")
        if end.inside is not None:
            tag = end.inside.tag
            self._report("unclosed-tag", tag.line, tag.column, f"the tag <{tag.name} has no end sign")

    def _walk(self, body: tuple[Node, ...], state: _State) -> _State:
        for node in body:
            match node.kind:
                case "Output":
                    state = self._output(node, state)
                case "If":
                    state = self._if(node, state)
                case "For":
                    inner = self._walk(node.nodes("body"), state)
                    self._compare_open_tags(node, state, inner, "one pass of the loop")
                    self._compare_open_tags(
                        node, state, self._walk(node.nodes("else_"), state), "the `else` of the loop"
                    )
                case "With" | "Scope" | "ScopedEvalContextModifier" | "FilterBlock":
                    state = self._walk(node.nodes("body"), state)
                case "Block" | "Macro" | "CallBlock" | "AssignBlock":
                    self._read_balanced(node.nodes("body"))
        return state

    def _output(self, node: Node, state: _State) -> _State:
        for each in node.nodes("nodes"):
            if each.kind == "TemplateData":
                token = self._place(each)
                state = self._text(str(each.get("data")), token, state)
            elif state.inside is not None:
                self._value(each, state.inside)
        return state

    def _value(self, node: Node, inside: _UnfinishedTag) -> None:
        column = self._column(node) or 0
        if not inside.quote:
            message = f"a value stands in the tag <{inside.tag.name}> outside of any quoted attribute"
            self._report("tag-expression", node.line, column, message)
        elif not _is_attribute_safe(node):
            message = f"a value in an attribute of <{inside.tag.name}> without `| attr`: a quote in it would end the attribute"
            self._report("attribute-escape", node.line, column, message)

    def _if(self, node: Node, state: _State) -> _State:
        ends = [self._walk(node.nodes("body"), state)]
        ends += [self._walk(other.nodes("body"), state) for other in node.nodes("elif_")]
        ends.append(self._walk(node.nodes("else_"), state))
        if len({(end.names(), end.inside is None) for end in ends}) > 1:
            changed = sorted({name for end in ends for name in _list_differences(end.names(), state.names())})
            message = f"not every branch leaves the same tags open ({', '.join(f'<{name}>' for name in changed)})"
            self._report("unbalanced-branch", node.line, 0, message)
        return ends[0]

    def _compare_open_tags(self, node: Node, before: _State, after: _State, what: str) -> None:
        if before.names() != after.names() or (before.inside is None) != (after.inside is None):
            changed = sorted(set(_list_differences(after.names(), before.names())))
            message = f"{what} leaves other tags open than it found ({', '.join(f'<{name}>' for name in changed)})"
            self._report("unbalanced-branch", node.line, 0, message)

    def _place(self, node: Node) -> Token:
        """Return the place of a literal text; texts are read in the order of the source."""
        for at in range(self._used, len(self._data)):
            token = self._data[at]
            if token.value == node.get("data") and token.line == node.line:
                self._used = at + 1
                self._report_tabs(token)
                return token
        return Token(kind="data", value=str(node.get("data")), line=node.line, column=1, offset=0)

    def _report_tabs(self, token: Token) -> None:
        for match in re.finditer(r"\t+", token.value):
            line, column = _where(token, match.start())
            self._report("tab", line, column, "a tab in text that goes into the prompt")

    def _text(self, text: str, token: Token, state: _State) -> _State:
        at = 0
        while at < len(text):
            if state.comment:
                end = text.find("-->", at)
                if end < 0:
                    return state
                at, state = end + 3, replace(state, comment=False)
            elif state.inside is not None:
                at, state = self._read_in_tag(text, at, token, state, state.inside)
            else:
                match = _SIGN.search(text, at)
                if match is None:
                    return state
                at, state = self._sign(text, match, token, state)
        return state

    def _sign(self, text: str, match: re.Match[str], token: Token, state: _State) -> tuple[int, _State]:
        line, column = _where(token, match.start())
        found = match.group()
        if found == "<!--":
            return match.end(), replace(state, comment=True)
        if match.group(2):
            tag = _Tag(name=match.group(2), line=line, column=column)
            return match.end(), replace(state, inside=_UnfinishedTag(tag=tag, closing=bool(match.group(1))))
        if found == "<" or _ENTITY.match(text, match.start()) is None:
            self._report("bare-markup", line, column, f"{found!r} is no tag and no entity here")
        return match.end(), state

    def _read_in_tag(
        self, text: str, at: int, token: Token, state: _State, inside: _UnfinishedTag
    ) -> tuple[int, _State]:
        if inside.quote:
            end = text.find(inside.quote, at)
            return (len(text), state) if end < 0 else (end + 1, replace(state, inside=replace(inside, quote="")))
        sign = text[at]
        if sign in "\"'":
            return at + 1, replace(state, inside=replace(inside, quote=sign, slash=False))
        if sign == "<":
            tag = inside.tag
            self._report(
                "unclosed-tag", tag.line, tag.column, f"the tag <{tag.name} has no end sign before the next `<`"
            )
            return at, replace(state, inside=None)
        if sign == ">":
            return at + 1, self._tag(state, inside, _where(token, at))
        return at + 1, replace(state, inside=replace(inside, slash=sign == "/"))

    def _tag(self, state: _State, inside: _UnfinishedTag, end: tuple[int, int]) -> _State:
        tag, rest = inside.tag, replace(state, inside=None)
        if not inside.closing:
            return rest if inside.slash else replace(rest, open=(*state.open, tag))
        if tag.name not in state.names():
            if tag.name in state.owed:  # Already reported at the crossing tags.
                return replace(rest, owed=tuple(name for name in state.owed if name != tag.name))
            self._report("stray-close", tag.line, tag.column, f"</{tag.name}> closes nothing that is open here")
            return rest
        place = len(state.open) - 1 - state.names()[::-1].index(tag.name)
        for left in state.open[place + 1 :]:
            message = f"</{tag.name}> comes while <{left.name}> of line {left.line} is open"
            self._report("misnested-tag", tag.line, tag.column, message)
        crossed = tuple(left.name for left in state.open[place + 1 :])
        return replace(rest, open=state.open[:place], owed=(*state.owed, *crossed))


def _list_differences(left: tuple[str, ...], right: tuple[str, ...]) -> Iterator[str]:
    rest = list(right)
    for name in left:
        if name in rest:
            rest.remove(name)
        else:
            yield name
    yield from rest


def _where(token: Token, offset: int) -> tuple[int, int]:
    before = token.value[:offset]
    breaks = before.count("\n")
    return token.line + breaks, (len(before) - before.rfind("\n") if breaks else token.column + offset)


def _is_attribute_safe(node: Node) -> bool:
    if node.kind == "Filter":
        return node.text("name") in ("attr", *_NUMBER_FILTERS)
    if node.kind == "CondExpr":
        other = node.get("expr2")
        return _is_attribute_safe(node.node("expr1")) and (not isinstance(other, Node) or _is_attribute_safe(other))
    if node.kind == "Getattr":
        return node.text("attr") in ("index", "index0") and node.node("node").get("name") == "loop"
    return node.kind == "Const" and re.fullmatch(r"[\w.-]*", str(node.get("value"))) is not None
