"""Reads, checks and writes the files of a world as texts, for its author.

A world that was read from a folder consists of all files of that folder. A world that is only in a store consists of its
templates. Names of files begin at the pack (`world.yaml`, `templates/combat/guidance.j2`). All functions here block.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from jacquard.authoring.findings import Finding, FindingSeverity, sort_findings
from jacquard.authoring.linting.lint import LintReport, lint_templates
from jacquard.authoring.opening import find_world_faults
from jacquard.authoring.target import FOLDER, TemplateTarget
from jacquard.core.errors import ConfigError, TemplateError
from jacquard.templating.files import TextRoot, find_shipped_templates, read_files, template_roots, with_templates
from mnemosyne.core.errors import WorldPackError
from mnemosyne.core.faults import Fault, FaultList, Severity
from mnemosyne.files import place_draft, write_draft, write_file
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import PackReport, examine_changes, is_editable_name
from mnemosyne.world.pack_json import with_own_digest
from mnemosyne.world.reading.files import TEMPLATE_SUFFIXES, read_folder

MOST_FAULTS = 50
_PREFIX = f"{FOLDER}/"
_SENTENCE = re.compile(r"(?P<file>[^\s:]+\.\w+)(?::(?P<line>\d+))?(?::\d+)?: (?P<rest>.*)", re.DOTALL)
_WRITING = threading.Lock()

Changes = Mapping[str, str | None]
"""New texts of files by name. None removes a file."""


def read_texts(world: WorldPack, folder: Path | None) -> dict[str, str]:
    """Return the texts of the files of a world by name, sorted. `folder` is the folder of its pack (None: the world is only
    in a store). A file that is not UTF-8 is left out.
    """
    if folder is None:
        return {_PREFIX + name: text for name, text in sorted((with_templates(world).templates or {}).items())}
    texts: dict[str, str] = {}
    for name, data in read_folder(folder, FaultList()).files.items():
        try:
            texts |= {name: _decode(data)} if is_editable_name(name) else {}
        except UnicodeDecodeError:
            continue
    return texts


def read_shipped_texts() -> dict[str, str]:
    """Return the texts of the shipped templates by the names of the files that replace them, sorted."""
    files = read_files((find_shipped_templates(),))
    return {_PREFIX + name: files[name].text for name in sorted(files) if not name.startswith("shipped/")}


def digest_of(text: str) -> str:
    """Return the digest of the text of a file."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def change_world(world: WorldPack, folder: Path | None, changes: Changes) -> WorldPack:
    """Return a world as it would be with other texts of some files. Raises WorldPackError with all faults if a file of the
    pack has an error. Faults of templates are not looked for.
    """
    if folder is None:
        return _replace_templates(world, changes)
    report = _examine(folder, changes)
    if report.world is None:
        raise WorldPackError(tuple(str(each) for each in report.faults if each.severity is Severity.ERROR))
    return replace(report.world, template_root=None)


def lint_files(world: WorldPack, folder: Path | None, changes: Changes) -> LintReport:
    """Return every fault that a world would have with other texts of some files."""
    report = None if folder is None else _examine(folder, changes)
    if report is None:
        checked, found = _replace_templates(world, changes), []
    else:
        checked = report.world or _replace_templates(world, _templates_of(report), whole=True)
        found = [_finding_of(each, report) for each in report.faults]
    checked = replace(checked, template_root=None)
    templates = _lint_templates(checked)
    found += templates.findings
    if not any(each.severity is FindingSeverity.ERROR for each in found):
        try:
            found += (_finding_of_sentence(each) for each in find_world_faults(checked))
        except TemplateError as error:
            found.append(_finding_of_sentence(str(error)))
    names = templates.files if report is None else tuple(filter(is_editable_name, report.files))
    return LintReport(findings=sort_findings(found), files=names)


def check_changes(world: WorldPack, folder: Path | None, changes: Changes) -> WorldPack:
    """Return a world with other texts of some files. Raises WorldPackError with all errors that the world would have.

    Raises ConfigError if the world would have another id.
    """
    changed = change_world(world, folder, changes)
    if changed.world_id != world.world_id:
        raise ConfigError(
            f"world.yaml: id: is {changed.world_id!r}, but these are the files of world {world.world_id!r}; keep its id."
        )
    if faults := find_world_faults(changed):
        raise WorldPackError(tuple(faults[:MOST_FAULTS]))
    return with_own_digest(changed) if folder is None else changed


def write_changes(world: WorldPack, folder: Path, changes: Changes) -> None:
    """Write the changed files of the pack in `folder`, after all of them were checked together.

    Raises WorldPackError or ConfigError as `check_changes` does; then nothing is written. Raises OSError if a file cannot be
    written; then the files are as before.
    """
    with _WRITING:
        check_changes(world, folder, changes)
        places = {name: _find_place(folder, name) for name in changes}
        former = {place: place.read_bytes() if place.is_file() else None for place in places.values()}
        drafts: dict[Path, Path | None] = {}
        try:
            for name, text in changes.items():
                place = places[name]
                drafts[place] = None
                if text is not None:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    body = _encode(text, former[place])
                    drafts[place] = write_draft(place, body, private=False, durable=True)
            for place, draft in drafts.items():
                _put_in_place(place, draft)
        except BaseException:
            for place, draft in drafts.items():
                _restore(place, draft, former[place])
            raise


