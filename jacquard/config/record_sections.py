"""Defines the settings of a session's stored data: summaries, memory, evidence, limits, locks and observability.

A section with a value outside of its bounds raises ConfigError, which names all wrong fields of the section.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from jacquard.config.fields import (
    ANY,
    LOWER,
    Credential,
    bounded_field,
    check,
    choice_field,
    credential_field,
    numbers_field,
    plain_field,
)
from jacquard.core.errors import ConfigError
from mnemosyne.schema.evidence import EvidenceType
from mnemosyne.schema.redaction import RedactionRules
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryConfig:
    """Settings of rolling summaries, which replace messages that the history no longer shows. A summary is due when a
    session exceeds one of the two triggers.
    """

    enabled: bool = plain_field(True, doc="Whether rolling summaries are made.", call=LOWER)
    model: str | None = plain_field(
        None,
        doc="Name of the small model that summarizes, as litellm names it; without one, the most informative sentences are kept.",
    )
    api_base: str | None = credential_field(
        None, Credential.ADDRESS, doc="Address of the server that has the model; none means the provider's own."
    )
    api_key: str | None = credential_field(
        None, Credential.KEY, doc="Key for the model; it is neither stored nor shown."
    )
    max_summary_tokens: int | None = bounded_field(
        None, 1, doc="Maximum tokens of a summary; none means an eighth of the prompt limit, at most 2,000."
    )
    trigger_message_count: int = bounded_field(
        20, 1, doc="A summary is due above this number of messages without a summary."
    )
    trigger_token_threshold: int = bounded_field(
        4096, 1, doc="A summary is due above this number of tokens without a summary."
    )
    preserve_recent_messages: int = bounded_field(5, 0, doc="Number of newest messages that are never summarized.")
    timeout_ms: int = bounded_field(800, 0, doc="Maximum wait of a turn for the model's summary, in milliseconds.")
    background_seconds: float = bounded_field(
        60.0, 1, doc="Time limit of the model call in the background, for later turns, in seconds."
    )

    def __post_init__(self) -> None:
        check(self)


SummarizeConfig = SummaryConfig
"""Name of `SummaryConfig` in the SDK's design."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidationConfig:
    """Settings for making memory from committed turns: summaries of turns, events, and narratives over many turns.

    A model writes the memory: the model of this section, else the model of `summary`. Without both, no memory is made.
    """

    model: str | None = plain_field(
        None, doc="Name of the model that writes memory, as litellm names it; none means the model of `summary`."
    )
    api_base: str | None = credential_field(
        None, Credential.ADDRESS, doc="Address of the server that has the model; none means the provider's own."
    )
    api_key: str | None = credential_field(
        None, Credential.KEY, doc="Key for the model; it is neither stored nor shown."
    )
    every_turns: int = bounded_field(
        8, 0, doc="Number of commits of a branch after which consolidation starts; 0 means only when it is called."
    )
    batch_turns: int = bounded_field(8, 1, 50, doc="Number of turns that one model call summarizes.")
    macro_turns: int = bounded_field(30, 20, 50, doc="Number of turns of a narrative; fewer if a chapter ends.")
    chapter_least_turns: int = bounded_field(4, 1, 50, doc="Minimum turns of a chapter.")
    timeout_seconds: float = bounded_field(90.0, 1, doc="Time limit of one model call, in seconds.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryConfig:
    """Settings of the review of memories by a person."""

    review: bool = plain_field(
        False,
        doc="Whether memories and changes of a model wait until a person accepts them: memories of turns, and edits that a model "
        "makes by the memory verbs (over MCP).",
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionConfig:
    """Settings of the removal of secrets and personal data from texts before they are stored.

    Raises ConfigError if a detector is named together with a redactor other than `patterns`.
    """

    enabled: bool = plain_field(
        True, doc="Whether texts are redacted: results and documents completely, user messages only of secrets."
    )
    redactor: str = credential_field(
        "patterns",
        Credential.ARGUMENT,
        doc="Name of the redactor: `patterns` (the shipped one), or that of a plugin, which gets `rules`.",
    )
    mode: str = choice_field(
        "store_redacted_only",
        "store_redacted_only",
        "dual_store",
        doc="Whether the original is discarded or kept apart from the store (`dual_store`).",
    )
    rules: RedactionRules | None = field(
        default=None,
        metadata={
            "doc": "Rules of removal; none means the shipped rules `pii`, `identity` and `secrets`.",
            "parts": {
                "patterns": "Regular expressions of what is removed; each has a time limit.",
                "field_paths": "JSONPaths (`$.user.phone` or `user.phone`) of values that are removed from JSON content.",
                "dictionaries": "Shipped rule sets that are applied: `pii`, `identity`, `secrets`, `internal_urls`.",
                "words": "Words and names of yours that are removed, in lists by class (`employee: [Ada Keller]`).",
                "named_patterns": "Regular expressions of yours, in lists by class (`case_number: ['C-[0-9]{6}']`).",
            },
        },
    )
    on_failure: str = choice_field(
        "withhold",
        "withhold",
        "pass_through",
        doc="Treatment of a text whose redaction fails: it is withheld, or stored unchanged and marked.",
    )
    detector: str = choice_field(
        "none",
        "none",
        "presidio",
        "presidio_names",
        doc="A detector in addition to the patterns; `presidio` needs the extra `pii`, `presidio_names` also a spaCy model.",
    )

    def __post_init__(self) -> None:
        check(self)
        if self.detector != "none" and self.redactor != "patterns":
            raise ConfigError(
                f"RedactionConfig: a detector goes with the redactor patterns; the redactor {self.redactor} would not use it"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceConfig:
    """Settings of storing, showing and comparing evidence."""

    enabled: bool = plain_field(True, doc="Whether results of tools and searches are shown in prompts.", call=LOWER)
    limit: int = bounded_field(
        6,
        0,
        100,
        doc="Maximum results of tools and searches in a prompt; the best matches of the turn are shown.",
        call=ANY,
    )
    relevance_floor: float = bounded_field(
        0.35,
        0,
        doc="Minimum score of a result that a prompt shows; results that came after the last reply need none. Words add at most 1 "
        "to the score, age at most 0.5; 0 shows the best, even if they are not relevant.",
        call=ANY,
    )
    max_tokens: int = bounded_field(600, 1, doc="Tokens of a result above which only its beginning is shown.", call=ANY)
    conflict_policy: str = choice_field(
        "keep_both_and_warn",
        "prefer_tool_over_rag",
        "prefer_latest_by_at",
        "keep_both_and_warn",
        doc="Rule for two results that contradict each other.",
        call=ANY,
    )
    ttl_seconds: Mapping[str, float] = numbers_field(
        EvidenceType,
        0,
        doc="Maximum age of evidence, in seconds, by type; older evidence is not used.",
        call=LOWER,
    )
    store_content: bool = plain_field(True, doc="Whether the text is stored; otherwise only a pointer and a hash are.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservabilityConfig:
    """Settings of reports on turns: events, stored decisions, spans and metrics. None of them changes a prompt."""

    emit_events: bool = plain_field(True, doc="Whether events are emitted.")
    include_reports_in_store: bool = plain_field(True, doc="Whether the receipt's decisions are stored with the turn.")
    tracing: bool = plain_field(False, doc="Whether OpenTelemetry spans are opened (extra `otel`).")
    metrics: bool = plain_field(False, doc="Whether Prometheus metrics are counted (extra `prometheus`).")
    capture_content: bool = plain_field(
        False, doc="Whether spans and events may contain the texts of users and models."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkConfig:
    """Settings of a reply that comes in chunks. Its limit is `max_chars` or `limits.reply_chars`, whichever is smaller."""

    expire_seconds: float = bounded_field(
        600.0, 1, doc="Time for which an unfinished reply is kept after its last chunk, in seconds."
    )
    max_chars: int = bounded_field(2_000_000, 1, doc="Maximum characters of one reply.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsConfig:
    """Maximum sizes of a session's inputs. A larger input is refused with `InputTooLargeError` and changes nothing.

    If one op (change of the state) of a reply exceeds a limit, all ops of the reply are refused.
    """

    user_message_chars: int = bounded_field(100_000, 1, doc="Maximum characters of one message of the user.")
    part_chars: int = bounded_field(
        48_000_000,
        1,
        doc="Maximum characters of the other content of one message (images, tool calls), as JSON text.",
    )
    reply_chars: int = bounded_field(
        500_000, 1, doc="Maximum characters of one reply of the model, complete or in chunks."
    )
    tool_result_chars: int = bounded_field(2_000_000, 1, doc="Maximum characters of the result of one tool call.")
    reply_ops: int = bounded_field(500, 1, doc="Maximum ops of one reply.")
    op_value_chars: int = bounded_field(8_000, 1, doc="Maximum characters of the value of one op, as JSON text.")
    state_chars: int = bounded_field(400_000, 1, doc="Maximum characters of the whole state, as JSON text.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class LockConfig:
    """Settings of the lock of a session. Calls on one session run one after the other, also across processes."""

    wait_seconds: float = bounded_field(
        60.0, 0, doc="Maximum wait of a call for another call on its session, in seconds, before a StoreBusyError."
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotConfig:
    """Settings of snapshots. The index of a large world is made once and published (`jacquard operate snapshot publish`),
    and hosts fetch it.
    """

    address: str = credential_field(
        "",
        Credential.ADDRESS,
        doc="Address of the snapshots of world indexes: a folder, or a bucket with a prefix, as "
        "`s3://BUCKET/PREFIX?endpoint_override=HOST:PORT&scheme=http&region=R`, `gs://…` or `abfss://…`; empty: every host makes "
        "the index of a world itself.",
    )
    cache_folder: str = plain_field(
        "",
        doc="The folder of this host for fetched snapshots, which all its processes share; empty: `snapshots` below the folder "
        "that MNEMOSYNE_CACHE_DIR names, else below the user's cache folder for `jacquard`.",
    )
    cache_mb: int = bounded_field(
        20_000,
        1,
        doc="Maximum size of `cache_folder` in MB; the least recently used snapshots are removed, unless a process uses them.",
    )
    check_seconds: float = bounded_field(
        300.0, 0, doc="Time after which a host looks for a newer snapshot, in seconds, outside of turns."
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmConfig:
    """One arm (variant) of an A/B experiment."""

    share: float = bounded_field(1.0, 0, doc="The arm's share of the sessions, as a part of the sum of all shares.")
    config: Mapping[str, Any] = plain_field(
        default_factory=dict,
        shown=False,
        doc="The settings that the arm changes, nested as in the configuration; `experiments` and `tags` cannot be changed.",
    )

    def __post_init__(self) -> None:
        check(self)
