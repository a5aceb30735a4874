"""Finds parts such as stores and embedders by name, and opens those that plugins provide.

A plugin is an entry point (`importlib.metadata`) of an installed distribution. Each kind of part has an `ExtensionPoint`. The
extension points of planners, selectors and pruners are in `jacquard.config.extension_points`; docs/en/plugins.md lists all of them.
Installed distributions are searched only for a name that no built-in part has, and only the plugin of that name is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mnemosyne.core.errors import ContextEngineError, PluginError
from mnemosyne.core.masking.credentials import mask_error
from mnemosyne.protocols import Embedder, Importer, Redactor, Store, TokenEstimator
from mnemosyne.schema.imported_files import FORMAT_NAMES
from mnemosyne.schema.redaction import RedactionRules
from mnemosyne.values import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GUIDE = "docs/en/plugins.md"


class StoreFactory(Protocol):
    """Makes a store from its address. Nothing is read or written before the first call of a method of the store.

    The scheme of the address is the name of the entry point: `NAME:…` or `NAME://…`. If `create` is false and there
    is no store yet, the first call raises StoreUnavailableError.
    """

    def __call__(self, address: str, *, tenant: str, create: bool) -> Store:
        """Return the store, opened for one tenant."""
        ...


class EmbedderFactory(Protocol):
    """Makes an embedder. `argument` is the text after `NAME:`, or ''.

    The model is loaded later, by the embedder's `warm` or `embed`.
    """

    def __call__(self, argument: str) -> Embedder:
        """Return the embedder."""
        ...


class TokenEstimatorFactory(Protocol):
    """Makes a token estimator. `argument` is the text after `NAME:`, or ''. `model` is the setting `model_hint`."""

    def __call__(self, argument: str, *, model: str | None) -> TokenEstimator:
        """Return the estimator, ready to count."""
        ...


class RedactorFactory(Protocol):
    """Makes a redactor. `argument` is the text after `NAME:`, or ''. `rules` is the setting `redaction.rules`."""

    def __call__(self, argument: str, *, rules: RedactionRules | None) -> Redactor:
        """Return the redactor."""
        ...


class ImporterFactory(Protocol):
    """Makes an importer. `argument` is the text after `NAME:`, or ''."""

    def __call__(self, argument: str) -> Importer:
        """Return the importer."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionPoint:
    """One kind of part that is found by name."""

    group: str
    """Name of the group of entry points."""
    setting: str
    """Setting whose value is the name of a part."""
    kind: str
    """Word for this kind of part in a sentence."""
    part: type
    """Protocol that a part implements."""
    factory: type
    """Protocol of the entry point's object, which returns a part."""
    built_in: tuple[str, ...]
    """Names that always mean a built-in part."""


