"""Where a scope's table lies in an index folder.

The room exists so that a table can be named, looked for and removed without its engine, whatever state its files are in.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path


def table_name(scope: str) -> str:
    """Return a file name for a scope: readable, and unlike that of any other scope."""
    readable = re.sub(r"[^a-z0-9]+", "_", scope.lower()).strip("_")[:40] or "scope"
    return f"{readable}_{hashlib.sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def has_files(folder: str, scope: str) -> bool:
    """Say whether there are files of a scope; a folder that is an address of a remote store has none."""
    return "://" not in folder and _files(folder, scope).exists()


def remove_files(folder: str, scope: str) -> None:
    """Remove the files of a scope, if there are any; OSError."""
    if has_files(folder, scope):
        shutil.rmtree(_files(folder, scope))


def _files(folder: str, scope: str) -> Path:
    return Path(folder) / f"{table_name(scope)}.lance"
