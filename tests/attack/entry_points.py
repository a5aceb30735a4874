"""Every entry point that takes text, as a function of one text that also says what must hold: `ENTRIES`.

An entry point is what a user, a model, a tool, an author or an importer gives a text to, and what the engine does with it. A part
that reads only the beginning of a text has the limit of the input that the text comes from. What an entry point may raise is named;
anything else is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jacquard import LimitsConfig, PlanContext
from jacquard.cli.command_parts import sentence
from jacquard.core.plan import SearchIntent, Triage
from jacquard.memory.summarize.extract import read_line
from jacquard.memory.summarize.worth import read_sentence
from jacquard.pipeline.curation.selectors.heuristic import fingerprint_text
from jacquard.pipeline.curation.selectors.relevance import content_words
from mnemosyne import CalibratedEstimator
from mnemosyne.core.jsonpath import compile_path
from mnemosyne.core.regexes import compile_pattern, compile_re
from mnemosyne.core.tokens import estimate_tokens, line_cost
from mnemosyne.retrieval.recall.rerank_features import text_features
from mnemosyne.retrieval.text.words import word_tokens_of_line

LIMITS = LimitsConfig()
EXAMPLES = Path(__file__).parents[2] / "examples" / "whispering_forest"
AT = datetime(2026, 3, 4, tzinfo=UTC)
COUNT = CalibratedEstimator().estimate
MEASURED_CHARS = 2_000_000
"""A file may be longer than this; its growth is measured up to here."""

Run = Callable[[str], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """An entry point: what is done with a text, and the most characters that it takes (`chars`).

    `run` raises AssertionError where a property does not hold. `raises`: what it may raise for a text. `costs`: it reads
    files or starts from much else, so that the long form of short texts leaves it out.
    """

    run: Run
    chars: int
    raises: tuple[type[Exception], ...] = ()
    costs: bool = False

    def __call__(self, text: str) -> None:
        try:
            self.run(text)
        except self.raises as error:
            shown = sentence(error)  # an error is for a person
        else:
            return
        assert shown


ENTRIES: dict[str, Entry] = {}


def entry(name: str, chars: int, *raises: type[Exception], costs: bool = False) -> Any:
    """Register a function as an entry point."""

    def register(run: Run) -> Run:
        ENTRIES[name] = Entry(run=run, chars=chars, raises=raises, costs=costs)
        return run

    return register


def forget_texts() -> None:
    """Empty the caches of functions of texts, so that the next call calculates."""
    for cached in (
        compile_path, compile_pattern, compile_re, content_words, estimate_tokens, fingerprint_text, line_cost, read_line,
        read_sentence, text_features, word_tokens_of_line,
    ):  # fmt: skip
        cached.cache_clear()


def plan_of(keywords: tuple[str, ...]) -> PlanContext:
    return PlanContext(
        triage=Triage.NARRATIVE,
        active_quest_id=None,
        current_goal="",
        template_id="chat",
        search_intent=SearchIntent(enabled=True, focus_keywords=keywords),
    )
