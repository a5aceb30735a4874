"""Checks this host: its installed packages, the effective settings, and the permissions of files."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jacquard.config.in_force import settings_in_force
from jacquard.config.service import load_service_settings
from jacquard.config.settings import load_config
from jacquard.core.errors import ConfigError
from jacquard.service.upkeep.findings import Finding, InForce, stale, wrong
from mnemosyne.stores.locate import StoreLocation

PACKAGES = (
    "jacquard-context",
    "lancedb",
    "onnxruntime",
    "tokenizers",
    "torch",
    "sentence-transformers",
    "litellm",
    "psycopg",
    "starlette",
    "uvicorn",
    "mcp",
    "msgspec",
    "numpy",
)


def find_packages() -> dict[str, str]:
    """Return package name -> version, for each of PACKAGES. The version is '' if the package is not installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def check_settings(config: Path | None) -> tuple[tuple[InForce, ...], list[Finding]]:
    """Return (settings, findings): the effective settings, and the faults. If a file or an environment variable is
    invalid, `settings` is empty and each fault is a finding. `config` is the settings file (None: no file).
    """
    try:
        found = settings_in_force(config)
        return tuple(InForce(name=name, value=value, source=source) for name, value, source in found), []
    except ConfigError as error:
        do = "Mend it; docs/en/settings.md has every setting."
        return (), [
            wrong("settings", line if line.endswith("?") else f"{line}.", do) for line in str(error).splitlines()
        ]


def find_snapshot_address(config: Path | None) -> str:
    """Return the address of published snapshots in the settings. Return '' if the settings name none or are invalid.
    `config` is the settings file (None: no file).
    """
    try:
        return load_config(config).snapshots.address
    except ConfigError:
        return ""


def find_embedder_name(config: Path | None) -> str:
    """Return the name of the embedder (the model that makes vectors) in the settings. Return 'auto' if the settings are
    invalid. `config` is the settings file (None: no file).
    """
    try:
        return load_service_settings(config).embedder
    except ConfigError:
        return "auto"


def check_files(location: StoreLocation) -> list[Finding]:
    """Return a finding for each file or folder of a store that this user has no permission to use, or that other users can use."""
    found = []
    for path in (location.database, location.index, None if location.index is None else location.index.parent):
        if path is None or not path.exists():
            continue
        needed = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
        if not os.access(path, needed):
            found.append(
                wrong("permissions", f"This user may not read and write {path}.", "Grant it, or run as the owner.")
            )
        elif path.stat().st_mode & 0o077:
            found.append(
                stale("open_to_others", f"{path} is open to other users of this machine.", f"chmod go-rwx {path}")
            )
    return found
