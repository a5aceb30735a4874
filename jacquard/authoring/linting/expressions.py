"""Finds the faults of expressions in a template: unknown names, unsafe access, and values that cannot be printed. Pure.

For this it finds the shape (kind of value and its fields) of each expression. A field is guarded if it was tested
before with `is defined`, `default` or `in`; the absence of a guarded field is not a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from jacquard.authoring.findings import suggest_names
from jacquard.authoring.linting.shapes import ANY, MARKUP, NUMBER, TEXT, TRUTH, VariableShape, list_field_names
from jacquard.templating.language import (
    BUILTIN_FILTERS,
    FUNCTIONS,
    LIST_METHODS,
    MAPPING_METHODS,
    OWN_FILTERS,
    TESTS,
    TEXT_METHODS,
)
from jacquard.templating.syntax import Node
from mnemosyne.values import dataclass

Report = Callable[[str, Node, str, tuple[str, ...]], None]
"""Function that takes a finding as (code, node, message, words). The words mark the place in the node's line."""

FILTERS = frozenset((*BUILTIN_FILTERS, *OWN_FILTERS))
"""Filters that a template may use."""
BYPASSES = frozenset({"safe", "e", "escape", "forceescape", "tojson", "xmlattr", "mark_safe", "Markup"})
"""Names that would print text unescaped. They are refused."""
ENGINE_NAMES = frozenset({"super", "self", "caller", "varargs", "kwargs"})
"""Names that the template engine itself defines."""
_ENGINE_METHODS = frozenset({"cycle", "changed", "next"})
_METHODS = TEXT_METHODS | MAPPING_METHODS | LIST_METHODS | _ENGINE_METHODS
_KEEP_LIST = frozenset({"list", "sort", "reverse", "unique", "select", "reject", "selectattr", "rejectattr"})
_GIVES = {
    **dict.fromkeys(("abs", "count", "float", "int", "length", "round", "sum"), NUMBER),
    **dict.fromkeys(("capitalize", "join", "lower", "replace", "string", "title", "trim", "truncate", "upper"), TEXT),
    **dict.fromkeys(("attr", "limits", "text", "yaml"), MARKUP),
}


@dataclass(kw_only=True, slots=True)
class Scope:
    """Variables that are known at one place of a template.

    `names` maps each variable to its shape. `growing` contains variables that grow during play. `guards` contains paths
    that were tested to exist.
    """

    names: dict[str, VariableShape]
    growing: set[str] = field(default_factory=set)
    guards: frozenset[str] = frozenset()

    def inner(self, names: Mapping[str, VariableShape] | None = None) -> Scope:
        """Return a scope with the additional `names`, which are known only in the returned scope."""
        return Scope(names={**self.names, **(names or {})}, growing=set(self.growing), guards=self.guards)

    def assume_defined(self, paths: Iterable[str]) -> Scope:
        """Return the same scope, in which `paths` are known to exist."""
        return replace(self, guards=self.guards | frozenset(paths))


def path_of(node: Node) -> str | None:
    """Return an expression as a path such as `state.hero.mood`. Return None if the expression is not a path."""
    if node.kind == "Name":
        return node.text("name")
    if node.kind == "Getattr":
        base = path_of(node.node("node"))
        return None if base is None else f"{base}.{node.text('attr')}"
    if node.kind == "Getitem" and node.node("arg").kind == "Const":
        base = path_of(node.node("node"))
        return None if base is None else f"{base}.{node.node('arg').get('value')}"
    return None


def root_of(node: Node) -> str | None:
    """Return the variable at the beginning of an expression, below all fields, filters and calls. Return None if the
    expression does not begin with a variable.
    """
    while node.kind in ("Getattr", "Getitem", "Filter", "Call"):
        inner = node.get("node")
        if not isinstance(inner, Node):
            return None
        node = inner
    return node.text("name") if node.kind == "Name" else None


def find_paths_when_true(test: Node) -> set[str]:
    """Return the paths that certainly exist if a test is true."""
    if test.kind == "And":
        return find_paths_when_true(test.node("left")) | find_paths_when_true(test.node("right"))
    if test.kind == "Test" and test.text("name") == "defined":
        path = path_of(test.node("node"))
        return {path} if path else set()
    if test.kind == "Compare":
        operand = test.nodes("ops")[0]
        key, base = test.node("expr"), path_of(operand.node("expr"))
        if operand.get("op") == "in" and key.kind == "Const" and base is not None:
            return {f"{base}.{key.get('value')}"}
    return set()


