"""Keeps sets of templates in memory, renders them with a cache of texts, and checks them for faults.

A set is read again after one of its files changed. A rendered text is cached under the hash of the variables that its template
reads, because most parts of a prompt are the same as in the previous turn. The renderer is passed in, so this module must not
import jinja2.
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
"""Maximum characters of a set's cached texts."""

_MISSING = b""
_FORM = 2
"""Version of `marshal` whose output does not depend on how a value is stored in memory."""

_DIGEST_BYTES = 16

Key = tuple[str, bytes]


class VariableHashes:
    """Hashes of the variables of templates. Each hash is computed when it is first needed."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self._made: dict[str, bytes] = {}

    def with_item(self, item: Any) -> VariableHashes:
        """Return the hashes of the same variables with `item` as the variable `item`."""
        other = VariableHashes({**self.variables, "item": item})
        other._made = {name: made for name, made in self._made.items() if name != "item"}
        return other

    def of(self, names: Iterable[str]) -> bytes | None:
        """Return one hash of the variables `names`, in this order. Return None if one of them does not consist of plain
        values.
        """
        try:
            return _hash(b"".join(map(self._of, names)))
        except ValueError:
            return None

    def _of(self, name: str) -> bytes:
        made = self._made.get(name)
        if made is None:
            known = name in self.variables
            # In this form different values never look equal: 1, 1.0 and true differ, and so do mappings in other orders.
            made = self._made[name] = _hash(marshal.dumps(self.variables[name], _FORM) if known else _MISSING)
        return made


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


class RenderedTexts:
    """Thread-safe cache of the most recently rendered texts. All cached texts together have at most `most_chars`
    characters.
    """

    def __init__(self, most_chars: int = MOST_CHARS) -> None:
        self._most_chars, self._chars = most_chars, 0
        self._held: OrderedDict[Key, str] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Key) -> str | None:
        """Return the cached text of `key` (name of the template, hash of its variables). Return None if the text is not
        cached.
        """
        with self._lock:
            text = self._held.get(key)
            if text is not None:
                self._held.move_to_end(key)
            return text

    def keep(self, key: Key, text: str) -> None:
        """Store the text of `key`, and discard the oldest texts if the cache is full."""
        with self._lock:
            self._chars += len(text) - len(self._held.pop(key, ""))
            self._held[key] = text
            while self._chars > self._most_chars:
                self._chars -= len(self._held.popitem(last=False)[1])


class Renderer(Protocol):
    """Renders the templates of one set of files, by name. Every fault is a TemplateError."""

    def compile(self, name: str) -> None:
        """Compile the template `name`.

        Raises TemplateError if the template has a fault.
        """
        ...

    def render(self, name: str, variables: Mapping[str, Any]) -> str:
        """Return the text of the template `name`, rendered with `variables`.

        Raises TemplateError if the template has a fault, uses an undefined value, or exceeds a limit.
        """
        ...

    def find_read_variables(self, name: str) -> tuple[str, ...] | None:
        """Return the names of all variables that the template `name` and the templates used by it may read, sorted.

        Return None if the names cannot be found out, for example because a template is named only at run time.
        """
        ...


class TemplateSet:
    """Templates of a pack and the shipped templates, in memory. Each template is compiled when it is first used.

    Rendering is pure: the same name and variables give the same text. `files` contains every file by name, also the
    manifests. `digests` contains a short hash of each template file. A replay of a turn detects by these hashes that a
    template was changed.
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
        """Ids of the templates in this set, sorted."""
        return template_ids(self.files)

    def blocks(self, template_id: str) -> tuple[BlockSpec, ...]:
        """Return the blocks of the template `template_id`, in order.

        Raises TemplateError if the template is unknown or its manifest has a fault.
        """
        if template_id not in self._blocks:
            self._blocks[template_id] = block_specs(self.files, template_id)
        return self._blocks[template_id]

    def render(self, name: str, variables: Mapping[str, Any] | VariableHashes) -> str:
        """Return the text of the template `name`, from the cache if the variables that it reads have the same values as before.

        Variables are plain values (as in JSON); nothing in them is ever read as a template. Pass `VariableHashes` to save time
        if several templates are rendered with the same variables. Raises TemplateError, with file, line and source line, if the
        template has a fault, uses an undefined value, or exceeds a limit.
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
        """Empty the cache of rendered texts. A text that is being rendered now is not stored in the new cache."""
        self._rendered = RenderedTexts()

    def compile(self, name: str) -> None:
        """Compile the template `name`.

        Raises TemplateError if the template has a fault.
        """
        self._renderer.compile(name)


def text_digest(text: str) -> str:
    """Return a short hash of a template's text: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _counts(name: str, files: Files) -> bool:
    """Return whether a file name is checked.

    A shipped file has its second name only if a pack overrides it; layouts and profiles are not templates.
    """
    bare = name.removeprefix(SHIPPED_PREFIX)
    return not bare.startswith(("layouts/", "profiles/")) and (name == bare or files[bare].text != files[name].text)


_OPENED: dict[tuple[TemplateRoot, ...], tuple[Fingerprint, TemplateSet]] = {}
_MOST_OPEN = 64
"""Maximum number of cached sets. The least recently used sets are discarded, such as those of older versions of a pack."""


def open_set(roots: Sequence[TemplateRoot], make: Callable[[Files], Renderer]) -> TemplateSet:
    """Return the set of templates below `roots`. The files are read again only if one was added, changed or removed.

    `make` returns the renderer of a set from its files.
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
    """Empty the text caches of all open sets, so that no cache contains an erased text."""
    for _, templates in list(_OPENED.values()):
        templates.forget_texts()


def find_template_faults(root: TemplateRoot, make: Callable[[Files], Renderer]) -> tuple[TemplateError, ...]:
    """Return the faults of all templates and manifests below `root`, templates first, in the order of their names.

    `make` returns the renderer of a set from its files.
    """
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
