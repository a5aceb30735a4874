"""Walks the statements of a template with the variables that are known at each place. Pure.

Faults of expressions are reported through `Expressions`. Two more faults are reported here: a loop without an end over
something that grows during play, and constructs that are not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jacquard.authoring.linting.expressions import (
    Expressions,
    Report,
    Scope,
    find_paths_when_false,
    find_paths_when_true,
    path_of,
    root_of,
)
from jacquard.authoring.linting.shapes import ANY, GROWING, TEXT, VariableShape
from jacquard.templating.syntax import Node

MODULE = VariableShape(kind="module")
"""Shape of a name to which a template was imported."""
_LIST_NAMES = frozenset({"history", "inventory", "lore", "messages", *GROWING})


class NameReader:
    """Checks one template.

    `blocks` maps the name of a `scoped` block to the names that a loop of a parent template passes to it.
    """

    def __init__(self, report: Report, blocks: Mapping[str, frozenset[str]]) -> None:
        self._report = report
        self._expressions = Expressions(report)
        self._blocks = blocks
        self._top: Scope = Scope(names={})
        self._statements: dict[str, Callable[[Node, Scope], None]] = {
            "Output": self._output,
            "If": self._if,
            "For": self._for,
            "Assign": self._assign,
            "AssignBlock": self._assign_block,
            "With": self._with,
            "Macro": self._macro,
            "CallBlock": self._call_block,
            "Block": self._block,
            "Import": self._import,
            "FromImport": self._from_import,
            "FilterBlock": self._filter_block,
            "Scope": self._scope,
            "ScopedEvalContextModifier": self._autoescape,
            "EvalContextModifier": self._autoescape,
        }

    def read(self, root: Node, variables: Mapping[str, VariableShape]) -> None:
        """Walk a whole template. `variables` are the shapes of the variables that it can read."""
        self._top = Scope(names=dict(variables), growing=set(_LIST_NAMES))
        self._walk(root.nodes("body"), self._top)

    def _walk(self, statements: tuple[Node, ...], scope: Scope) -> None:
        for node in statements:
            handle = self._statements.get(node.kind)
            if handle is not None:
                handle(node, scope)
                continue
            for child in node.children():  # The names of `extends` and `include` are expressions.
                self._expressions.shape(child, scope)

    def _output(self, node: Node, scope: Scope) -> None:
        for each in node.nodes("nodes"):
            if each.kind != "TemplateData":
                self._expressions.check_printed(each, scope)

    def _if(self, node: Node, scope: Scope) -> None:
        test = node.node("test")
        self._expressions.shape(test, scope)
        self._walk(node.nodes("body"), scope.assume_defined(find_paths_when_true(test)))
        rest = scope.assume_defined(find_paths_when_false(test))
        for other in node.nodes("elif_"):
            self._if(other, rest)
        self._walk(node.nodes("else_"), rest)

    def _for(self, node: Node, scope: Scope) -> None:
        source, target = node.node("iter"), node.node("target")
        shape = self._expressions.shape(source, scope)
        root = root_of(source)
        inner = scope.inner({"loop": ANY})
        self._bind(target, shape.each if shape.kind == "list" else ANY, inner)
        if root is not None and root in scope.growing:
            inner.growing |= _names(target)
            if not _is_bounded(node):
                message = f"{path_of(source) or root} grows during play, and this loop prints all of it"
                self._report("unbounded-list", node, message, ("for",))
        test = node.get("test")
        if isinstance(test, Node):
            self._expressions.shape(test, inner)
            inner = inner.assume_defined(find_paths_when_true(test))
        self._walk(node.nodes("body"), inner)
        self._walk(node.nodes("else_"), scope.inner())

    def _assign(self, node: Node, scope: Scope) -> None:
        value = node.node("node")
        shape = self._expressions.shape(value, scope)
        self._bind(node.node("target"), shape, scope)
        if root_of(value) in scope.growing and not _has_stop(value):
            scope.growing |= _names(node.node("target"))
        else:
            scope.growing -= _names(node.node("target"))

    def _assign_block(self, node: Node, scope: Scope) -> None:
        if isinstance(node.get("filter"), Node):
            self._report("syntax", node, "a filter over a whole block is not offered; filter the values in it", ())
        self._walk(node.nodes("body"), scope.inner())
        self._bind(node.node("target"), TEXT, scope)

    def _with(self, node: Node, scope: Scope) -> None:
        inner = scope.inner()
        for target, value in zip(node.nodes("targets"), node.nodes("values"), strict=True):
            self._bind(target, self._expressions.shape(value, scope), inner)
        self._walk(node.nodes("body"), inner)

    def _macro(self, node: Node, scope: Scope) -> None:
        scope.names[node.text("name")] = ANY
        for default in node.nodes("defaults"):
            self._expressions.shape(default, scope)
        self._walk(node.nodes("body"), scope.inner({each.text("name"): ANY for each in node.nodes("args")}))

    def _call_block(self, node: Node, scope: Scope) -> None:
        self._expressions.shape(node.node("call"), scope)
        self._walk(node.nodes("body"), scope.inner({each.text("name"): ANY for each in node.nodes("args")}))

    def _block(self, node: Node, scope: Scope) -> None:
        """Walk a block, which sees the top-level variables; those of a loop only if it is `scoped`."""
        handed = dict.fromkeys(self._blocks.get(node.text("name"), ()), ANY)
        outer = scope if node.get("scoped") else self._top
        self._walk(node.nodes("body"), outer.inner(handed))

    def _import(self, node: Node, scope: Scope) -> None:
        self._expressions.shape(node.node("template"), scope)
        scope.names[node.text("target")] = MODULE

    def _from_import(self, node: Node, scope: Scope) -> None:
        self._expressions.shape(node.node("template"), scope)
        for name in node.get("names"):
            scope.names[name[1] if isinstance(name, tuple) else name] = ANY

    def _filter_block(self, node: Node, scope: Scope) -> None:
        self._report("syntax", node, "a filter over a whole block is not offered; filter the values in it", ())
        self._walk(node.nodes("body"), scope.inner())

    def _scope(self, node: Node, scope: Scope) -> None:
        self._walk(node.nodes("body"), scope)

    def _autoescape(self, node: Node, scope: Scope) -> None:
        self._report("escape-bypass", node, "`autoescape` is not offered: everything is escaped", ("autoescape",))
        self._walk(node.nodes("body"), scope)

    def _bind(self, target: Node, shape: VariableShape, scope: Scope) -> None:
        if target.kind == "Name":
            scope.names[target.text("name")] = shape
            return
        for part in target.nodes("items"):
            self._bind(part, ANY, scope)


def collect_given_names(root: Node) -> dict[str, set[str]]:
    """Return the names that a template passes on: names that an include or a `scoped` block sees in addition to the
    context.

    Keys are `include:<name of the file>` and `block:<name>`.
    """
    given: dict[str, set[str]] = {}

    def visit(node: Node, names: frozenset[str]) -> None:
        if node.kind == "Include" and node.node("template").kind == "Const":
            given.setdefault(f"include:{node.node('template').get('value')}", set()).update(names)
        if node.kind == "Block" and node.get("scoped"):
            given.setdefault(f"block:{node.text('name')}", set()).update(names)
        inner = names
        if node.kind == "For":
            inner = names | _names(node.node("target")) | {"loop"}
        if node.kind == "Macro":
            inner = names | {each.text("name") for each in node.nodes("args")}
        if node.kind == "With":
            inner = names.union(*(_names(each) for each in node.nodes("targets")))
        for child in node.children():
            if child.kind in ("Assign", "AssignBlock"):
                inner |= _names(child.node("target"))
            visit(child, inner)

    visit(root, frozenset())
    return given


def _names(target: Node) -> set[str]:
    return {each.text("name") for each in target.find("Name")}


def _is_bounded(loop: Node) -> bool:
    """Return whether a loop is bounded: over a slice with an end, over a range, or with a body that tests its index."""
    if _has_stop(loop.node("iter")):
        return True
    body = [each for each in loop.nodes("body") if each.kind != "Output" or _prints_anything(each)]
    return len(body) == 1 and body[0].kind == "If" and _asks_for_index(body[0].node("test"))


def _prints_anything(output: Node) -> bool:
    return any(each.kind != "TemplateData" or str(each.get("data")).strip() for each in output.nodes("nodes"))


def _asks_for_index(test: Node) -> bool:
    return any(each.get("attr") in ("index", "index0", "revindex", "revindex0") for each in test.find("Getattr"))


def _has_stop(node: Node) -> bool:
    for each in node.find("Slice"):
        start = each.get("start")
        if isinstance(each.get("stop"), Node) or (isinstance(start, Node) and start.kind == "Neg"):
            return True
    return False
