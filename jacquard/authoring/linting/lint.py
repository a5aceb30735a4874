"""Finds every fault of templates that can be found without a turn. Each finding has a file, line, column and remedy.

This module joins the rules of the other modules of this folder. Files are read; nothing is written or rendered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jacquard.authoring.findings import Finding, FindingSeverity, finding, finding_to_json, sort_findings
from jacquard.authoring.linting.expressions import path_of, words_of
from jacquard.authoring.linting.links import Library, Link, read_library
from jacquard.authoring.linting.markup import MarkupReader
from jacquard.authoring.linting.names import NameReader
from jacquard.authoring.linting.shapes import ANY, TURNING, VariableShape, build_variable_shapes
from jacquard.authoring.target import LAYOUTS, PROFILES, TemplateTarget
from jacquard.core.blocks import Position, SkeinTemplate
from jacquard.core.errors import ConfigError, LayoutError, TemplateError
from jacquard.templating import open_templates
from jacquard.templating.files import TemplateFile, TemplateRoot, template_ids
from jacquard.templating.layouts import find_layout_ids, load_layout
from jacquard.templating.manifest import MANIFEST, BlockSpec
from jacquard.templating.profiles import load_profile
from jacquard.templating.syntax import Node, Syntax, Token
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

CACHE_LAYOUT = "cache_first"
"""Layout whose beginning should stay the same over many turns, so that a provider can cache it."""
_BEFORE = (Position.SYSTEM, Position.BEFORE_HISTORY)


def is_before_history(slot: str, layout: SkeinTemplate) -> bool:
    """Return whether a layout places a slot before the history, in the part of the prompt that should stay the same."""
    return next((rule.position in _BEFORE for rule in layout.rules if rule.slot == slot), True)


def find_volatile_reads(library: Library, spec: BlockSpec) -> Iterator[tuple[str, Node, str]]:
    """Yield (file name, node, variable) for each value that the block `spec` uses and that changes with every turn.
    Only the first use in each file is yielded.

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


