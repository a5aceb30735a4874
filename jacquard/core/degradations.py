"""Lists the degradation codes, with a sentence for people for each code. Pure.

A degradation is a report on something that failed or was missing, so that a turn continued without it. Every code of
this product is listed here once; `degradation_table` makes the table in docs/en/observability.md. `mnemosyne` reports its
codes as plain strings; a test compares these strings with the list. This module must not import a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from jacquard.core.sentences import translate
from mnemosyne.core.masking.credentials import mask_credentials
from mnemosyne.core.optional_packages import install_command
from mnemosyne.values import dataclass


class DegradationCode(StrEnum):
    """Codes of degradations, in the order of a turn; the values are stored and must not change."""

    VERSION_CONFLICT = "version_conflict"
    RECORD_DAMAGED = "record_damaged"
    SUMMARIZE_FAILED = "summarize_failed"
    SUMMARIZE_LATE = "summarize_late"
    SUMMARY_CUT = "summary_cut"
    ACTION_PATTERN_FAILED = "action_pattern_failed"
    PLANNER_TIER1 = "planner_tier1"
    STATE_SHORTENED = "state_shortened"
    BLOCK_CUT = "block_cut"
    RECALL_FAILED = "recall_failed"
    RECALL_LATE = "recall_late"
    SELECTION_FAILED = "selection_failed"
    SELECTION_LATE = "selection_late"
    NO_EMBEDDER = "no_embedder"
    EMBEDDER_LOADING = "embedder_loading"
    EMBEDDER_UNAVAILABLE = "embedder_unavailable"
    VECTORS_UNFIT = "vectors_unfit"
    NO_VECTORS = "no_vectors"
    VECTORS_BEHIND = "vectors_behind"
    VECTORS_LATE = "vectors_late"
    ENCODER_CHANGED = "encoder_changed"
    ENCODER_MISSING = "encoder_missing"
    VECTORS_UNSHARED = "vectors_unshared"
    INDEX_DAMAGED = "index_damaged"
    INDEX_BEHIND = "index_behind"
    INDEX_IN_MEMORY = "index_in_memory"
    SNAPSHOT_OLD = "snapshot_old"
    SNAPSHOT_UNREACHABLE = "snapshot_unreachable"
    SNAPSHOT_DAMAGED = "snapshot_damaged"
    CONFLICT = "conflict"
    TEXT_CUT = "text_cut"
    EVIDENCE_NOT_FOUND = "evidence_not_found"
    EVIDENCE_EXPIRED = "evidence_expired"
    CONTENT_NOT_STORED = "content_not_stored"
    SELECTOR_RESOLVE_FAILED = "selector_resolve_failed"
    SOURCE_CHANGED = "source_changed"
    SHORTEN_FAILED = "shorten_failed"
    SHORTEN_LATE = "shorten_late"
    REDACTION_FAILED = "redaction_failed"
    REDACTION_OFF = "redaction_off"
    DEDUP_SKIPPED = "dedup_skipped"
    SELECTOR_FAILED = "selector_failed"
    ORIGINAL_FAILED = "original_failed"
    CHUNKS_EXPIRED = "chunks_expired"
    CONSOLIDATE_FAILED = "consolidate_failed"
    INTEGRATION_FAILED = "integration_failed"


SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        DegradationCode.VERSION_CONFLICT: "Another writer came first: the turn was decided again on what it wrote.",
        DegradationCode.RECORD_DAMAGED: "A stored record is damaged; the turn was made without it. `jacquard operate check` "
        "names all damage.",
        DegradationCode.SUMMARIZE_FAILED: "The messages that left the window could not be summarized; they are shown in full as "
        "far as there is room.",
        DegradationCode.SUMMARIZE_LATE: "The summary was not ready in time; the messages are shown in full where there is room.",
        DegradationCode.SUMMARY_CUT: "The model's summary was too long, even when it was asked again: its oldest sentences were "
        "left out. `summary.max_summary_tokens` gives it more room.",
        DegradationCode.ACTION_PATTERN_FAILED: "A pattern of an action took too long or cannot be used, so it matched nothing; "
        "the plan says which.",
        DegradationCode.PLANNER_TIER1: "The planner's model gave no usable plan; the plan of the rules is used.",
        DegradationCode.STATE_SHORTENED: "The state is too large for its part of the prompt; its largest parts are shown "
        "shortened.",
        DegradationCode.BLOCK_CUT: "A text of the world is too long for this prompt: its beginning is shown, or nothing if "
        "there is no room for a useful part.",
        DegradationCode.RECALL_FAILED: "Recall failed; the prompt holds no recalled memories.",
        DegradationCode.RECALL_LATE: "Recall was not ready at the deadline; the prompt holds no recalled memories.",
        DegradationCode.SELECTION_FAILED: "The model that selects memories failed; the heuristic selected.",
        DegradationCode.SELECTION_LATE: "The model that selects memories had not answered in time; the heuristic selected.",
        DegradationCode.NO_EMBEDDER: "No embedding model is configured: recall went by words alone.",
        DegradationCode.EMBEDDER_LOADING: "The embedding model is not loaded yet: recall went by words alone. It is loaded behind "
        "the turn; `Runtime.warm` loads it before.",
        DegradationCode.EMBEDDER_UNAVAILABLE: "The embedding model could not be loaded: recall went by words alone.",
        DegradationCode.VECTORS_UNFIT: "The embedding model does not know this language: its vectors were left out of recall.",
        DegradationCode.NO_VECTORS: "The index holds no vectors for this memory yet: recall went by words alone.",
        DegradationCode.VECTORS_BEHIND: "A part of this memory has no vectors yet: it was found by words alone. "
        "`jacquard operate reindex` makes them.",
        DegradationCode.VECTORS_LATE: "The embedding model had not answered in time: recall went by words alone.",
        DegradationCode.ENCODER_CHANGED: "The index has the vectors of another embedding model than the configured one: that "
        "model serves until the new vectors are made, behind committed turns or by `jacquard operate reindex`.",
        DegradationCode.ENCODER_MISSING: "The index has the vectors of an embedding model that is not available here: recall goes "
        "by words until they are made again. `jacquard operate reindex` makes them.",
        DegradationCode.VECTORS_UNSHARED: "What hosts share of vectors cannot be used, or rows of it are damaged: these texts are "
        "embedded again, here and on every other host.",
        DegradationCode.INDEX_DAMAGED: "The index could not be read, or some of its rows are damaged: recall used what was left. "
        "Damaged rows are made again after the turn; `jacquard operate reindex` restores the rest.",
        DegradationCode.INDEX_BEHIND: "Not all of this memory is in the index yet: recall used what is. "
        "`jacquard operate reindex` brings in the rest.",
        DegradationCode.INDEX_IN_MEMORY: "LanceDB is not installed: a memory of this size is searched in memory, which takes "
        f"long. To search it on disk: {install_command('lance')}.",
        DegradationCode.SNAPSHOT_OLD: "The published index of this world is older than the world: what has changed since was added "
        "from the store, in this process. `jacquard operate snapshot publish` makes a new one.",
        DegradationCode.SNAPSHOT_UNREACHABLE: "The published indexes cannot be reached: the newest that this host has fetched is "
        "used, else an index of its own, made from the store.",
        DegradationCode.SNAPSHOT_DAMAGED: "A published index is not what its publisher wrote, and is not used: an older one is, "
        "else an index of this host, made from the store. `jacquard operate snapshot list --verify` names it.",
        DegradationCode.CONFLICT: "Two results disagree; the conflict policy decided what is shown (`report.conflicts`).",
        DegradationCode.TEXT_CUT: "A text is long: its first sentences are shown, and its ref says which characters.",
        DegradationCode.EVIDENCE_NOT_FOUND: "A chosen memory is no longer in the store; it was left out.",
        DegradationCode.EVIDENCE_EXPIRED: "A piece of evidence has expired; it was left out.",
        DegradationCode.CONTENT_NOT_STORED: "Of a piece of evidence only the address is stored, and its text could not be "
        "fetched; it was left out.",
        DegradationCode.SELECTOR_RESOLVE_FAILED: "A selector matched nothing in its evidence; the block's own text is shown, where "
        "it has one.",
        DegradationCode.SOURCE_CHANGED: "A text is not what it was when its ref was made; the current text is shown.",
        DegradationCode.SHORTEN_FAILED: "The model could not shorten a text; its first sentences are shown.",
        DegradationCode.SHORTEN_LATE: "Texts were not shortened in time; their first sentences are shown.",
        DegradationCode.REDACTION_FAILED: "A text could not be searched for what must not be kept; it was withheld, or "
        "kept and marked if the settings let it pass.",
        DegradationCode.REDACTION_OFF: "A text was kept without redaction, as its caller demanded.",
        DegradationCode.DEDUP_SKIPPED: "A text could not be compared with others (its hasher failed, or its call's arguments "
        "name no source); it was written even if it is stored already.",
        DegradationCode.SELECTOR_FAILED: "A selector of a tool result found nothing; the result was kept without it.",
        DegradationCode.ORIGINAL_FAILED: "The original of a redacted text could not be written to the vault; only the redacted "
        "text is kept.",
        DegradationCode.CHUNKS_EXPIRED: "A streamed reply was neither finished nor aborted in time; its chunks were discarded.",
        DegradationCode.CONSOLIDATE_FAILED: "A turn could not be turned into memories; the next consolidation covers it.",
        DegradationCode.INTEGRATION_FAILED: "The adapter of an agent framework could not do a step; the agent went on without it.",
    }
)
"""Sentence of each code. It is used if the code is reported without a detail."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Degradation:
    """Something that a turn had to do without."""

    code: str
    """Code for machines."""
    detail: str
    """Sentence for people; credentials in it are masked."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", mask_credentials(self.detail))


def describe_degradation(code: str) -> Degradation:
    """Return the degradation for `code`, with the sentence of the code as its detail.

    If `code` has the form `code: detail`, this detail is used instead. A code that is not in `DegradationCode` comes
    from a part of the host. If it has no detail, the detail is the code with blanks for underscores.
    """
    name, _, detail = code.partition(": ")
    return Degradation(code=name, detail=detail or SENTENCES.get(name, name.replace("_", " ")))


def degradation_table(language: str = "en") -> str:
    """Return the Markdown table of all codes and their sentences, for docs/en/observability.md and its Chinese twin."""
    heading = "| 代码 | 发生了什么 |" if language == "zh" else "| code | what happened |"
    rows = [f"| `{code.value}` | {translate(SENTENCES[code], language)} |" for code in DegradationCode]
    return "\n".join((heading, "| --- | --- |", *rows))
