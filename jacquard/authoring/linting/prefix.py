"""Rule: text that changes each turn does not belong in the stable prefix, before the history.

Pure, over a library of templates and a layout. A block is before the history if the layout puts its slot into the system text
or before the history; so is every slot that the layout does not name.
"""

from __future__ import annotations

from collections.abc import Iterator

from jacquard.authoring.linting.expressions import path_of
from jacquard.authoring.linting.links import Library
from jacquard.authoring.linting.shapes import TURNING
from jacquard.core.blocks import Position, SkeinTemplate
from jacquard.templating.manifest import BlockSpec
from jacquard.templating.syntax import Node

CACHE_LAYOUT = "cache_first"
_BEFORE = (Position.SYSTEM, Position.BEFORE_HISTORY)


def is_before_history(slot: str, layout: SkeinTemplate) -> bool:
    """Return whether a layout puts a slot into the stable prefix."""
    return next((rule.position in _BEFORE for rule in layout.rules if rule.slot == slot), True)


def find_volatile_reads(library: Library, spec: BlockSpec) -> Iterator[tuple[str, Node, str]]:
    """Yield (file name, node, variable) for the first place in each file at which a block uses a value that changes each turn.

    A test for existence (`{% if status %}`) does not count, because its result stays the same for most turns.
    """
    overridden: frozenset[str] = frozenset()
    reported: set[tuple[str, str]] = set()
    for name in (spec.name, *library.parents(spec.name)):
        for part in (name, *_parts(library, name)):
            syntax = library.syntaxes.get(part)
            if syntax is None or part in library.isolated:
                continue
            own = _collect_bound_names(syntax.root) | library.handed.get(part, frozenset())
            for node, root in _reads(syntax.root, overridden):
                if root not in own and (part, root) not in reported:
                    reported.add((part, root))
                    yield part, node, root
        overridden |= _find_replaced_blocks(library, name)


def _collect_bound_names(root: Node) -> frozenset[str]:
    """Return the names that a template assigns itself."""
    return frozenset(each.text("name") for each in root.find("Name") if each.get("ctx") in ("store", "param"))


def _parts(library: Library, name: str) -> tuple[str, ...]:
    """Return the templates that a template includes or imports, directly or not."""
    direct = [link.name for link in library.links.get(name, ()) if link.kind != "Extends" and link.name is not None]
    return tuple(dict.fromkeys(part for one in direct for part in library.reach(one)))


def _find_replaced_blocks(library: Library, name: str) -> frozenset[str]:
    """Return the blocks of a template that replace their parent's, without `super()`."""
    syntax = library.syntaxes.get(name)
    if syntax is None:
        return frozenset()
    whole = (each for each in syntax.root.find("Block") if not any(n.get("name") == "super" for n in each.find("Name")))
    return frozenset(each.text("name") for each in whole)


def _reads(node: Node, without: frozenset[str]) -> Iterator[tuple[Node, str]]:
    if node.kind == "Block" and node.text("name") in without:
        return
    if node.kind in ("If", "CondExpr"):
        yield from _iterate_tests(node.node("test"), without)
        for child in node.children():
            if child is not node.get("test"):
                yield from _reads(child, without)
        return
    if node.kind == "Name" and node.get("ctx") == "load" and node.text("name") in TURNING:
        yield node, node.text("name")
        return
    for child in node.children():
        yield from _reads(child, without)


def _iterate_tests(test: Node, without: frozenset[str]) -> Iterator[tuple[Node, str]]:
    if test.kind in ("And", "Or"):
        yield from _iterate_tests(test.node("left"), without)
        yield from _iterate_tests(test.node("right"), without)
    elif test.kind == "Not":
        yield from _iterate_tests(test.node("node"), without)
    elif test.kind != "Name" or path_of(test) is None:
        yield from _reads(test, without)
