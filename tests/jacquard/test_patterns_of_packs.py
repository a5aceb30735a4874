"""Patterns of packs: whatever an author writes, an input is answered, the event loop goes on, and `validate` says what is slow."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from threading import get_ident

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from jacquard import EvidenceConfig, InMemoryEventBus, create_context_engine, open_runtime
from jacquard.cli.app import app
from jacquard.pipeline.evidence.blocks import load_evidence_blocks
from jacquard.pipeline.planning.actions import match_action
from mnemosyne import (
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryStore,
    RedactionError,
    RedactionRules,
    SelectorResolveError,
    SessionStart,
    SourceKind,
    SystemClock,
    extract,
    load_world,
)
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.schema.world import NumericalAction

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
SLOW = [
    r"(?:a{0,15}){0,15}b", r"(a|aa)+b", r"(a|a)*b", r"(a|b|ab)*c", r"(\w|\d){30}x", r"(.*?,){11}P", r"(?:a+?)+?b",
    r"((?:a|ab|b)+)+c", r"x(?:y|yy)+z", r"(?:l|li|i)+ght",
]  # fmt: skip
"""Patterns that keep the time-limited engine busy too."""
FIRST = SLOW[:4]
"""Those that the default suite tries; the long form tries all."""

FAMILY = [
    *SLOW, r"a*a*a*a*a*a*a*b", r"(?:a?){16}(?:a?){16}b", r"(a+)+b", r"(a*)*b", r"(?:\w+\s*)+x", r"((ab)+c?)+d",
    r"(\d+|x)+!", r"([a-z]+)*!", r"(a?){40}b", r"x(?P<n>(y+z?)+)q", r"((a{1,5})){20}z", r"(?:(?:a|b)+)+c",
    r"((a|b)*c*)*d", r".* a .* b .* c .*", r"(?:a|a?)+b", r"(x+x+)+y", r"(a+a+)+b", r"(\w+\s?)*:", r".*.*.*.*=.*",
    r"(?=(a+))\1*(a+)+b", r"(a+){2,}b|c", r"\s*\s*\s*\s*\s*\s*x", r"[ab]*[ab]*[ab]*[ab]*[ab]*c",
    r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(\w*_?)*-",
]  # fmt: skip
HOSTILE = [
    "a" * 190 + "b9",
    "ab" * 95 + "c9",
    "x" + "y" * 190 + "z9",
    "1" * 190 + "x9",
    ",1" * 90 + "P_",
    "li" * 95 + "9",
]

ACTIONS = """
- id: first
  patterns: [PATTERN]
  ops: [[ADD, hero.health, 1]]
  reply: "First."

- id: second
  patterns: ["a{60}b9", "polish the lamp"]
  ops: [[ADD, hero.health, 1]]
  reply: "Second."
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.fixture
def pack(run, tmp_path):
    """Writes a pack whose first action waits for a pattern."""

    def write(pattern: str) -> Path:
        if not (tmp_path / "world").exists():
            run("author", "init", tmp_path / "world")
        text = ACTIONS.replace("PATTERN", json.dumps(pattern))
        (tmp_path / "world" / "actions.yaml").write_text(text, encoding="utf-8")
        return tmp_path / "world"

    return write


def world_of(*patterns: str):
    first = NumericalAction(action_id="first", patterns=patterns, ops=(("ADD", "hero.health", 1),), reply="First.")
    second = replace(first, action_id="second", patterns=("a{60}b9", "polish the lamp"), reply="Second.")
    return replace(world_without_actions(), actions=(first, second), state={"hero": {"health": 1}})


def first_of(patterns):
    return [pytest.param(each, marks=() if each in FIRST else pytest.mark.full) for each in patterns]


@pytest.mark.parametrize("pattern", first_of(SLOW))
def test_validate_names_file_and_line_of_a_slow_pattern(run, pack, pattern):
    said = run("author", "validate", pack(pattern), code=1).output
    assert "actions.yaml:3: actions[0].patterns[0]: is too slow" in said


@pytest.mark.parametrize("pattern", ["(?:a{1000}){1000}b", "(?=a{3000}){3000}b", "(?:(?:a{99}){99}){99}b"])
def test_validate_names_a_pattern_that_is_endless_once_compiled(run, pack, pattern):
    said = run("author", "validate", pack(pattern), code=1).output
    assert "actions.yaml:3: actions[0].patterns[0]: cannot be used" in said
    assert "smaller numbers in braces" in said


def test_validate_lets_the_patterns_of_the_examples_pass(run):
    for locale in ("en", "zh"):
        run("author", "validate", FOREST.parent / locale)


@pytest.mark.parametrize("pattern", first_of(FAMILY))
async def test_a_turn_goes_on_whatever_the_pattern(pattern):
    world = world_of(pattern)
    async with create_context_engine(MemoryStore(), world=world) as engine:
        for number, text in enumerate(HOSTILE):
            turn = await engine.prepare_turn(f"s{number}", text)
            assert turn.plan.triage.value == "narrative"
            assert {each.code for each in turn.report.degradations} <= {"action_pattern_failed", "no_embedder"}
        turn = await engine.prepare_turn("last", "a" * 60 + "b9!")
        assert turn.plan.action_id in ("first", "second")


async def test_a_pattern_without_end_is_told_in_the_receipt_and_the_others_are_tried():
    async with create_context_engine(MemoryStore(), world=world_of(r"(a|aa)+b")) as engine:
        turn = await engine.prepare_turn("s", "a" * 190 + "b9")
        told = {each.code: each.detail for each in turn.report.degradations}
        assert "too long" in told["action_pattern_failed"]
        assert any("action first" in reason and "(a|aa)+b" in reason for reason in turn.plan.reasons)
        turn = await engine.prepare_turn("t", "a" * 60 + "b9")
        assert (turn.plan.action_id, turn.reply) == ("second", "Second.")
        assert "action_pattern_failed" in {each.code for each in turn.report.degradations}
        turn = await engine.prepare_turn("u", "polish the lamp")
        assert (turn.plan.action_id, turn.reply) == ("second", "Second.")
        assert "action_pattern_failed" not in {each.code for each in turn.report.degradations}


