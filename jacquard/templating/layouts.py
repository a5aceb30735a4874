"""Reads layouts: the file `layouts/<id>.yaml` below a template root becomes a `SkeinTemplate`.

A layout states where in the prompt the blocks of each slot are placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from filament import PayloadError, load_yaml
from jacquard.core.blocks import Position, SkeinTemplate, SlotRule
from jacquard.core.errors import LayoutError
from jacquard.templating.files import TemplateRoot

FOLDER = "layouts"
_KEYS = {"slot", "position", "order", "priority", "depth"}


def find_layout_ids(roots: Sequence[TemplateRoot]) -> tuple[str, ...]:
    """Return the ids of all layouts below the template roots, sorted."""
    return tuple(sorted({name for root in roots for name in _names(root)}))


def load_layout(layout_id: str, roots: Sequence[TemplateRoot]) -> SkeinTemplate:
    """Return the layout `layout_id` from the first root that has its file.

    Raises LayoutError if no root has the file, or if the file is not valid.
    """
    file = f"{layout_id}.yaml"
    for root in roots:
        if (text := _text(root, file)) is not None:
            return _read(layout_id, file, text)
    raise LayoutError(f"There is no layout {layout_id!r}. Known layouts: {', '.join(find_layout_ids(roots))}.")


def _names(root: TemplateRoot) -> set[str]:
    if isinstance(root, Path):
        return {path.stem for path in (root / FOLDER).glob("*.yaml")}
    paths = [PurePosixPath(name) for name, _ in root.texts]
    return {path.stem for path in paths if path.parent == PurePosixPath(FOLDER) and path.suffix == ".yaml"}


def _text(root: TemplateRoot, file: str) -> str | None:
    """Return the text of a layout's file below a root, or None, also for a name that leads to another folder."""
    if PurePath(file).name != file or "\0" in file:
        return None
    if not isinstance(root, Path):
        return root.text(f"{FOLDER}/{file}")
    try:
        return (root / FOLDER / file).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise LayoutError(f"{file}: {error}") from error
    except OSError:
        if file.removesuffix(".yaml") in _names(root):
            raise
        return None


@lru_cache(maxsize=64)
def _read(layout_id: str, file: str, text: str) -> SkeinTemplate:
    try:
        document = load_yaml(text)
    except PayloadError as error:
        raise LayoutError(f"{file}: {error}") from error
    slots = document.get("slots") if isinstance(document, dict) else None
    if not isinstance(slots, list):
        raise LayoutError(f"{file}: slots: must be a list of {{slot, position, order, priority, depth}}.")
    separate = document.get("separate", False)
    if not isinstance(separate, bool):
        raise LayoutError(f"{file}: separate: must be true or false.")
    return SkeinTemplate(
        layout_id=layout_id,
        rules=tuple(_rule(file, place, slot) for place, slot in enumerate(slots)),
        separate=separate,
        alternates=True,
    )


def _rule(file: str, place: int, strip_mark: Any) -> SlotRule:
    where = f"{file}: slots[{place}]"
    if not isinstance(strip_mark, dict) or not isinstance(strip_mark.get("slot"), str):
        raise LayoutError(f"{where}: must be a mapping with `slot` and `position`.")
    if unknown := sorted(set(strip_mark) - _KEYS):
        raise LayoutError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}.")
    positions = [position.value for position in Position]
    if strip_mark.get("position") not in positions:
        raise LayoutError(f"{where}.position: must be one of {', '.join(positions)}.")
    numbers = {key: strip_mark.get(key, 0) for key in ("order", "priority", "depth")}
    for key, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise LayoutError(f"{where}.{key}: must be a whole number.")
    return SlotRule(slot=strip_mark["slot"], position=Position(strip_mark["position"]), **numbers)