def find_paths_when_false(test: Node) -> set[str]:
    """Return the paths that certainly exist if a test is false."""
    if test.kind == "Not":
        return find_paths_when_true(test.node("node"))
    if test.kind == "Test" and test.text("name") == "undefined":
        path = path_of(test.node("node"))
        return {path} if path else set()
    return set()


class Expressions:
    """Checks the expressions of one template and reports their faults."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def shape(self, node: Node, scope: Scope, *, probing: bool = False) -> VariableShape:
        """Return the shape of an expression and report its faults. If `probing` is true, an expression that does not
        exist is not a fault.
        """
        match node.kind:
            case "Name":
                return self._name(node, scope, probing)
            case "Getattr":
                return self._field(node, node.text("attr"), scope, probing, by_name=True)
            case "Getitem":
                return self._item(node, scope, probing)
            case "Filter":
                return self._filter(node, scope)
            case "Test":
                return self._test(node, scope)
            case "Call":
                return self._call(node, scope)
            case "And":
                self.shape(node.node("left"), scope)
                self.shape(node.node("right"), scope.assume_defined(find_paths_when_true(node.node("left"))))
                return ANY
            case "CondExpr":
                return self._choice(node, scope)
        for child in node.children():
            self.shape(child, scope)
        return _constant(node)

    def check_printed(self, node: Node, scope: Scope) -> None:
        """Report the faults of an expression that is printed, also if its value needs a filter to be printed."""
        shape = self.shape(node, scope)
        words = words_of(node)
        if shape.kind in ("mapping", "list"):
            self._report("needs-filter", node, f"a {shape.kind} cannot be printed directly", words)
        elif shape.kind == "pair":
            told = "a value with a description cannot be printed directly; `| value` takes the value, `| yaml` both"
            self._report("needs-filter", node, told, words)

    def _name(self, node: Node, scope: Scope, probing: bool) -> VariableShape:
        name = node.text("name")
        if name in scope.names:
            return scope.names[name]
        if name in FUNCTIONS or name in ENGINE_NAMES or name in scope.guards or probing:
            return ANY
        if name in BYPASSES:
            self._report("escape-bypass", node, f"{name!r} would print text unescaped; the sandbox has none", (name,))
        else:
            told = suggest_names(name, scope.names)
            if name == "item":
                told = "; only a block with `each: directives` in its template.yaml has one"
            self._report("unknown-variable", node, f"no variable {name!r}{told}", (name,))
        return ANY

    def _item(self, node: Node, scope: Scope, probing: bool) -> VariableShape:
        arg = node.node("arg")
        if arg.kind == "Const" and isinstance(arg.get("value"), str):
            return self._field(node, str(arg.get("value")), scope, probing, by_name=False)
        base = self.shape(node.node("node"), scope)
        self.shape(arg, scope)
        if base.kind == "list":
            return base if arg.kind == "Slice" else base.each
        return ANY

    def _field(self, node: Node, name: str, scope: Scope, probing: bool, *, by_name: bool) -> VariableShape:
        base = self.shape(node.node("node"), scope)
        path = path_of(node)
        words = words_of(node)
        if _is_unsafe(name, base):
            self._report("unsafe-attribute", node, f"the sandbox refuses {name!r}", words)
            return ANY
        if base.kind in ("any", "markup") or path in scope.guards:
            return base.fields.get(name, ANY)
        if name in base.fields:
            if name in base.optional and not probing:
                self._report("maybe-missing", node, f"{path or name!r} is not always there", words)
            return base.fields[name]
        methods = {"mapping": MAPPING_METHODS, "list": LIST_METHODS, "text": TEXT_METHODS}.get(base.kind, frozenset())
        if (by_name and name in methods) or probing:
            return ANY
        self._report_unknown_field(node, name, base, words)
        return ANY

    def _report_unknown_field(self, node: Node, name: str, base: VariableShape, words: tuple[str, ...]) -> None:
        owner = path_of(node.node("node")) or "this value"
        if base.kind != "mapping":
            told = "a value with a description" if base.kind == "pair" else f"a {base.kind}"
            self._report("unknown-attribute", node, f"{owner} is {told} and has no {name!r}", words)
        elif base.closed:
            hint = suggest_names(name, list_field_names(base))
            self._report("unknown-attribute", node, f"{owner} has no {name!r}{hint}", words)
        elif base.fields:
            hint = suggest_names(name, list_field_names(base))
            self._report("unknown-state", node, f"{owner} has no {name!r} in the pack{hint}", words)

    def _filter(self, node: Node, scope: Scope) -> VariableShape:
        name, inner = node.text("name"), node.get("node")
        usual = name in ("default", "d")
        base = self.shape(inner, scope, probing=usual) if isinstance(inner, Node) else ANY
        for arg in (*node.nodes("args"), *node.nodes("kwargs")):
            self.shape(arg, scope)
        if name in BYPASSES:
            self._report(
                "escape-bypass", node, f"the filter {name!r} is not offered: everything is escaped", ("|", name)
            )
        elif name not in FILTERS:
            self._report("unknown-filter", node, f"no filter {name!r}{suggest_names(name, FILTERS)}", ("|", name))
        if name in _GIVES:
            return _GIVES[name]
        if name in _KEEP_LIST:
            return base if base.kind == "list" else ANY
        if name in ("first", "last"):
            return base.each if base.kind == "list" else ANY
        return VariableShape(kind="list") if name == "map" else ANY

    def _test(self, node: Node, scope: Scope) -> VariableShape:
        name = node.text("name")
        self.shape(node.node("node"), scope, probing=name in ("defined", "undefined"))
        for arg in node.nodes("args"):
            self.shape(arg, scope)
        if name not in TESTS:
            self._report("unknown-test", node, f"no test {name!r}{suggest_names(name, TESTS)}", ("is", name))
        return TRUTH

    def _call(self, node: Node, scope: Scope) -> VariableShape:
        called = node.node("node")
        for child in (*node.nodes("args"), *node.nodes("kwargs")):
            self.shape(child, scope)
        if called.kind == "Getattr":
            base = self.shape(called.node("node"), scope)
            name = called.text("attr")
            if _is_unsafe(name, base) or (name not in _METHODS and base.kind != "module"):
                self._report("unsafe-call", called, f"the method {name!r} is not offered", words_of(called))
                return ANY
            if base.kind == "mapping" and name not in MAPPING_METHODS:
                self._report("unsafe-call", called, f"a mapping has no method {name!r}", words_of(called))
            return ANY
        self.shape(called, scope)
        return ANY

    def _choice(self, node: Node, scope: Scope) -> VariableShape:
        test = node.node("test")
        self.shape(test, scope)
        chosen = self.shape(node.node("expr1"), scope.assume_defined(find_paths_when_true(test)))
        other = node.get("expr2")
        if not isinstance(other, Node):
            return chosen
        rest = self.shape(other, scope.assume_defined(find_paths_when_false(test)))
        return chosen if chosen.kind == rest.kind else ANY


def _is_unsafe(name: str, base: VariableShape) -> bool:
    """Return whether a name leads to Python internals; a key of the state may begin with one underscore (`_anchor`)."""
    if name.startswith("__") or name in ("mro", "format", "format_map"):
        return name not in base.fields
    return name.startswith("_") and name != "_anchor" and base.kind != "any" and name not in base.fields


def _constant(node: Node) -> VariableShape:
    if node.kind == "Const":
        value = node.get("value")
        return (
            TRUTH
            if isinstance(value, bool)
            else TEXT
            if isinstance(value, str)
            else NUMBER
            if value is not None
            else ANY
        )
    if node.kind in ("List", "Tuple"):
        return VariableShape(kind="list")
    if node.kind in ("Compare", "Not"):
        return TRUTH
    return ANY


def words_of(node: Node) -> tuple[str, ...]:
    """Return the first tokens of an expression. The lint searches them in the line of the expression to find its
    column.
    """
    if node.kind == "Name":
        return (node.text("name"),)
    if node.kind == "Getattr":
        return (*words_of(node.node("node")), ".", node.text("attr"))
    if node.kind == "Getitem":
        return words_of(node.node("node"))
    if node.kind in ("Filter", "Test", "Call"):
        inner = node.get("node")
        return words_of(inner) if isinstance(inner, Node) else ()
    return ()
