"""Finds the templates that an author means by a name or a path. The disk is only read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jacquard.authoring.findings import show_path, suggest_names
from jacquard.core.errors import JacquardError
from jacquard.templating.files import (
    SHIPPED_PREFIX,
    TESTS_FOLDER,
    TemplateRoot,
    TextRoot,
    read_files,
    template_ids,
)
from jacquard.templating.manifest import MANIFEST
from mnemosyne.values import dataclass

PACK_FILE = "world.yaml"
"""File that marks the folder of a world pack."""
FOLDER = "templates"
"""Folder of a pack's templates."""
LAYOUTS = "layouts"
PROFILES = "profiles"


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateTarget:
    """Templates that an author named."""

    roots: tuple[TemplateRoot, ...]
    """Folders of templates. A file is taken from the first folder that has it. The shipped folder is last.

    The templates of a pack that has no folder are a root in memory.
    """
    shown: str
    """The name or path that the author wrote."""
    template_id: str | None = None
    """Id of the template that is meant (None: all templates, or the template that the plan of a turn names)."""
    file: str | None = None
    """Name of the file that is meant (None: all files)."""
    own: bool = False
    """True if only files of the first of `roots` are meant."""

    def names(self) -> tuple[str, ...]:
        """Read the folders and return the names of the target's files, sorted."""
        files = read_files(self.roots)
        names = [name for name in files if not name.startswith(SHIPPED_PREFIX)]
        if self.own:
            first = self.roots[0]
            own = first if isinstance(first, Path) else Path(first.shown)
            names = [name for name in names if Path(files[name].shown).is_relative_to(own)]
        if self.file is not None:
            names = [name for name in names if name == self.file]
        elif self.template_id is not None:
            names = [name for name in names if name.startswith(f"{self.template_id}/")]
        return tuple(sorted(names))


def find_target(
    written: str | None, *, pack: Path | None, shipped: Path, kept: TextRoot | None = None
) -> TemplateTarget:
    """Return the templates that `written` names: by a template id (`combat`, `shipped/combat`) or by a path.

    A path leads to a pack, a folder of templates, one template, or a file. `written` None means all templates of the
    pack. `pack` is the folder of the pack (None: there is no folder), and `shipped` is the folder of the shipped
    templates. `kept` are the templates of a pack that is only in a store. Raises JacquardError with a suggestion if
    there is no such template or path.
    """
    roots: tuple[TemplateRoot, ...] = _roots(None if pack is None else pack / FOLDER, shipped)
    if pack is None and kept is not None:
        roots = (kept, *roots)
    if written is None:
        if pack is None:
            raise JacquardError("Say which templates: a name, a path, or --world DIR for all of a pack.")
        return _build_from_root(pack / FOLDER, shipped, str(pack))
    if written.startswith(SHIPPED_PREFIX) and not Path(written).exists():
        return _build_from_id(written.removeprefix(SHIPPED_PREFIX), (shipped,), written)
    if "/" not in written and "." not in written and "\\" not in written:
        known = template_ids(read_files(roots))
        if written in known:
            return TemplateTarget(roots=roots, template_id=written, shown=written)
        if not Path(written).exists():
            return _build_from_id(written, roots, written)
    return _build_from_path(Path(written), pack, shipped)


def find_enclosing_pack(folder: Path) -> Path | None:
    """Return the folder of the pack that encloses `folder`: `folder` itself or one of the three folders above it.
    Return None if none of them is a pack.
    """
    for place in (folder, *folder.resolve().parents[:3]):
        if (place / PACK_FILE).is_file():
            return place
    return None


def _build_from_id(name: str, roots: tuple[TemplateRoot, ...], shown: str) -> TemplateTarget:
    known = template_ids(read_files(roots))
    if name not in known:
        raise JacquardError(f"There is no template {shown!r} and no such path{suggest_names(name, known)}")
    return TemplateTarget(roots=roots, template_id=name, shown=shown)


def _build_from_path(path: Path, pack: Path | None, shipped: Path) -> TemplateTarget:
    if not path.exists():
        raise JacquardError(f"{path}: there is no such file or folder; name a template, its folder, or a pack.")
    if path.is_file():
        if path.name != MANIFEST and path.suffix != ".j2":
            raise JacquardError(f"{path}: is not a template; templates are .j2 files and {MANIFEST}.")
        folder = path.resolve().parent
        roots = _roots(folder.parent, shipped, pack)
        name = f"{folder.name}/{path.name}"
        return TemplateTarget(roots=roots, template_id=folder.name, file=name, own=True, shown=str(path))
    folder = path.resolve()
    if (folder / PACK_FILE).is_file():
        return _build_from_root(folder / FOLDER, shipped, str(path))
    if any(each.name == MANIFEST or each.suffix == ".j2" for each in folder.iterdir()):
        roots = _roots(folder.parent, shipped, pack)
        return TemplateTarget(roots=roots, template_id=folder.name, own=True, shown=str(path))
    return _build_from_root(folder, shipped, str(path), pack)


def _build_from_root(root: Path, shipped: Path, shown: str, pack: Path | None = None) -> TemplateTarget:
    if not root.is_dir():
        raise JacquardError(
            f"{show_path(str(root))}: there are no templates yet; `jacquard author template new NAME --world {shown}` writes some."
        )
    return TemplateTarget(roots=_roots(root, shipped, pack), own=True, shown=shown)


def _roots(first: Path | None, shipped: Path, pack: Path | None = None) -> tuple[Path, ...]:
    """Return roots without repeats: the given one, the pack's, the shipped one."""
    wanted: Sequence[Path | None] = (first, None if pack is None else pack / FOLDER, shipped)
    roots: dict[Path, None] = {}
    for root in wanted:
        if root is not None and root.is_dir() and root.resolve() != shipped.resolve():
            roots[root.resolve()] = None
    return (*roots, shipped)


__all__ = [
    "FOLDER",
    "LAYOUTS",
    "PACK_FILE",
    "PROFILES",
    "TESTS_FOLDER",
    "TemplateTarget",
    "find_enclosing_pack",
    "find_target",
]
