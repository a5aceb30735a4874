"""Sets of templates: kept in memory, read again when a file changed, and checked as a whole; the texts that they made last are
kept by the hash of what each template reads, because most sections of a prompt are those of the turn before.

This module needs no template engine and must not import jinja2; the renderer is passed in.
"""

from __future__ import annotations

import hashlib
import marshal
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from jacquard.core.errors import TemplateError
from jacquard.templating.files import (
    SHIPPED_PREFIX,
    Fingerprint,
    TemplateFile,
    TemplateRoot,
    find_shipped_templates,
    fingerprint,
    read_files,
    template_ids,
)
from jacquard.templating.manifest import BlockSpec, block_specs

Files = Mapping[str, TemplateFile]
MOST_CHARS = 2_000_000
"""How many characters the kept texts of a set of templates may have."""

_MISSING = b""
_FORM = 2
"""The version of `marshal` that says nothing of how a value lies in memory."""

_DIGEST_BYTES = 16

Key = tuple[str, bytes]


class VariableHashes:
    """The hashes of variables of templates, each made when it is first asked for."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self._made: dict[str, bytes] = {}

    def with_item(self, item: Any) -> VariableHashes:
        """Return the hashes of these variables with another `item`."""
        other = VariableHashes({**self.variables, "item": item})
        other._made = {name: made for name, made in self._made.items() if name != "item"}
        return other

    def of(self, names: Iterable[str]) -> bytes | None:
        """Return one hash of the variables of these names, in their order; None where one is not made of plain values."""
        try:
            return _hash(b"".join(map(self._of, names)))
        except ValueError:
            return None

    def _of(self, name: str) -> bytes:
        made = self._made.get(name)
        if made is None:
            known = name in self.variables
            # Of this form no two different values have the same: neither 1, 1.0 and true, nor mappings in other orders.
            made = self._made[name] = _hash(marshal.dumps(self.variables[name], _FORM) if known else _MISSING)
        return made


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


class RenderedTexts:
    """The texts that were made last, up to `most_chars`. It may be used from several threads."""

    def __init__(self, most_chars: int = MOST_CHARS) -> None:
        self._most_chars, self._chars = most_chars, 0
        self._held: OrderedDict[Key, str] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Key) -> str | None:
        """Return the text of a template (its name and the hash of what it reads), or None."""
        with self._lock:
            text = self._held.get(key)
            if text is not None:
                self._held.move_to_end(key)
            return text

    def keep(self, key: Key, text: str) -> None:
        """Keep a text."""
        with self._lock:
            self._chars += len(text) - len(self._held.pop(key, ""))
            self._held[key] = text
            while self._chars > self._most_chars:
                self._chars -= len(self._held.popitem(last=False)[1])


class Renderer(Protocol):
    """Renders the templates of one set of files, by name; every fault is a TemplateError."""

    def compile(self, name: str) -> None:
        """Compile one template. Raises TemplateError when it has a fault."""
        ...

    def render(self, name: str, variables: Mapping[str, Any]) -> str:
        """Return the text of one template rendered with its variables.

        Raises TemplateError for a fault, an undefined value, or a limit that is exceeded.
        """
        ...

    def find_read_variables(self, name: str) -> tuple[str, ...] | None:
        """Return the names of all variables that a template and those that it uses may read, sorted; None where that cannot be
        told.
        """
        ...


class TemplateSet:
    """The templates of a pack and the shipped ones, in memory, each compiled when it is first used.

    Rendering is pure: the same name and variables give the same text. `files` holds every file by name, manifests too;
    `digests` holds a short hash of each text, by which a replay notices that a template has changed.
    """

    def __init__(self, files: Files, renderer: Renderer) -> None:
        self.files = files
        self._renderer = renderer
        self._blocks: dict[str, tuple[BlockSpec, ...]] = {}
        self._read: dict[str, tuple[str, ...] | None] = {}
        self._rendered = RenderedTexts()
        self.digests = {name: text_digest(file.text) for name, file in files.items() if _counts(name, files)}

    @property
    def template_ids(self) -> tuple[str, ...]:
        """The ids that a plan may choose, sorted."""
        return template_ids(self.files)

    def blocks(self, template_id: str) -> tuple[BlockSpec, ...]:
        """Return the blocks of a template, in order. Raises TemplateError for an unknown template or a fault in its
        manifest.
        """
        if template_id not in self._blocks:
            self._blocks[template_id] = block_specs(self.files, template_id)
        return self._blocks[template_id]

    def render(self, name: str, variables: Mapping[str, Any] | VariableHashes) -> str:
        """Return the rendered text; one that was made before of the same values is returned again.

        Variables are plain values (as JSON has them); nothing in them is ever read as a template. `VariableHashes` save time
        where several templates are rendered with the same variables. Raises TemplateError, which names file, line and source
        line, for a fault, an undefined value, or a limit that is exceeded.
        """
        hashes = variables if isinstance(variables, VariableHashes) else VariableHashes(variables)
        kept, made_of = self._rendered, self._hash_what_is_read(name, hashes)
        text = None if made_of is None else kept.find((name, made_of))
        if text is None:
            text = self._renderer.render(name, hashes.variables)
            if made_of is not None:
                kept.keep((name, made_of), text)
        return text

    def _hash_what_is_read(self, name: str, hashes: VariableHashes) -> bytes | None:
        if name not in self._read:
            self._read[name] = self._renderer.find_read_variables(name)
        names = self._read[name]
        return None if names is None else hashes.of(names)

    def forget_texts(self) -> None:
        """Forget the kept texts; one that is being made is not kept."""
        self._rendered = RenderedTexts()

    def compile(self, name: str) -> None:
        """Compile one template. Raises TemplateError when it has a fault."""
        self._renderer.compile(name)


def text_digest(text: str) -> str:
    """Return a short hash of a template's text: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _counts(name: str, files: Files) -> bool:
    """Return whether a file name is checked: a shipped file has its second name only where a pack overrides it, and a
    layout or a profile is no template.
    """
    bare = name.removeprefix(SHIPPED_PREFIX)
    return not bare.startswith(("layouts/", "profiles/")) and (name == bare or files[bare].text != files[name].text)


