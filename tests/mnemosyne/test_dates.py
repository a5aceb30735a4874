"""Words that mean a date are resolved against the time at which they were said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jacquard import Selection
from jacquard.pipeline.curation.memory_blocks import MemoryLabels, render_memories
from mnemosyne import CalibratedEstimator, Chain, MemoryEntry
from mnemosyne.retrieval.engines.rows import own_words
from mnemosyne.retrieval.text.dates import MOST_DATES, READ_CHARS, resolve_dates

SAID = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
"""A Monday."""


def labels(text, at=SAID):
    return [each.label for each in resolve_dates(text, at)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I went there yesterday.", ["2023-05-07"]),
        ("The day before yesterday it rained.", ["2023-05-06"]),
        ("We leave tomorrow.", ["2023-05-09"]),
        ("We met three days ago.", ["2023-05-05"]),
        ("That was last year.", ["2022"]),
        ("I'll start next month.", ["2023-06"]),
        ("Last Friday she called.", ["2023-05-05"]),
        ("We talked last week.", ["2023-05-01..2023-05-07"]),
        ("Yesterday was fine, tomorrow will be better.", ["2023-05-07", "2023-05-09"]),
        ("昨天我去了集市。", ["2023-05-07"]),
        ("三天前下过雨。", ["2023-05-05"]),
        ("去年夏天我们在海边。", ["summer 2022"]),
        ("上个月他来过。", ["2023-04"]),
        ("明年再说。", ["2024"]),
    ],
)
def test_a_word_means_the_date_seen_from_the_day_on_which_it_was_said(text, expected):
    assert labels(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Today is fine.",
        "The last of the cups.",
        "At long last!",
        "今天很好。",
        "三天后他到了。",
        "yesterdays",
        "nothing of the kind",
    ],
)
def test_a_word_without_one_usual_meaning_is_left_as_it_is(text):
    assert labels(text) == []


def test_a_date_that_no_calendar_has_is_left_out():
    assert labels("yesterday", datetime(1, 1, 1, tzinfo=UTC)) == []
    assert labels("明年", datetime(9999, 12, 31, tzinfo=UTC)) == []


def test_no_more_dates_than_the_limit_and_only_the_beginning_of_a_text_is_read():
    assert len(labels("yesterday " * 100)) == MOST_DATES
    assert labels(" " * READ_CHARS + "yesterday") == []


@given(st.text(alphabet="yesterday lastweek 上下个月周年昨天前0123456789,.\n", max_size=300), st.datetimes())
def test_any_text_at_any_time_gives_dates_in_the_order_of_the_text(text, at):
    found = resolve_dates(text, at)
    assert [each.start for each in found] == sorted(each.start for each in found)
    assert all(each.first <= each.last and each.phrase in " ".join(text.split()) for each in found)


def test_a_message_is_found_by_the_date_that_it_means_and_shows_it():
    entry = MemoryEntry(
        entry_id="m1", scope="session:s", chain=Chain.HISTORY, kind="message", text="I ran a race last Friday.", at=SAID
    )
    assert "5 May 2023" in own_words(entry)
    (shown,) = render_memories(
        Selection(entry_ids=("m1",)), [entry], CalibratedEstimator(), labels=MemoryLabels(dates=True)
    )
    assert 'dates="last Friday = 2023-05-05"' in shown.content
    (plain,) = render_memories(Selection(entry_ids=("m1",)), [entry], CalibratedEstimator())
    assert "dates=" not in plain.content