async def test_the_event_loop_goes_on_while_a_pattern_is_matched():
    ticks, seen = 0, {}
    bus = InMemoryEventBus()
    bus.on_all(lambda event: seen.setdefault(event.event_type.value, ticks))

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    async def turn(text: str) -> int:
        seen.clear()
        await engine.prepare_turn(text, text)
        return seen["TurnPlanned"] - seen["SessionLoaded"]

    async with (
        create_context_engine(MemoryStore(), world=world_of(r"(a|aa)+b"), event_bus=bus) as engine,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(tick)
        # Of the time that the limit gives the pattern, the loop has its share.
        assert await turn("a" * 190 + "b9") > 50
        tasks.cancel_scope.cancel()


def test_the_command_answers_at_once_where_a_pattern_has_no_end(run, pack):
    world = pack(r"(a|aa)+b")
    run("play", "action", "--world", world, "--session", "s", "--input", "a" * 190 + "b9", code=1)
    done = run("play", "action", "--world", world, "--session", "s", "--input", "a" * 60 + "b9", "--json")
    assert json.loads(done.stdout)["reply"] == "Second."
    woven = run(
        "play", "weave", "--world", world, "--session", "s", "--input", "a" * 190 + "b9", "--embedder", "none", "--json"
    )
    codes = {each["code"] for each in json.loads(woven.stdout)["report"]["degradations"]}
    assert "action_pattern_failed" in codes


PIECES = st.sampled_from(
    [
        *"ab kIiıİß神éÉ1_-{}[]&~|#", r"\w", r"\W", r"\d", r"\s", r"\S", r"\b", ".", "[a-c]", "[^a]", r"[^\W\d_]", r"[\W1]",
        "[a[:alpha:]]", "[]a]", "[^]a]", r"\1", r"[\w ]", "(?P<n>a|b)", "(ab?)", "(?:a|bc)", "(?=a)", "(?<!b)", "{e}",
        "a{,2}", "{1,", "(?i:A)", r"\N{DIGIT ONE}", r"\x41", "(?>a|ab)", "हि", "[h-j]",
    ]
)  # fmt: skip
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?", "+?", "{,2}", "{2,}"])
PATTERNS = st.lists(st.tuples(PIECES, REPEATS).map("".join), min_size=1, max_size=5).map("".join)
WORDS = st.text(alphabet="abkKIiİıßẞ神éÉ1_-ह\u093f፩{}e[:^]x#&|A", min_size=1, max_size=6)


@given(PATTERNS, st.lists(WORDS, max_size=12))
def test_a_pattern_means_what_it_means_to_python(pattern, texts):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            meant = re.compile(pattern, re.IGNORECASE)
    except (re.error, Warning, OverflowError):
        return
    action = NumericalAction(action_id="one", patterns=(pattern,), ops=(), reply="")
    world = replace(world_without_actions(), actions=(action,))
    for text in texts:
        found = meant.fullmatch(text)
        expected = None if found is None else {name: said or "" for name, said in found.groupdict().items()}
        matched = match_action(text, world)
        assert (None if matched is None else dict(matched[1])) == expected, (pattern, text)


_WORLD = []


def world_without_actions():
    if not _WORLD:
        _WORLD.append(load_world(FOREST))
    return _WORLD[0]


@pytest.mark.parametrize(
    "pattern", ["(?=a{3000}){3000}x", "(?x)(?:a{1000} # )\n){1000}", "(?x:(?:a{1000} # )\n){1000})"]
)
async def test_selectors_and_redaction_refuse_what_is_endless_once_compiled(pattern):
    with pytest.raises(SelectorResolveError, match="smaller numbers"):
        extract("text", f"regex:{pattern}")
    with pytest.raises(RedactionError, match="smaller numbers"):
        RegexRedactor(RedactionRules(patterns=(pattern,)))


async def test_selectors_and_redaction_give_up_in_time():
    text = "a" * 5_000 + "c"
    with pytest.raises(SelectorResolveError, match="it ran for more than"):
        extract(text, "regex:(?:a|aa)+b|d")
    with pytest.raises(RedactionError, match="could not be searched"):
        await RegexRedactor(RedactionRules(patterns=("(?:a|aa)+b|d",), dictionaries=())).redact(text)


async def test_selectors_of_evidence_are_followed_off_the_event_loop(tmp_path):
    async with open_runtime(tmp_path / "place", embedder="none") as runtime:
        await runtime.store.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
        source = EvidenceSource(kind=SourceKind.RAG, name="wiki", uri="https://wiki.example/a")
        text = "a" * 5_000 + "c"
        done = await runtime.intake.ingestor.ingest(
            "s", text, source, EvidenceType.RAG_DOC, options=IngestOptions(selectors=("lines:1",))
        )
        refs = [{"selector": "regex:(?:a|aa)+b|d", "hash": None}]
        slow = replace(done.evidence, evidence_id="slow", metadata={"shown_refs": refs})
        await runtime.store.put_evidence("s", slow)
        threads = set()

        def count(said: str) -> int:
            if not said:  # of the text that the slow selector did not find
                threads.add(get_ident())
            return len(said)

        flesh = await load_evidence_blocks(runtime.store, SystemClock(), "s", EvidenceConfig(), count)
        assert threads
        assert get_ident() not in threads
        assert any(told.startswith("selector_resolve_failed") for told in flesh.degradations)
