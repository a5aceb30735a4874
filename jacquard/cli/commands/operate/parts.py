"""Lists the parts that are chosen by name, and exports embedding models: `jacquard operate plugins` and `embedder`.

An export has the format ONNX, in which a model answers faster.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from anyio import to_thread

from jacquard.cli.command_parts import JsonOption, fail, print_json, run, say, show, tell
from jacquard.config.extension_points import EXTENSION_POINTS
from mnemosyne.core import codec
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.plugins import GUIDE, ExtensionPoint, Plugin, find_plugins

embedder = typer.Typer(
    name="embedder", no_args_is_help=True, rich_markup_mode=None, help="Embedding models: export one for fast queries."
)
_NEEDED = ("onnx", "onnxruntime", "tokenizers")


def plugins(as_json: JsonOption = False) -> None:
    """List the parts that can be chosen by name.

    They are built in, or come from installed plugins. No part is loaded.
    """
    found = {point: find_plugins(point) for point in EXTENSION_POINTS}
    if as_json:
        print_json([_to_json(point, installed) for point, installed in found.items()])
        return
    for point, installed in found.items():
        show(f"{point.setting} ({point.group}): {', '.join(point.built_in)}")
        for plugin in installed:
            show(f"  {plugin.name}  {plugin.distribution} {plugin.version}  {plugin.value}")
        for fault in _faults(point, installed):
            say(f"  {fault}", "yellow")
    if not any(found.values()):
        tell(f"No plugin is installed. How to write one: {GUIDE}.")


def _to_json(point: ExtensionPoint, installed: tuple[Plugin, ...]) -> dict[str, object]:
    return {
        "group": point.group,
        "setting": point.setting,
        "built_in": list(point.built_in),
        "plugins": [codec.to_plain(plugin) for plugin in installed],
        "faults": _faults(point, installed),
    }


def _faults(point: ExtensionPoint, installed: tuple[Plugin, ...]) -> list[str]:
    """Return the faults of plugins that cannot be used by their names, one sentence each."""
    times = Counter(plugin.name for plugin in installed)
    hidden = [f"{name!r} is the name of a built-in part, which is used" for name in times if name in point.built_in]
    return hidden + [
        f"{name!r} is provided by several plugins and cannot be used: uninstall all but one"
        for name, number in times.items()
        if number > 1 and name not in point.built_in
    ]


@embedder.command("export")
def export(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A Python package that contains a model, or a folder with one.")
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="The folder to write (default: the cache that `--embedder auto` searches)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Export a sentence-transformers model to ONNX, offline.

    The vectors of the export are compared with those of the model. A BERT with mean pooling is exported without torch.
    Only the comparison needs torch, and it is omitted if torch is not installed.

    Use the export as --embedder onnx:DIR. An export in the cache is found by --embedder auto, and by --embedder
    onnx:NAME. Vectors that the model made before the export remain valid.
    """
    lacking = [package for package in _NEEDED if find_spec(package) is None]
    if lacking:
        raise fail(explain_missing_package("An export", ", ".join(lacking), "export"))

    async def work() -> Any:
        if not as_json:
            say(f"exporting {name}")
        return await to_thread.run_sync(_export, name, folder)

    made = run(work)
    if as_json:
        print_json({"folder": str(made.folder), "least_cosine": made.least_cosine, "size_bytes": made.size_bytes})
        return
    cosine = "" if made.least_cosine is None else f", cosine to the model at least {made.least_cosine:.6f}"
    tell(f"{made.folder}: {made.size_bytes / 1e6:.0f} MB{cosine}")
    tell(f"Use it: --embedder onnx:{name if folder is None else made.folder}")


def _export(name: str, folder: Path | None) -> Any:
    return import_module("mnemosyne.retrieval.embedding.export_onnx").export_model(name, folder)
