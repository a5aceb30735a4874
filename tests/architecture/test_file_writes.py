"""Files are written by one function: whole or not at all, flushed to the disk, and private where they must be."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITER = "mnemosyne/files.py"
IN_PLACE = {
    "mnemosyne/stores/file/journals.py": "appends lines, and removes those of a write that failed",
    "mnemosyne/stores/maintenance/digest.py": "ends the draft of a backup, which has no name yet",
    "mnemosyne/evidence/vault.py": "overwrites an original in its place before it is deleted",
}
FORBIDDEN = {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "fdopen"}


def writes(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        texts = [
            each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        modes = [text for text in texts if set(text) <= set("rwaxbt+") and set(text) & set("wax+")]
        if name in FORBIDDEN or (name == "open" and modes):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}({', '.join(modes)})"


def test_every_file_is_written_by_one_function():
    found = [
        place
        for package in ("filament", "mnemosyne", "jacquard")
        for path in sorted((ROOT / package).rglob("*.py"))
        for place in writes(path)
        if place.partition(":")[0] not in {WRITER, *IN_PLACE}
    ]
    assert found == [], f"Use mnemosyne.files.write_file: {found}"
    assert all(list(writes(ROOT / path)) for path in IN_PLACE), "an exception that is needed no more"