STORES = ExtensionPoint(
    group="jacquard.stores",
    setting="store",
    kind="store",
    part=Store,
    factory=StoreFactory,
    built_in=("file", "memory", "postgres", "postgresql", "sqlite"),
)
EMBEDDERS = ExtensionPoint(
    group="jacquard.embedders",
    setting="embedder",
    kind="embedder",
    part=Embedder,
    factory=EmbedderFactory,
    built_in=("auto", "none", "onnx"),
)
TOKEN_ESTIMATORS = ExtensionPoint(
    group="jacquard.token_estimators",
    setting="token_estimator",
    kind="token estimator",
    part=TokenEstimator,
    factory=TokenEstimatorFactory,
    built_in=("estimate", "tiktoken", "tokenizer"),
)
REDACTORS = ExtensionPoint(
    group="jacquard.redactors",
    setting="redaction.redactor",
    kind="redactor",
    part=Redactor,
    factory=RedactorFactory,
    built_in=("patterns",),
)
IMPORTERS = ExtensionPoint(
    group="jacquard.importers",
    setting="format",
    kind="importer",
    part=Importer,
    factory=ImporterFactory,
    built_in=("corpus", "world", *FORMAT_NAMES),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """One entry point of an installed distribution. `value` is the place of the factory (`module:name`)."""

    name: str
    distribution: str
    version: str
    value: str


def split_name(written: str) -> tuple[str, str]:
    """Return (name, argument) for `NAME:ARGUMENT`. For `NAME` without an argument, the argument is ''."""
    name, _, argument = written.partition(":")
    return name, argument


def find_plugins(point: ExtensionPoint) -> tuple[Plugin, ...]:
    """Return the installed plugins of an extension point, sorted by name. No plugin is imported.

    Plugins with the name of a built-in part are included.
    """
    from importlib.metadata import entry_points

    found = (
        Plugin(name=entry.name, distribution=_distribution(entry), version=_version(entry), value=entry.value)
        for entry in entry_points(group=point.group)
    )
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def plugin_names(point: ExtensionPoint) -> tuple[str, ...]:
    """Return the names that plugins add to the built-in names, in alphabetical order."""
    return tuple(dict.fromkeys(each.name for each in find_plugins(point) if each.name not in point.built_in))


def open_plugin(point: ExtensionPoint, name: str, *args: Any, **options: Any) -> Any:
    """Return the part that the plugin `name` makes; `args` and `options` are the arguments of its factory.

    Raises:
        PluginError: if no distribution or more than one provides the plugin, if it cannot be imported, if its factory
            fails, or if the part lacks a member of its Protocol.
        ContextEngineError: from the factory.
    """
    entry = _find_entry(point, name)
    source = f"the {point.kind} {name!r} of the plugin {_distribution(entry)} {_version(entry)}".rstrip()
    advice = f"Update {_distribution(entry)} with pip, or uninstall it."
    try:
        factory = entry.load()
    except Exception as error:
        raise PluginError(
            f"{point.setting}: {source} cannot be loaded from {entry.value} ({_describe(error)}). {advice}"
        ) from mask_error(error)
    if not callable(factory):
        raise PluginError(
            f"{point.setting}: {source} is {type(factory).__name__}, but must be a {point.factory.__name__}. {advice}"
        )
    try:
        part = factory(*args, **options)
    except ContextEngineError:
        raise
    except Exception as error:
        raise PluginError(f"{point.setting}: {source} cannot be opened ({_describe(error)}). {advice}") from mask_error(
            error
        )
    if missing := find_missing_members(point.part, part):
        raise PluginError(
            f"{point.setting}: {source} is not a {point.part.__name__}: it lacks {', '.join(missing)} (see {GUIDE}). {advice}"
        )
    return part


def find_missing_members(protocol: type, part: object) -> list[str]:
    """Return the public members of a Protocol that a part lacks, in the order of the Protocol."""
    return [member for member in _members(protocol) if not hasattr(part, member)]


def unknown_name(point: ExtensionPoint, name: str, known: tuple[str, ...] = ()) -> PluginError:
    """Return the error for an unknown name. `known` are further legal names, next to built-in parts and plugins."""
    names = ", ".join(sorted({*point.built_in, *known, *plugin_names(point)}))
    return PluginError(
        f"{point.setting}: there is no {point.kind} {name!r}; known: {names}. Others come with plugins: Python packages with entry "
        f"points in the group {point.group!r}, which pip installs beside jacquard (see {GUIDE})."
    )


def _find_entry(point: ExtensionPoint, name: str) -> EntryPoint:
    from importlib.metadata import entry_points

    found = tuple(entry_points(group=point.group, name=name))
    if not found:
        raise unknown_name(point, name)
    if len(found) > 1:
        owners = ", ".join(sorted(_distribution(entry) for entry in found))
        raise PluginError(
            f"{point.setting}: the {point.kind} {name!r} is provided by several plugins: {owners}. Uninstall all but one."
        )
    return found[0]


def _distribution(entry: EntryPoint) -> str:
    return "" if entry.dist is None else entry.dist.name


def _version(entry: EntryPoint) -> str:
    return "" if entry.dist is None else entry.dist.version


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _members(protocol: type) -> tuple[str, ...]:
    """Return the public members of a Protocol: its methods and its annotated attributes."""
    names = (*vars(protocol), *getattr(protocol, "__annotations__", {}))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))
