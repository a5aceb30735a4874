"""Every place where words of users can lie is in the one list of an erasure; what is new is looked at before it is published."""

import sqlite3
from dataclasses import fields
from pathlib import Path

from jacquard import PlanContext
from jacquard.core.plan import SearchIntent
from jacquard.core.receipt import StreamBReport
from jacquard.wiring.erasure_places import PAGE, list_places, render_page
from mnemosyne.privacy.places import CONTENTS, WORD_KEYS, Treatment
from mnemosyne.stores.sql.schema import statements

PAGES = Path(__file__).parents[2] / "docs"
NOT_TAKEN_FROM_THE_INPUT = {
    PlanContext: {
        *(
            "triage",
            "active_quest_id",
            "current_goal",
            "template_id",
            "search_intent",
            "action_id",
            "tier",
            "confidence",
        ),
        *("tier1", "switches", "flags", "injections", "injected_at", "world_info"),
    },
    SearchIntent: {"enabled", "temporal_context", "domain_weight", "overview"},
    StreamBReport: {
        *("path", "reason", "code", "model", "candidates", "selected", "counts", "prefetch_refused", "lease_refused"),
        *("chosen_for", "relevance_floor"),
    },
}


def test_the_published_list_is_the_present_one():
    assert (PAGES / "en" / PAGE).read_text(encoding="utf-8") == render_page(), (
        "A place is new or treated otherwise. Check what an erasure does with it, then run "
        "`python -m jacquard.wiring.erasure_places docs`."
    )


def test_every_column_that_may_hold_text_is_in_the_list():
    database = sqlite3.connect(":memory:")
    for statement in statements("sqlite"):
        database.execute(statement)
    columns = {
        f"sql: {table}.{column}"
        for (table,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall()
        if kind in ("TEXT", "BLOB") and column != "tenant"
    }
    database.close()
    assert columns <= {place.name for place in list_places()}


def test_every_table_of_a_session_is_emptied_with_it():
    database = sqlite3.connect(":memory:")
    for statement in statements("sqlite"):
        database.execute(statement)
    of_sessions = {
        table
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if "session" in {column for _, column, *_ in database.execute(f"PRAGMA table_info({table})").fetchall()}
    }
    database.close()
    assert of_sessions <= {place.name.removeprefix("sql: ").partition(".")[0] for place in list_places()}


def test_fields_of_plans_and_receipts_that_hold_words_of_the_input_are_known():
    for kind, others in NOT_TAKEN_FROM_THE_INPUT.items():
        assert {each.name for each in fields(kind)} - WORD_KEYS == others, kind
    assert CONTENTS["plan"].word_keys == CONTENTS["receipt"].word_keys == WORD_KEYS


def test_texts_are_scrubbed_and_only_ids_are_kept():
    treated = {place.name: place.treatment for place in list_places()}
    assert treated["Message.content"] is treated["EvidenceSource.uri"] is Treatment.SCRUBBED
    assert treated["Prefetch.keywords"] is Treatment.WORDS
    assert treated["Message.message_id"] is Treatment.KEPT
    assert treated["sql: packs.body"] is Treatment.AUTHORED