def _put_in_place(place: Path, draft: Path | None) -> None:
    if draft is None:
        place.unlink(missing_ok=True)
        return
    if place.is_file():
        draft.chmod(place.stat().st_mode & 0o777)
    place_draft(draft, place)


def _restore(place: Path, draft: Path | None, former: bytes | None) -> None:
    if draft is not None:
        draft.unlink(missing_ok=True)
    if former is None:
        place.unlink(missing_ok=True)
    elif not place.is_file() or place.read_bytes() != former:
        write_file(place, former)


def _find_place(folder: Path, name: str) -> Path:
    """Return the path of a file of a pack. Raises ConfigError if a link is on the way, or if the path is a folder."""
    root = folder.resolve()
    place = root / name
    steps = [place, *(each for each in place.parents if each.is_relative_to(root) and each != root)]
    if any(each.is_symlink() for each in steps) or place.is_dir() or any(each.is_file() for each in steps[1:]):
        raise ConfigError(f"{name[:80]!r} is a link or a folder, or is below a file; change it where it is.")
    return place


def _check_names(changes: Changes) -> None:
    for name in changes:
        if not is_editable_name(name):
            raise ConfigError(
                f"{name[:80]!r} cannot be a file of a world; name one such as 'world.yaml', 'lore/people.yaml' or "
                "'templates/combat/guidance.j2'."
            )


def _examine(folder: Path, changes: Changes) -> PackReport:
    _check_names(changes)
    return examine_changes(
        folder, {name: None if text is None else _encode(text, None) for name, text in changes.items()}
    )


def _templates_of(report: PackReport) -> dict[str, str | None]:
    texts: dict[str, str | None] = {}
    for name, data in report.files.items():
        if name.startswith(_PREFIX) and name.endswith(TEMPLATE_SUFFIXES) and not name.startswith(f"{_PREFIX}tests/"):
            texts[name] = data.decode("utf-8", "replace")
    return texts


def _replace_templates(world: WorldPack, changes: Changes, *, whole: bool = False) -> WorldPack:
    """Return a world with other texts of some templates, or with only these templates if `whole` is true."""
    _check_names(changes)
    for name in changes:
        if not name.startswith(_PREFIX) or name.startswith(f"{_PREFIX}tests/"):
            raise ConfigError(
                f"{name[:80]!r} cannot be changed, because world {world.world_id!r} is only in the store, without the files of "
                "its pack; its templates can be changed here, its lore one entry at a time, and the rest by `put_world`."
            )
    own = {name.removeprefix(_PREFIX): text for name, text in changes.items()}
    texts = own if whole else {**(with_templates(world).templates or {}), **own}
    known = {name: text.replace("\r\n", "\n") for name, text in sorted(texts.items()) if text is not None}
    return replace(world, templates=known, template_root=None)


def find_templates(world: WorldPack, template_id: str | None = None) -> TemplateTarget:
    """Return the templates of a world, with the shipped ones below them."""
    roots = template_roots((find_shipped_templates(),), world)
    return TemplateTarget(roots=roots, shown=world.world_id, template_id=template_id)


def _lint_templates(world: WorldPack) -> LintReport:
    target = find_templates(world)
    first = target.roots[0]
    if not isinstance(first, TextRoot):
        return LintReport(findings=(), files=())
    report = lint_templates(replace(target, own=True), world)
    found = tuple(replace(each, file=_PREFIX + each.file.removeprefix(f"{first.shown}/")) for each in report.findings)
    return LintReport(findings=found, files=tuple(_PREFIX + name for name in report.files))


def _finding_of(fault: Fault, report: PackReport) -> Finding:
    line = max(1, fault.line)
    source = report.files.get(fault.file, b"").decode("utf-8", "replace").split("\n")
    text = source[line - 1].rstrip("\r") if line <= len(source) else ""
    what, _, advice = fault.what.partition("; ")
    return Finding(
        code=fault.code,
        severity=FindingSeverity(fault.severity.value),
        file=fault.file,
        line=line,
        column=len(text) - len(text.lstrip()) + 1,
        source_line=text[:500],
        message=f"{fault.path}: {what}" if fault.path else what,
        advice=advice,
    )


def _finding_of_sentence(sentence: str) -> Finding:
    found = _SENTENCE.fullmatch(re.sub(r"^pack \S+: ", "", sentence))
    return Finding(
        code="world",
        severity=FindingSeverity.ERROR,
        file=found["file"] if found else "",
        line=int(found["line"] or 1) if found else 1,
        column=1,
        source_line="",
        message=found["rest"] if found else sentence,
        advice="",
    )


def _decode(data: bytes) -> str:
    return data.decode("utf-8-sig").replace("\r\n", "\n")


def _encode(text: str, former: bytes | None) -> bytes:
    """Return the bytes of a text, with the line ends and the byte order mark that the file had before."""
    plain = text.replace("\r\n", "\n")
    if former is not None and b"\r\n" in former:
        plain = plain.replace("\n", "\r\n")
    mark = b"\xef\xbb\xbf" if former is not None and former.startswith(b"\xef\xbb\xbf") else b""
    return mark + plain.encode("utf-8", "replace")