_OPENED: dict[tuple[TemplateRoot, ...], tuple[Fingerprint, TemplateSet]] = {}
_MOST_OPEN = 64
"""How many sets are kept, those used last; sets of older pack versions are discarded."""


def open_set(roots: Sequence[TemplateRoot], make: Callable[[Files], Renderer]) -> TemplateSet:
    """Return the set of templates below `roots`, read again only when a file was added, changed or removed.

    Raises TemplateError for a file that is too large, is not UTF-8, or leads out of its root.
    """
    key = tuple(roots)
    now = fingerprint(key)
    known = _OPENED.get(key)
    if known is None or known[0] != now:
        files = read_files(key)
        known = (now, TemplateSet(files, make(files)))
    _OPENED.pop(key, None)
    _OPENED[key] = known
    for old in list(_OPENED)[:-_MOST_OPEN]:
        _OPENED.pop(old, None)
    return known[1]


def forget_rendered_texts() -> None:
    """Forget all texts that are kept of the open sets, as an erasure asks for."""
    for _, templates in list(_OPENED.values()):
        templates.forget_texts()


def find_template_faults(root: TemplateRoot, make: Callable[[Files], Renderer]) -> tuple[TemplateError, ...]:
    """Return the faults of every template and manifest below `root`, templates first, by name."""
    place = root if isinstance(root, Path) else Path(root.shown)
    try:
        shipped = find_shipped_templates()
        files = read_files([root] if place.resolve() == shipped.resolve() else [root, shipped])
    except TemplateError as error:
        return (error,)
    templates = TemplateSet(files, make(files))
    own = [name for name, file in sorted(files.items()) if Path(file.shown).is_relative_to(place)]
    checks: list[Callable[[], object]] = [partial(templates.compile, name) for name in own if name.endswith(".j2")]
    checks += [partial(templates.blocks, template_id) for template_id in template_ids(own)]
    faults: dict[str, TemplateError] = {}
    for check in checks:
        try:
            check()
        except TemplateError as error:
            faults.setdefault(str(error), error)
    return tuple(faults.values())
