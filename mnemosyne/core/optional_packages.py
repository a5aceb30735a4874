"""Imports optional packages without their telemetry and downloads, and states how to install a missing package."""

from __future__ import annotations

import ast
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lazy_loader

_SWITCHES: Mapping[str, Mapping[str, str]] = {
    # Otherwise a device id is written into the user's cache folder, and events are sent to Microsoft from the import on.
    "onnxruntime": {"ORT_DISABLE_TELEMETRY": "1"},
    # Otherwise the import fetches a price list, and the first call of a model of Anthropic a list of headers.
    "litellm": {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True"},
    # Read by the processes that Ray starts, too.
    "ray": {"RAY_USAGE_STATS_ENABLED": "0"},
    "crewai": {"CREWAI_DISABLE_TELEMETRY": "true"},
    "haystack": {"HAYSTACK_TELEMETRY_ENABLED": "false"},
    # Otherwise the Agents SDK sends each run with its prompts to OpenAI, whichever model server is used.
    "agents": {"OPENAI_AGENTS_DISABLE_TRACING": "1"},
}
"""Environment variables by package; each is read when the package is first imported or used."""


def silence(package: str) -> None:
    """Switch off telemetry and downloads of `package` for the whole process. Call it before the package is imported.

    Variables that the environment sets already are left unchanged.
    """
    for name, value in _SWITCHES[package].items():
        os.environ.setdefault(name, value)


def import_silently(package: str) -> Any:
    """Switch off telemetry and downloads of `package`, then import it. Raises ImportError if it cannot be imported."""
    silence(package)
    return import_module(package)


def import_litellm() -> Any:
    """Import litellm without telemetry and downloads.

    litellm then prints no advice, and counts tokens without downloads.
    """
    # Its first call builds types for which some releases of pydantic print a warning on the user's terminal.
    warnings.filterwarnings("ignore", "Item .* on TypedDict class .* is using the `ReadOnly`", UserWarning)
    litellm = import_silently("litellm")
    # The advice would be printed on standard output, in the middle of a caller's JSON.
    litellm.suppress_debug_info = True
    # Otherwise counting tokens for a model named llama-2 or llama-3 fetches a tokenizer from Hugging Face.
    litellm.disable_hf_tokenizer_download = True
    return litellm


def attach_names(
    package: str, file: str, needs: Mapping[tuple[str, str], Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return (`__getattr__`, `__dir__`, `__all__`) for a package that loads the names of its `__init__.pyi` lazily.

    The stub's `__all__` lists the public names. A name that the stub imports and does not list is internal: reading it from
    the package warns (DeprecationWarning).

    `needs` maps (optional package, extra that installs it) to the names that need the package. If the package is not
    installed, these names are missing in `__dir__` and `__all__`. Importing one then raises ModuleNotFoundError with
    the command that installs the extra.
    """
    load, _, names = lazy_loader.attach_stub(package, file)
    public = _public_names(f"{file}i")
    lacking = {
        name: explain_missing_package(f"{package}.{name}", needed, extra)
        for (needed, extra), users in needs.items()
        if find_spec(needed) is None
        for name in users
    }

    def load_name(name: str) -> Any:
        if name in lacking:
            raise ModuleNotFoundError(lacking[name])
        found = load(name)
        if name in names and name not in public:
            module = getattr(found, "__module__", package)
            text = f"{package}.{name} is internal and leaves the package in 0.2: import it from {module}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return found

    shown = [name for name in public if name not in lacking]
    return load_name, lambda: shown, shown


def _public_names(stub: str) -> list[str]:
    """Return the list `__all__` of a stub."""
    tree = ast.parse(Path(stub).read_text(encoding="utf-8"))
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return list(ast.literal_eval(lists[0]))


def install_command(*extras: str) -> str:
    """Return the command that installs these extras here. No package index has Jacquard yet, so it is installed from a
    checkout or from a wheel (`command_for`).
    """
    return command_for(extras, site=Path(__file__).parents[2], prefix=Path(sys.prefix))


@cache
def command_for(extras: Sequence[str], *, site: Path, prefix: Path) -> str:
    """Return the command that installs `extras` if Jacquard's packages are in the folder `site`.

    In an environment of pipx (`prefix`) it injects the packages of the extras that are missing. In a checkout, or if pip
    installed Jacquard from one, it installs the checkout with the extras. Elsewhere it installs the wheel again, with the extras.
    """
    info = next(iter(sorted(site.glob("jacquard_context-*.dist-info"))), None)
    from_checkout = f'pip install ".[{",".join(extras)}]" in a checkout of Jacquard'
    if info is None or (site / "pyproject.toml").exists():
        return from_checkout
    if (prefix / "pipx_metadata.json").exists():
        metadata = (info / "METADATA").read_text(encoding="utf-8")
        if packages := _missing_packages(metadata, extras):
            return f"pipx inject jacquard-context {' '.join(packages)}"
    source = info / "direct_url.json"
    if source.exists() and "dir_info" in json.loads(source.read_text(encoding="utf-8")):
        return from_checkout
    wheel = f"{info.name.removesuffix('.dist-info')}-py3-none-any.whl"
    return f'pip install "{wheel}[{",".join(extras)}]"'


def _missing_packages(metadata: str, extras: Sequence[str]) -> list[str]:
    """Return the requirements of `extras` that are not installed, quoted for a shell. `metadata` is that of Jacquard."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import Requirement  # lazy-loader, which the core needs, depends on it.

    missing = []
    for line in metadata.splitlines():
        if not line.startswith("Requires-Dist:"):
            continue
        needed = Requirement(line.partition(":")[2].strip())
        if needed.marker is None or not any(needed.marker.evaluate({"extra": each}) for each in extras):
            continue
        if needed.marker.evaluate({"extra": ""}):  # The core needs it too.
            continue
        try:
            version(needed.name)
        except PackageNotFoundError:
            brought = f"[{','.join(sorted(needed.extras))}]" if needed.extras else ""
            missing.append(f'"{needed.name}{brought}{needed.specifier}"')
    return list(dict.fromkeys(missing))


def explain_missing_package(user: str, package: str, extra: str, error: ImportError | None = None) -> str:
    """Return the sentence that `user` needs `package`, and how to install it by `extra`.

    `error` is the error of importing the installed package. If it is given, the sentence states it, too.
    """
    reason = "" if error is None else f" ({error})"
    return f"{user} needs {package}{reason}: {install_command(extra)}"
