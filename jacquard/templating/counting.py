"""Adds counters to the syntax tree of a template before it is compiled, so that a rendering counts its own work.

A rendering may do a limited number of operations (`limits`), and ends with an error above the limit. Only loops, macros,
blocks and included files can run many times. Each of them gets a counter at its beginning. Each time the part runs, the
counter subtracts the number of syntax nodes in the part from the operations that are left. A nested loop, macro or block
has its own counter, so the outer counter does not count the nodes of the inner part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from jinja2 import nodes
from jinja2.runtime import Context
from jinja2.utils import pass_context

from jacquard.templating.limits import FILE_OPERATIONS, INCLUDE_COST_CHARS, LOOP_DEPTH, pay, pay_for_items, spend

COUNTED, READ, WORKED = "_count_items", "_read", "_count_operations"


@pass_context
def _count_items(_context: Context, items: Iterable[Any], chars: int, operations: int) -> Iterator[Any]:
    for item in pay_for_items(items):
        spend(steps=1, chars=chars, operations=operations)
        yield item


@pass_context
def _read(_context: Context, value: Any) -> Any:
    pay(value)
    return value


@pass_context
def _count_operations(_context: Context, operations: int) -> str:
    spend(operations=operations)
    return ""


COUNTING_FILTERS = {COUNTED: _count_items, READ: _read, WORKED: _count_operations}
"""Filters that only `count_work` puts into a template; `find_refused_parts` refuses their names in authors' templates."""


def find_refused_parts(tree: nodes.Template) -> Iterator[tuple[nodes.Node, str]]:
    """Yield (node, reason) for each part that a template must not contain.

    These parts are refused: ways around the escaping, loops that cannot be counted, and the names of the counting
    filters.
    """
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, nodes.ScopedEvalContextModifier | nodes.EvalContextModifier):
            yield node, "`autoescape` is not offered: everything is escaped"
        elif isinstance(node, nodes.FilterBlock | nodes.AssignBlock) and node.filter is not None:
            yield node, "a filter over a whole block is not offered; put the filter on the values in it"
        elif isinstance(node, nodes.Filter) and node.name in COUNTING_FILTERS:
            yield node, f"No filter named {node.name!r}."
        elif isinstance(node, nodes.For):
            depth += 1
            if node.recursive:
                yield node, "a recursive loop is not offered; write a macro"
            if depth > LOOP_DEPTH:
                yield node, f"loops stand more than {LOOP_DEPTH} deep in one another; write the inner ones as macros"
                return
        waiting += [(child, depth) for child in node.iter_child_nodes()]


def count_work(tree: nodes.Template) -> None:
    """Add counters to the syntax tree `tree`. The tree is changed in place.

    Loops, macros, blocks and the file itself count the nodes that they contain. A comparison subtracts the sizes of the
    values that it compares from the characters and operations that the rendering may still use (`limits.pay`).
    """
    _charge(tree)
    for compare in list(tree.find_all(nodes.Compare)):
        compare.expr = _build_filter(compare.expr, READ)
        for operand in compare.ops:
            operand.expr = _build_filter(operand.expr, READ)


def _charge(node: nodes.Node) -> int:
    """Return the number of nodes that one pass through `node` evaluates, without the nodes that have their own counter."""
    if isinstance(node, nodes.For):
        chars = sum(_count_static_chars(part) for part in node.body)
        parts = _sum(node.body) + (0 if node.test is None else _charge(node.test))
        outside = _charge(node.target) + _charge(node.iter) + _sum(node.else_)
        node.iter = _build_filter(node.iter, COUNTED, nodes.Const(chars), nodes.Const(parts))
        return 1 + outside
    if isinstance(node, nodes.Macro | nodes.CallBlock):
        parts = _sum([*node.body, *node.defaults])
        _put_head(node, parts)
        return 1 + (_charge(node.call) if isinstance(node, nodes.CallBlock) else 0)
    if isinstance(node, nodes.Block | nodes.Template):
        parts = _sum(node.body)
        _put_head(node, parts + (FILE_OPERATIONS if isinstance(node, nodes.Template) else 0))
        return 1
    return 1 + _sum(node.iter_child_nodes())


def _sum(parts: Iterable[nodes.Node]) -> int:
    return sum(_charge(part) for part in parts)


def _put_head(node: nodes.Macro | nodes.CallBlock | nodes.Block | nodes.Template, operations: int) -> None:
    line = node.body[0].lineno if node.body else node.lineno
    node.body.insert(0, nodes.ExprStmt(_build_filter(nodes.Const(operations, lineno=line), WORKED), lineno=line))


def _build_filter(node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(cast("nodes.Expr", node), name, list(args), [], None, None, lineno=node.lineno)


def _count_static_chars(part: nodes.Node) -> int:
    """Return how many characters one pass through a part of a template writes without any expression."""
    written = sum(len(data.data) for data in part.find_all(nodes.TemplateData))
    return written + INCLUDE_COST_CHARS * (isinstance(part, nodes.Include) + len(list(part.find_all(nodes.Include))))
