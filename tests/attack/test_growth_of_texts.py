"""What a text costs grows with its length and not faster, for every entry point and every generator of hostile texts.

Short form: two sizes of each pair are compared, and only a pair whose time grows as that of quadratic work would is measured. Long
form (`python -m tests.attack growth`): every pair, over sizes that double up to the limit of the input, or until one takes
`ENOUGH_SECONDS`: the exponent that fits the least times of five is at most `MOST`.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import Any

import pytest
from generators import GENERATORS, NAMES
from growth import MEASURABLE_SECONDS, MOST, TIMES, Growth, measure, no_collections, seconds_of, sizes_up_to
from long_form import LongForm
from text_entries import ENTRIES, EXAMPLES, LIMITS, forget_texts

from jacquard import InputTooLargeError, JacquardError, LimitsConfig, RuntimeConfig, create_context_engine
from jacquard.pipeline.planning.actions import MAX_INPUT_CHARS, read_input
from mnemosyne import MemoryStore, MnemosyneError, RedactionRules, ToolCall, load_world
from mnemosyne.core.jsonpath import MAX_JSON_CHARS, MAX_PATH_CHARS, compile_path, find_nodes
from mnemosyne.core.regexes import MAX_PATTERN_CHARS, compile_pattern, compile_re
from mnemosyne.formats.corpora.corpus import MAX_LINE_BYTES, read_corpus
from mnemosyne.privacy.redact import MAX_TEXT_CHARS, redact_text

SMALL, TIMES_LARGER = 1_000, 4
SUSPECT = 9
"""Of four times the size: linear work takes 4 times the time, quadratic work 16 times."""
SLOW = frozenset(
    {"actions", "card and its book", "cut of an authored text", "excerpt", "input words", "names", "pack: actions.yaml",
     "pack: lore.md", "pack: lore.yaml", "pack: world.yaml", "pattern", "pattern of an author", "planner",
     "planner in Chinese", "planner of a world without names", "proxy: messages beside stored ones",
     "proxy: reply in events", "redaction", "reply in pieces of 1", "reply in pieces of 7", "scrubbing",
     "scrubbing of itself", "summary of a turn", "summary that grew", "template", "template of a reply",
     "text that repeats itself", "text that was shown", "value of a template"}
)  # fmt: skip
"""Of these the suite tries one generator of `STRIDE`, and the long form all of them."""
STRIDE = 8
ENOUGH_SECONDS = 0.5
MOST_OF_FEW = 1.5
"""For four sizes on a busy machine, where a step of the work (a text that is cut or not) weighs more; quadratic work has 2."""
PAIRS = [(name, each) for name in ENTRIES for each in NAMES]


def measure_pair(name: str, generator: str, limit: int, count: int = 7) -> Growth:
    entry = ENTRIES[name]
    seconds = seconds_of(entry, GENERATORS[generator], forget_texts)
    return measure(seconds, sizes_up_to(min(limit, entry.chars), count), enough_seconds=ENOUGH_SECONDS)


def is_suspect(name: str, generator: str) -> bool:
    """Return whether the time of a pair grows as that of quadratic work would between two sizes."""
    entry = ENTRIES[name]
    seconds = seconds_of(entry, GENERATORS[generator], forget_texts)
    large = min(TIMES_LARGER * SMALL, entry.chars)
    spent = seconds(large)
    return spent > MEASURABLE_SECONDS and spent > SUSPECT * min(seconds(large // TIMES_LARGER) for _ in range(2))


@pytest.mark.parametrize("name", ENTRIES)
def test_a_text_costs_as_much_as_it_is_long(name):
    entry = ENTRIES[name]
    entry(GENERATORS["english"](200))  # what is loaded at first use is not measured
    found = {}
    with no_collections():
        suspects = [each for each in NAMES[:: STRIDE if name in SLOW else 1] if is_suspect(name, each)]
    for generator in suspects:
        growth = measure_pair(name, generator, limit=64 * SMALL, count=4)
        if growth.exponent > MOST_OF_FEW:
            found[generator] = str(growth)
    assert found == {}


def check(number: int) -> None:
    name, generator = PAIRS[number]
    growth = measure_pair(name, generator, limit=ENTRIES[name].chars)
    assert growth.exponent <= MOST, f"{name}, {generator}: {growth}"


FORM = LongForm(count=len(PAIRS), check=check, chunk=len(NAMES))


def test_the_exponent_is_that_of_the_work():
    def seconds(power):
        return lambda size: 1e-3 * (size / 1_000) ** power

    for power in (1.0, 1.2, 1.5, 2.0):
        assert measure(seconds(power), sizes_up_to(1 << 14), enough_seconds=100.0).exponent == pytest.approx(power)
    assert measure(lambda size: 1e-6, sizes_up_to(1 << 20)).exponent == 0.0


def test_quadratic_work_is_found():
    quadratic = seconds_of(
        lambda text: [text.count(text[at : at + 9]) for at in range(len(text))], GENERATORS["english"], forget_texts
    )
    assert measure(quadratic, sizes_up_to(16_000, 3)).exponent > MOST


# --- beyond the limit -------------------------------------------------------------------------------------------------

NOTHING = RedactionRules()


REFUSALS = {
    "text to redact": (MAX_TEXT_CHARS, lambda text: redact_text(text, NOTHING)),
    "JSON": (MAX_JSON_CHARS, lambda text: find_nodes(text, "$.a")),
    "pattern": (MAX_PATTERN_CHARS, compile_pattern),
    "pattern of an author": (MAX_PATTERN_CHARS, compile_re),
    "path": (MAX_PATH_CHARS, compile_path),
}


def refusal_seconds(work, text):
    forget_texts()
    started = thread_time()
    with pytest.raises((JacquardError, MnemosyneError)):
        work(text)
    return thread_time() - started


def costs_the_same(near, far):
    """Compare the least times of both, in turn: that of four times the size is no more than that of one character too many."""
    few, many = [], []
    for _ in range(TIMES):
        few.append(near())
        many.append(far())
    assert min(many) < 3 * min(few) + MEASURABLE_SECONDS, f"{1000 * min(few):.2f} ms, then {1000 * min(many):.2f} ms"


@pytest.mark.parametrize(("limit", "work"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("sign", ["a", "[", "("])
def test_what_is_beyond_the_limit_is_refused_at_a_cost_that_does_not_grow(limit, work, sign):
    near, far = sign * (limit + 1), sign * (4 * limit)
    costs_the_same(lambda: refusal_seconds(work, near), lambda: refusal_seconds(work, far))


def test_an_input_that_is_too_long_to_be_an_action_is_not_read():
    world = load_world(EXAMPLES / "en")

    def seconds(chars):
        text = "buy " * chars
        started = thread_time()
        assert read_input(text[:chars], world).action is None
        return thread_time() - started

    costs_the_same(lambda: seconds(MAX_INPUT_CHARS + 1), lambda: seconds(4 * MAX_INPUT_CHARS))


def test_a_line_of_a_corpus_that_is_too_long_is_not_read_to_its_end(tmp_path):
    for times in (1, 4):
        (tmp_path / f"{times}.jsonl").write_text("x" * (times * MAX_LINE_BYTES + 1))

    def seconds(times):
        return refusal_seconds(read_corpus, tmp_path / f"{times}.jsonl")

    costs_the_same(lambda: seconds(1), lambda: seconds(4))


@dataclass(frozen=True, kw_only=True)
class Input:
    """An input of a session: its limit, and the call that takes it."""

    chars: int
    give: Any


INPUTS = {
    "message": Input(chars=LIMITS.user_message_chars, give=lambda engine, text: engine.prepare_turn("s", text)),
    "reply": Input(chars=LIMITS.reply_chars, give=lambda engine, text: engine.commit_assistant_message("s", text)),
    "chunk": Input(chars=LIMITS.reply_chars, give=lambda engine, text: engine.commit_assistant_chunk("s", text, 0)),
    "tool result": Input(
        chars=LIMITS.tool_result_chars,
        give=lambda engine, text: engine.record_tool_call("s", ToolCall(tool_call_id="c", tool="read"), result=text),
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
async def test_an_input_of_a_session_is_refused_at_a_cost_that_does_not_grow(given):
    store = MemoryStore()
    try:
        async with create_context_engine(store, config=RuntimeConfig(limits=LimitsConfig())) as engine:
            await engine.prepare_turn("s", "Hello.")
            await engine.commit_assistant_message("s", "Hi.")
            await engine.prepare_turn("s", "And now?")

            async def seconds(chars):
                text = "<a>" * chars
                text, started = text[:chars], thread_time()
                with pytest.raises(InputTooLargeError):
                    await given.give(engine, text)
                return thread_time() - started

            near = [await seconds(given.chars + 1) for _ in range(TIMES)]
            far = [await seconds(4 * given.chars) for _ in range(TIMES)]
            assert min(far) < 3 * min(near) + MEASURABLE_SECONDS
    finally:
        await store.close()
