"""`embedder`: exports embedding models to ONNX, a form that answers faster."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from anyio import to_thread

from jacquard.cli.shared import JsonOption, fail, print_json, run, say, show

embedder = typer.Typer(
    name="embedder", no_args_is_help=True, rich_markup_mode=None, help="Embedding models: export one for fast queries."
)
_NEEDED = ("onnx", "onnxruntime", "tokenizers")


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
    """Export a sentence-transformers model to ONNX, offline, and check that its vectors are the same.

    A BERT with mean pooling is exported without torch; the check needs torch, and is left out where it is not installed.
    Use it as --embedder onnx:DIR. An export in the cache is found by --embedder auto, and by --embedder onnx:NAME.
    Vectors made by the model before remain valid.
    """
    lacking = [package for package in _NEEDED if find_spec(package) is None]
    if lacking:
        raise fail(f"An export needs {', '.join(lacking)}: pip install 'jacquard-context[export]'")

    async def work() -> Any:
        if not as_json:
            say(f"exporting {name}")
        return await to_thread.run_sync(_export, name, folder)

    made = run(work)
    if as_json:
        print_json({"folder": str(made.folder), "least_cosine": made.least_cosine, "size_bytes": made.size_bytes})
        return
    cosine = "" if made.least_cosine is None else f", cosine to the model at least {made.least_cosine:.6f}"
    show(f"{made.folder}: {made.size_bytes / 1e6:.0f} MB{cosine}")
    show(f"Use it: --embedder onnx:{name if folder is None else made.folder}")


def _export(name: str, folder: Path | None) -> Any:
    return import_module("mnemosyne.retrieval.embedding.export_onnx").export_model(name, folder)