class Places:
    """Finds the column of an expression in its line. A second search for the same words finds the next place of these
    words.
    """

    def __init__(self, syntax: Syntax) -> None:
        self._lines: dict[int, list[Token]] = {}
        self._asked: dict[tuple[int, tuple[str, ...]], int] = {}
        for token in syntax.tokens:
            if token.kind not in ("whitespace", "data", "comment"):
                self._lines.setdefault(token.line, []).append(token)

    def column(self, line: int, words: Sequence[str]) -> int | None:
        """Return the column (counted from 1) at which `words` begin in a line. Return None if the line does not contain
        them.
        """
        if not words:
            return None
        key = (line, tuple(words))
        starts = self._find_starts(self._lines.get(line, []), words)
        if not starts:
            return self.column(line, words[-1:]) if len(words) > 1 else None
        place = self._asked.get(key, 0)
        self._asked[key] = place + 1
        return starts[min(place, len(starts) - 1)]

    def _find_starts(self, tokens: Sequence[Token], words: Sequence[str]) -> list[int]:
        found = []
        for at in range(len(tokens) - len(words) + 1):
            before = tokens[at - 1].value if at else ""
            named = words[0].isidentifier() and before in (".", "|")
            if not named and [token.value for token in tokens[at : at + len(words)]] == list(words):
                found.append(tokens[at].column)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class LintReport:
    """Findings in the checked files, sorted by file, line and column."""

    findings: tuple[Finding, ...]
    files: tuple[str, ...]

    @property
    def errors(self) -> int:
        """Number of findings with the severity ERROR."""
        return sum(each.severity is FindingSeverity.ERROR for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as `--json` prints it."""
        return {
            "ok": not self.errors,
            "errors": self.errors,
            "warnings": len(self.findings) - self.errors,
            "files": list(self.files),
            "findings": [finding_to_json(each) for each in self.findings],
        }


def lint_templates(target: TemplateTarget, world: WorldPack | None = None) -> LintReport:
    """Return every fault of the target's files. If `world` is given, the fields of its state and persona are checked
    too.

    Raises JacquardError if the target's files cannot be read.
    """
    try:
        names = target.names()
        library = read_library(open_templates(target.roots))
    except TemplateError as error:
        place = TemplateFile(name=error.file, shown=error.file, text="")
        return LintReport(findings=(finding("syntax", place, error.line, error.reason),), files=())
    shapes = build_variable_shapes(world)
    found = [*_faults(library, names)]
    for name in names:
        if name in library.syntaxes:
            found += _template(library, name, shapes)
    layouts = [each for each in names if each.startswith(f"{LAYOUTS}/")]
    found += _layouts(library, layouts, target.roots)
    found += _profiles(library, [each for each in names if each.startswith(f"{PROFILES}/")], target.roots)
    found += _prefix(library, names, target.roots)
    found += _find_unused(library, names)
    return LintReport(findings=sort_findings(found), files=names)


def _faults(library: Library, names: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the faults of the template engine and of manifests, except those that another rule describes better."""
    for fault in library.faults:
        file = next((file for name, file in library.files.items() if fault.file in (file.shown, name)), None)
        if file is None or file.name not in names:
            continue
        code = "manifest" if file.name.endswith(MANIFEST) else "syntax"
        told_elsewhere = ("No filter named", "No test named", "`autoescape` is not", "a filter over a whole block")
        if not fault.reason.startswith(told_elsewhere):
            yield finding(code, file, fault.line, fault.reason)


def _template(library: Library, name: str, shapes: Mapping[str, VariableShape]) -> list[Finding]:
    file, syntax = library.files[name], library.syntaxes[name]
    places = Places(syntax)
    found: list[Finding] = []

    def report_node(code: str, node: Node, message: str, words: tuple[str, ...]) -> None:
        if code == "unknown-variable" and name in library.isolated and words[0] in shapes:
            message = f"{words[0]!r} is not known in a file that is imported; import it `with context`, or hand it over"
        found.append(finding(code, file, node.line, message, column=places.column(node.line, words)))

    def report_place(code: str, line: int, column: int, message: str) -> None:
        found.append(finding(code, file, line, message, column=column or None))

    NameReader(report_node, _find_scoped_names(library, name)).read(syntax.root, _context(library, name, shapes))
    MarkupReader(syntax, report_place, lambda node: places.column(node.line, words_of(node))).read()
    for token in syntax.tokens:
        if "\t" in token.value and token.kind not in ("data", "comment", "string"):
            report_place("tab-in-code", token.line, token.column, "a tab inside a template tag")
    for link in library.links[name]:
        _link(library, name, link, report_node)
    _report_lost_output(library, name, report_node)
    return found


def _context(library: Library, name: str, shapes: Mapping[str, VariableShape]) -> dict[str, VariableShape]:
    handed = dict.fromkeys(library.handed.get(name, ()), ANY)
    if name in library.isolated:
        return handed
    hidden = () if name in library.each else ("item",)
    return {**{key: shape for key, shape in shapes.items() if key not in hidden}, **handed}


def _find_scoped_names(library: Library, name: str) -> dict[str, frozenset[str]]:
    handed: dict[str, frozenset[str]] = {}
    for parent in library.parents(name):
        for block, names in library.scoped.get(parent, {}).items():
            handed[block] = handed.get(block, frozenset()) | names
    return handed


def _link(library: Library, name: str, link: Link, report: Any) -> None:
    words = ({"Extends": "extends", "Include": "include", "Import": "import", "FromImport": "from"}[link.kind],)
    if link.name is None:
        report("dynamic-name", link.node, "the name of the template is calculated", words)
    elif link.name not in library.files:
        leads_out = link.name.startswith(("/", "..")) or "/../" in link.name or "\\" in link.name
        if leads_out:
            report("outside-import", link.node, f"{link.name!r} leads out of the template folders", words)
        elif not link.optional:
            report("outside-import", link.node, f"there is no template {link.name!r} in the template folders", words)
    elif link.name == name or name in library.reach(link.name):
        report("circular-extends", link.node, f"{link.name!r} leads back to this template", words)


def _report_lost_output(library: Library, name: str, report: Any) -> None:
    """Report text of an extending template that is never printed."""
    parents = library.parents(name)
    if not parents:
        return
    syntax = library.syntaxes[name]
    known = frozenset().union(*(library.block_names(parent) for parent in parents))
    own = library.block_names(name)
    nested = {inner.text("name") for outer in syntax.root.find("Block") for inner in _find_inner_blocks(outer)}
    for block in syntax.root.find("Block"):
        if block.text("name") not in known | nested:
            message = f"{parents[0]!r} has no block {block.text('name')!r}; it has: {', '.join(sorted(known - own)) or 'none'}"
            report("lost-block", block, message, ("block",))
    for node in syntax.root.nodes("body"):
        texts = [each for each in node.nodes("nodes") if node.kind == "Output"]
        if any(each.kind != "TemplateData" or str(each.get("data")).strip() for each in texts):
            first = next(each for each in texts if each.kind != "TemplateData" or str(each.get("data")).strip())
            data = str(first.get("data") or "")
            skipped = len(data) - len(data.lstrip())
            shifted = Node(kind=first.kind, line=first.line + data[:skipped].count("\n"), fields=first.fields)
            report("lost-text", shifted, "this text is never printed: the template extends another", ())


def _find_inner_blocks(block: Node) -> Iterator[Node]:
    for child in block.nodes("body"):
        yield from child.find("Block")


def _layouts(library: Library, names: list[str], roots: tuple[TemplateRoot, ...]) -> Iterator[Finding]:
    for name in names:
        try:
            load_layout(Path(name).stem, roots)
        except LayoutError as error:
            yield finding("layout", library.files[name], 1, str(error))


def _profiles(library: Library, names: list[str], roots: tuple[TemplateRoot, ...]) -> Iterator[Finding]:
    """Yield the faults of profiles, including names of missing templates and layouts."""
    for name in names:
        file = library.files[name]
        try:
            profile = load_profile(Path(name).stem, roots)
            load_layout(profile.layout, roots)
        except (ConfigError, LayoutError) as error:
            yield finding("profile", file, 1, str(error))
            continue
        if profile.template not in (known := template_ids(library.files)):
            reason = f"template: there is no template {profile.template!r}; there are: {', '.join(known)}"
            yield finding("profile", file, 1, reason)


def _prefix(library: Library, names: tuple[str, ...], roots: tuple[TemplateRoot, ...]) -> Iterator[Finding]:
    layout = _cache_layout(roots)
    if layout is None:
        return
    seen: set[tuple[str, str]] = set()
    for template_id, specs in library.blocks.items():
        manifest = library.files.get(f"{template_id}/{MANIFEST}")
        for spec in specs:
            if not is_before_history(spec.slot, layout):
                continue
            place = f"block {spec.block_id!r} of {template_id!r} stands before the history in layout {CACHE_LAYOUT!r}"
            for part, node, root in find_volatile_reads(library, spec):
                if part in names and (part, spec.slot) not in seen:
                    column = Places(library.syntaxes[part]).column(node.line, (root,))
                    message = f"{root!r} may change each turn, but {place} (slot {spec.slot!r})"
                    yield finding("volatile-prefix", library.files[part], node.line, message, column=column)
            seen |= {(part, spec.slot) for part in library.reach(spec.name)}
            if spec.volatile and manifest is not None and manifest.name in names:
                line = _line_of(manifest, spec.block_id)
                yield finding("volatile-prefix", manifest, line, f"`volatile: true`, but {place} (slot {spec.slot!r})")


def _cache_layout(roots: tuple[TemplateRoot, ...]) -> SkeinTemplate | None:
    if CACHE_LAYOUT not in find_layout_ids(roots):
        return None
    try:
        return load_layout(CACHE_LAYOUT, roots)
    except LayoutError:
        return None


def _line_of(manifest: TemplateFile, block_id: str) -> int:
    for number, line in enumerate(manifest.text.split("\n"), start=1):
        if "id:" in line and block_id in line:
            return number
    return 1


def _find_unused(library: Library, names: tuple[str, ...]) -> Iterator[Finding]:
    used = {part for specs in library.blocks.values() for spec in specs for part in library.reach(spec.name)}
    for name in names:
        if name in library.syntaxes and name not in used:
            yield finding("unused-file", library.files[name], 1, "no block and no template uses this file")
