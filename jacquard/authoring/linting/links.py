"""Reads all templates of a set, and finds the templates that each of them extends, includes or imports.

Other rules of the lint need these links, because a template is judged by its use: by the names that an including
template passes to the template, and by the blocks that are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from jacquard.authoring.linting.names import collect_given_names
from jacquard.core.errors import TemplateError
from jacquard.templating import read_syntax
from jacquard.templating.files import TemplateFile
from jacquard.templating.manifest import BlockSpec
from jacquard.templating.sets import TemplateSet
from jacquard.templating.syntax import Node, Syntax
from mnemosyne.values import dataclass

_LINKS = ("Extends", "Include", "Import", "FromImport")


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One `extends`, `include` or `import` in a template."""

    kind: str
    name: str | None
    """Full name of the other template (None: the name is computed)."""
    node: Node
    context: bool
    """True if the other template sees the variables of the template that contains the link."""
    optional: bool
    """True if it is not an error that the other template is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """All templates of a set, by file name, with their syntax and links.

    `blocks` maps a template id to its blocks. `faults` are the errors of templates that cannot be read. `handed` maps a
    file to the names that including templates pass to it. `scoped` maps a file and a block to the names that this
    `scoped` block sees.
    """

    files: Mapping[str, TemplateFile]
    syntaxes: Mapping[str, Syntax]
    links: Mapping[str, tuple[Link, ...]]
    faults: tuple[TemplateError, ...]
    blocks: Mapping[str, tuple[BlockSpec, ...]]
    handed: Mapping[str, frozenset[str]]
    scoped: Mapping[str, Mapping[str, frozenset[str]]]
    each: frozenset[str]
    """Files that are rendered once for each item of a list, together with all files that they use."""
    isolated: frozenset[str] = field(default_factory=frozenset)
    """Files that are only imported, and without the context, so that they see no variables."""

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the templates that the template `name` extends, directly or indirectly, nearest first. If templates
        extend one another in a circle, the list ends there.
        """
        chain: list[str] = []
        while True:
            up = next((link.name for link in self.links.get(name, ()) if link.kind == "Extends"), None)
            if up is None or up in chain or up not in self.links:
                return tuple(chain)
            chain.append(up)
            name = up

    def reach(self, name: str) -> tuple[str, ...]:
        """Return the template `name` and all templates that it names, directly or indirectly, each once."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current in found:
                continue
            found[current] = None
            waiting += [link.name for link in self.links.get(current, ()) if link.name is not None]
        return tuple(found)

    def block_names(self, name: str) -> frozenset[str]:
        """Return the names of the blocks that a template defines itself."""
        syntax = self.syntaxes.get(name)
        return frozenset() if syntax is None else frozenset(each.text("name") for each in syntax.root.find("Block"))


def read_library(templates: TemplateSet) -> Library:
    """Read every template of a set. The errors of templates that cannot be read are in `Library.faults`."""
    syntaxes: dict[str, Syntax] = {}
    faults: list[TemplateError] = []
    for name, file in templates.files.items():
        if not name.endswith(".j2"):
            continue
        try:
            # Faults are collected, because the lint reports all of them at once.
            syntaxes[name] = read_syntax(file)
            templates.compile(name)
        except TemplateError as error:
            faults.append(error)
    blocks: dict[str, tuple[BlockSpec, ...]] = {}
    for template_id in templates.template_ids:
        try:
            blocks[template_id] = templates.blocks(template_id)
        except TemplateError as error:
            faults.append(error)
    links = {name: tuple(_links(name, syntax)) for name, syntax in syntaxes.items()}
    library = Library(
        files=templates.files,
        syntaxes=syntaxes,
        links=links,
        faults=tuple(faults),
        blocks=blocks,
        handed=_collect_handed_names(syntaxes),
        scoped={name: _read_scoped_names(syntax) for name, syntax in syntaxes.items()},
        each=frozenset(),
    )
    specs = [spec for group in blocks.values() for spec in group]
    each = {name for spec in specs if spec.each for name in library.reach(spec.name)}
    used = {name for spec in specs for name in library.reach(spec.name)}
    return Library(
        files=library.files,
        syntaxes=syntaxes,
        links=links,
        faults=library.faults,
        blocks=blocks,
        handed=library.handed,
        scoped=library.scoped,
        each=frozenset(each | (set(syntaxes) - used)),
        isolated=frozenset(_find_isolated(library, specs)),
    )


def target_name(name: str, parent: str) -> str:
    """Return the full name of a template that the file `parent` names. A name without a folder is in the folder of
    `parent`.
    """
    folder = parent.rpartition("/")[0]
    return f"{folder}/{name}" if folder and "/" not in name else name


def _links(name: str, syntax: Syntax) -> Iterator[Link]:
    for node in syntax.root.find(*_LINKS):
        target = node.node("template")
        written = target.get("value") if target.kind == "Const" else None
        many = [each.get("value") for each in target.nodes("items")] if target.kind in ("List", "Tuple") else [written]
        for one in many:
            yield Link(
                kind=node.kind,
                name=target_name(one, name) if isinstance(one, str) else None,
                node=node,
                context=node.kind in ("Extends", "Include") or bool(node.get("with_context")),
                optional=bool(node.get("ignore_missing")) or len(many) > 1,
            )


def _collect_handed_names(syntaxes: Mapping[str, Syntax]) -> dict[str, frozenset[str]]:
    """Return, by template, the names that its includers pass to it besides the context."""
    handed: dict[str, frozenset[str]] = {}
    for name, syntax in syntaxes.items():
        for key, names in collect_given_names(syntax.root).items():
            kind, _, target = key.partition(":")
            if kind == "include":
                full = target_name(target, name)
                handed[full] = handed.get(full, frozenset()) | names
    return handed


def _read_scoped_names(syntax: Syntax) -> dict[str, frozenset[str]]:
    given = collect_given_names(syntax.root)
    return {key.partition(":")[2]: frozenset(names) for key, names in given.items() if key.startswith("block:")}


def _find_isolated(library: Library, specs: Iterable[BlockSpec]) -> Iterator[str]:
    """Yield the templates that are only imported, without the context: their macros see no variables."""
    seeing = {spec.name for spec in specs}
    imported: set[str] = set()
    for links in library.links.values():
        for link in links:
            if link.name is not None:
                (seeing if link.context else imported).add(link.name)
    yield from imported - seeing
