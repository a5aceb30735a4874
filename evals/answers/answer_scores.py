"""Scores whether the text that a prompt writes of its memories contains the gold answer of a query. Pure.

An answer counts if it occurs literally, whatever the case, width and white space; an answer that means a date also if
the prompt gives this date in another form.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evals.answers.date_spans import gives_date, read_answer_date
from filament import unescape
from jacquard.authoring.reports import ANSWER_METRICS

BUDGET_TOKENS = 500
_SHOWN, _FITS, _RECALLED, _DATE_SHOWN, _DATE_FITS, _DATE_RECALLED = ANSWER_METRICS
_FIRST_UNSPACED = "\u3005"


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A document: its text, and what a prompt writes of it (with its speaker, day and dates, escaped)."""

    text: str
    written: str


def score_answer(
    answer: str | None,
    *,
    gold: Sequence[Evidence],
    recalled: Sequence[Evidence],
    prompt: Sequence[str],
    count: Callable[[str], int],
) -> dict[str, float]:
    """Return the scores of one query by metric, only those that apply; none without an answer or without evidence.

    `answer…` apply if a text of the gold evidence contains the answer, `date…` if the answer means a date. `…@500tok`:
    it is in the first 500 tokens of `prompt`, the memories in their written form, in the order of their selection. The
    other two are its upper bounds: `…_fits@500tok`, a single gold document, written within 500 tokens, gives it;
    `…_recalled`, a candidate gives it.
    """
    if not answer or not answer.strip() or not gold:
        return {}
    scores: dict[str, float] = {}
    shown = cut_tokens("\n".join(prompt), BUDGET_TOKENS, count)
    alone = [cut_tokens(each.written, BUDGET_TOKENS, count) for each in gold]
    if any(holds_text(each.text, answer) for each in gold):
        scores[_SHOWN] = float(holds_text(unescape(shown), answer))
        scores[_FITS] = float(any(holds_text(unescape(each), answer) for each in alone))
        scores[_RECALLED] = float(any(holds_text(each.text, answer) for each in recalled))
    wanted = read_answer_date(answer)
    if wanted is not None:
        scores[_DATE_SHOWN] = float(gives_date(shown, wanted))
        scores[_DATE_FITS] = float(any(gives_date(each, wanted) for each in alone))
        scores[_DATE_RECALLED] = float(any(gives_date(each.written, wanted) for each in recalled))
    return scores


def collect_scores(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Return the scores of all queries by metric, in order; metrics that apply to no query are left out."""
    found = {name: [row[name] for row in rows if name in row] for name in ANSWER_METRICS}
    return {name: values for name, values in found.items() if values}


def holds_text(text: str, wanted: str) -> bool:
    """Return whether `wanted` occurs in `text` as whole words, whatever the case, width and white space."""
    within, part = _normalise(text), _normalise(wanted)
    start = within.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        if not _joins(within[start - 1 : start], part[0]) and not _joins(part[-1], within[end : end + 1]):
            return True
        start = within.find(part, start + 1)
    return False


def cut_tokens(text: str, limit: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning of `text` of at most `limit` tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= limit else (low, middle - 1)
    return text[:low]


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _joins(one: str, other: str) -> bool:
    """Return whether two adjacent characters belong to one word; scripts without blanks have no words to respect."""
    return all(each.isalnum() and each < _FIRST_UNSPACED for each in (one, other)) if one and other else False
