"""Builds the parts of a runtime that store evidence (source texts): redactor, detector, vault and ingestor.

The vault is a folder of unredacted originals. This module also names the places that an erasure searches. The module
knows concrete classes. Presidio and plugins are imported only if a setting names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from jacquard.config.extension_points import open_named_plugin
from jacquard.config.sections import EvidenceConfig, RedactionConfig, RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.memory.summarize.extract import read_line
from jacquard.memory.summarize.worth import read_sentence
from jacquard.pipeline.curation.selectors.heuristic import fingerprint_text
from jacquard.turns.parts import NO_PARTS, HostParts
from mnemosyne.chains.state import forget_views
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.core.tokens import estimate_tokens, line_cost
from mnemosyne.evidence import FolderVault, IngestRules, RedactingIngestor
from mnemosyne.host_parts import UuidV4Generator
from mnemosyne.plugins import REDACTORS
from mnemosyne.privacy.forget import MemoryLocations
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.protocols import Clock, EvidenceIngestor, Index, PiiDetector, Redactor, Store
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.recall.rerank_features import text_features
from mnemosyne.retrieval.text.words import word_tokens_of_line
from mnemosyne.schema.evidence import EvidenceType
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.stores.locate import StoreLocation
from mnemosyne.values import dataclass

VAULT_NAME = "originals"


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestServices:
    """Parts that turn texts into evidence.

    `options` apply to every text. `paths` are the files and folders of the store, of the index and of the vault.
    """

    redactor: Redactor
    ingestor: EvidenceIngestor
    vault: FolderVault
    options: IngestOptions
    paths: tuple[Path, ...] = ()

    def place(
        self, store: Store, index: Index, retriever: HybridRetriever, caches: Sequence[Callable[[], None]] = ()
    ) -> MemoryLocations:
        """Return the places that an erasure searches (`mnemosyne.privacy.forget.forget`).

        `caches` are functions that clear caches of this runtime. The caches of the whole process are always cleared.
        """

        async def rebuild(scope: str) -> object:
            return await retriever.rebuild(scope, force=True)

        return MemoryLocations(
            store=store,
            index=index,
            rebuild=rebuild,
            vault=self.vault,
            folders=self.paths,
            caches=(
                word_tokens_of_line.cache_clear,
                text_features.cache_clear,
                estimate_tokens.cache_clear,
                line_cost.cache_clear,
                fingerprint_text.cache_clear,
                read_line.cache_clear,
                read_sentence.cache_clear,
                forget_views,
                *caches,
            ),
        )


def open_ingest_services(
    store: Store,
    location: StoreLocation,
    index: Path,
    settings: RuntimeConfig,
    clock: Clock,
    host: HostParts = NO_PARTS,
) -> IngestServices:
    """Return the redactor, the vault (folder of unredacted originals) and the ingestor for a store.

    `index` is the folder of the store's index. `host` contains parts of the host, of which three are used:
    `id_generator` makes the ids of new evidence, `hasher` hashes texts, and `ref_selector` finds the part of a text
    that a ref names.

    Raises ConfigError if a detector is not installed. Raises RedactionError if redaction rules are invalid.
    """
    redactor = open_redactor(settings.redaction)
    vault = FolderVault(index.with_name(index.name.replace("index", VAULT_NAME)))
    rules = IngestRules(ttl_seconds=ttl_of(settings.evidence))
    return IngestServices(
        redactor=redactor,
        ingestor=RedactingIngestor(
            store,
            redactor,
            clock,
            settings=options_of(settings),
            vault=vault,
            rules=rules,
            new_id=(host.id_generator or UuidV4Generator()).generate,
            hash_text=host.hasher.digest,
            text_selector=host.ref_selector,
        ),
        vault=vault,
        options=options_of(settings),
        paths=(*_files_of(location), index, vault.folder),
    )


def open_redactor(settings: RedactionConfig) -> Redactor:
    """Return the redactor (it removes secrets and personal data from texts) that the settings describe.

    Raises ConfigError if the detector is not installed or the plugin cannot be used. Raises RedactionError if rules are
    invalid.
    """
    if settings.redactor not in REDACTORS.built_in:
        plugin: Redactor = open_named_plugin(REDACTORS, settings.redactor, rules=settings.rules)
        return plugin
    detector: PiiDetector | None = None
    if settings.detector != "none":
        detector = _open_detector(settings.detector)
    return RegexRedactor(settings.rules, detector=detector)


def _open_detector(name: str) -> PiiDetector:
    if find_spec("presidio_analyzer") is None:
        raise ConfigError(explain_missing_package(f"redaction.detector {name}", "presidio-analyzer", "pii"))
    presidio = import_module("mnemosyne.privacy.presidio")
    models = presidio.installed_models() if name == "presidio_names" else ()
    if name == "presidio_names" and not models:
        raise ConfigError(
            "redaction.detector is presidio_names, which finds names by a spaCy model, and none is installed: install one, such "
            "as en_core_web_sm or zh_core_web_sm, or use presidio."
        )
    detector: PiiDetector = presidio.PresidioDetector(models=models)
    return detector


def options_of(settings: RuntimeConfig) -> IngestOptions:
    """Return the options that the settings require for every stored text."""
    redaction = settings.redaction
    return IngestOptions(
        redact=redaction.enabled,
        pass_through=redaction.on_failure == "pass_through",
        keep_original=redaction.mode == "dual_store",
        store_content=settings.evidence.store_content,
    )


def ttl_of(settings: EvidenceConfig) -> Mapping[EvidenceType, float]:
    """Return evidence type -> seconds after which evidence of this type expires. A type without an entry never expires."""
    return {EvidenceType(name): seconds for name, seconds in settings.ttl_seconds.items()}


def _files_of(location: StoreLocation) -> tuple[Path, ...]:
    """Return the files and folders that a store writes; SQLite has a log next to its file."""
    if location.database is None:
        return ()
    if location.kind == "file":
        return (location.database,)
    return tuple(location.database.with_name(location.database.name + end) for end in ("", "-wal", "-journal"))
