"""A reply on its way: chunk borders anywhere, nothing lost, and work that grows with the length and not faster."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
from filament_strategies import texts
from hypothesis import given, settings
from hypothesis import strategies as st

from filament import (
    Body,
    EventKind,
    ExpectedReply,
    FilamentError,
    StreamParser,
    TagRule,
    clean_text,
    parse_op,
    parse_reply,
    unescape,
)
from filament.errors import MarkupError, ReplyError
from filament.reply.values import ParsedReply, ParseEvent, PieceKind

SET = '["SET", "hero.gold", 1]'
GOOD = (
    "<thought>He pays.</thought>\n"
    "<content>“Five coins &amp; a smile,” he says.\n\n她点了点头。😀</content>\n"
    f'<state_update>{{"ops": [{SET}]}}</state_update>\n'
)
SHORT = f"<think>a</think><content>Hi</content><state_update>[{SET}]</state_update>"
CHOICE = TagRule(name="choice", body=Body.JSON, repeatable=False)
SCENE = ExpectedReply(
    tags=(
        TagRule(name="thought", aliases=("think",)),
        TagRule(name="content", required=True, repeatable=False),
        TagRule(name="aside"),
        CHOICE,
    ),
    sequence=("thought", "content", "choice"),
)


def fed(chunks: Iterable[str], expected: ExpectedReply | None = None) -> tuple[list[ParseEvent], ParsedReply]:
    parser = StreamParser() if expected is None else StreamParser(expected=expected)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    reply = parser.close()
    return [*events, *reply.tail], reply


def merged(events: Sequence[ParseEvent]) -> list[Any]:
    """Neighbouring texts of one tag as one: where a text is cut is the only thing that chunks may decide."""
    line: list[Any] = []
    for event in events:
        if event.kind is not EventKind.TEXT:
            line.append(event)
        elif line and isinstance(line[-1], list) and line[-1][0] == event.tag:
            line[-1][1] += event.text
        else:
            line.append([event.tag, event.text])
    return line


def heard(events: Sequence[ParseEvent]) -> dict[str, str]:
    """What a screen that follows the events shows in the end."""
    said: dict[str, str] = {}
    for event in events:
        if event.kind is EventKind.TEXT:
            said[event.tag] = said.get(event.tag, "") + event.text
        elif event.kind is EventKind.MOVED:
            said["thought"] = said.pop("content", "")
    return said


def pieces_of(text: str, places: Iterable[int]) -> list[str]:
    borders = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]


def bare(text: str) -> str:
    return "".join(text.split())


def check_split(
    text: str, chunks: list[str], whole: tuple[list[Any], ParsedReply], expected: ExpectedReply | None
) -> None:
    assert "".join(chunks) == text
    events, reply = fed(chunks, expected)
    assert reply == whole[1]
    assert merged(events) == whole[0]


def check_whole(text: str, events: Sequence[ParseEvent], reply: ParsedReply) -> None:
    """What was told is what the reply holds, and every character of the input is somewhere."""
    said = heard(events)
    assert said.get("content", "") == reply.content
    assert said.get("thought", "") == reply.thought
    assert tuple(op for event in events for op in event.ops) == reply.ops
    paired = (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if max(text, default="") >= "\ud800"
        else text
    )
    assert len(reply.source) == len(clean_text(paired))
    borders = [0, *(piece.end for piece in reply.pieces)]
    assert [piece.start for piece in reply.pieces] == borders[:-1]
    assert borders[-1] == len(reply.source)
    fenced = any(entry.code == "fence" for entry in reply.log)
    for tag, told in (("content", reply.content), ("thought", reply.thought), *reply.texts):
        of_tag = [p for p in reply.pieces if p.kind is PieceKind.TEXT and p.tag == tag]
        written = "".join(bare(unescape(reply.source[p.start : p.end])) for p in of_tag)
        if fenced:
            assert re.sub("[`A-Za-z]", "", bare(told)) == re.sub("[`A-Za-z]", "", written)
        else:
            assert bare(told) == written


# --- what is told, and when ---


def test_content_is_told_before_its_tag_closes() -> None:
    parser = StreamParser()
    assert parser.feed("<con") == ()
    assert parser.feed("tent>Hel") == (ParseEvent(kind=EventKind.TEXT, tag="content", text="Hel"),)
    assert parser.feed("lo &am") == (ParseEvent(kind=EventKind.TEXT, tag="content", text="lo"),)
    assert parser.feed("p; bye ") == (ParseEvent(kind=EventKind.TEXT, tag="content", text=" & bye"),)
    assert parser.feed("</content>") == ()
    assert parser.feed("  \n") == ()
    reply = parser.close()
    assert (reply.content, reply.tail, reply.log) == ("Hello & bye", (), ())


def test_ops_are_told_at_the_end_and_other_json_with_its_closing_tag() -> None:
    parser = StreamParser(expected=ExpectedReply(tags=(*ExpectedReply().tags, CHOICE)))
    parser.feed("<content>Hi</content>")
    assert parser.feed(f"<state_update>[{SET}]</state_update><choice>[1]</cho") == ()
    (event,) = parser.feed("ice>")
    assert (event.kind, event.value) == (EventKind.BLOCK, [1])
    (event,) = parser.close().tail
    assert (event.kind, event.ops) == (EventKind.BLOCK, (parse_op(["SET", "hero.gold", 1]),))


def test_less_than_in_prose_does_not_hold_the_talk() -> None:
    parser = StreamParser()
    assert (
        heard(parser.feed("I <3 you, 1 < 2 and 2 <= 3 <é> <b>bold"))["content"]
        == "I <3 you, 1 < 2 and 2 <= 3 <é> <b>bold"
    )
    assert heard(parser.feed(" and <b"))["content"] == " and"
    assert parser.close().content.endswith("and <b")


def test_what_was_told_as_content_and_was_a_thought_is_moved() -> None:
    events, reply = fed(["I reckon", " so</thi", "nk>", "Hi"])
    assert heard(events) == {"thought": "I reckon so", "content": "Hi"}
    assert [event.kind for event in events if event.kind is not EventKind.CORRECTED] == [
        EventKind.TEXT,
        EventKind.TEXT,
        EventKind.MOVED,
        EventKind.TEXT,
    ]
    assert (reply.content, reply.thought) == ("Hi", "I reckon so")
    assert [piece.tag for piece in reply.pieces if piece.kind is PieceKind.TEXT] == ["thought", "content"]


@pytest.mark.parametrize(
    ("chunks", "content"),
    [
        (["one\r", "\ntwo\r", "three"], "one\ntwo\nthree"),
        (["\ud83d", "\ude00 ok"], "😀 ok"),
        (["a\ud83d", "b\ude00"], "a\ufffdb\ufffd"),
        (["a\ud83d"], "a\ufffd"),
        (["&", "l", "t", ";", "b>"], "<b>"),
        (["&#x5", "956;", "&#60", ";"], "妖<".replace("妖", chr(0x5956))),
        (["&am"], "&am"),
        ([], ""),
        (["", "a", ""], "a"),
    ],
)
def test_borders_within_a_character(chunks: list[str], content: str) -> None:
    assert fed(chunks)[1].content == content


def test_a_reply_ends_once() -> None:
    parser = StreamParser()
    parser.feed("Hi")
    assert parser.close() is parser.close()
    with pytest.raises(FilamentError, match="has ended"):
        parser.feed("more")


# --- the expected structure ---


def test_other_tags_are_read_where_they_are_expected() -> None:
    text = 'Hm<choice>{"prompt": "Go &amp; see?", "options": []}</choice><aside>psst</aside>'
    plain = parse_reply(text)
    assert plain.blocks == ()
    assert plain.content == unescape(text)
    assert [entry.code for entry in plain.log] == ["bare_text", "unknown_tag", "unknown_tag"]
    assert plain.corrections == ()
    reply = parse_reply(text, expected=SCENE)
    assert [(block.tag, block.value) for block in reply.blocks] == [("choice", {"prompt": "Go & see?", "options": []})]
    assert reply.source[reply.blocks[0].start : reply.blocks[0].end].startswith('{"prompt"')
    assert (reply.content, reply.texts) == ("Hm", (("aside", "psst"),))


def test_order_and_number_are_noted_and_nothing_is_lost() -> None:
    text = '<choice>[1]</choice><content>A</content><choice>{"a": 2}</choice><think>t</think><content>B</content>'
    reply = parse_reply(text, expected=SCENE)
    assert (reply.content, reply.thought) == ("AB", "t")
    assert [block.value for block in reply.blocks] == [[1]]
    codes = [entry.code for entry in reply.log]
    assert codes == ["out_of_order", "too_many", "alias", "out_of_order", "alias", "out_of_order", "too_many"]


def test_an_update_that_is_not_legal_now_changes_nothing_and_is_not_shown() -> None:
    reply = parse_reply(f"Hi<state_update>[{SET}]</state_update>", expected=SCENE)
    assert (reply.content, reply.ops) == ("Hi", ())
    assert "may hold none" in reply.corrections[0]


def test_what_is_required_is_missed() -> None:
    wanted = ExpectedReply(tags=(TagRule(name="content"), TagRule(name="choice", body=Body.JSON, required=True)))
    assert parse_reply("Hi", expected=wanted).corrections == ("The reply has no choice.",)
    assert parse_reply("<choice>{}</choice>", expected=wanted).corrections == ()


def test_an_impossible_structure_is_refused() -> None:
    with pytest.raises(MarkupError, match="expected twice"):
        ExpectedReply(tags=(TagRule(name="a"), TagRule(name="b", aliases=("A",))))
    with pytest.raises(MarkupError, match="not an expected tag"):
        ExpectedReply(sequence=("choice",))
    with pytest.raises(MarkupError, match="not an element"):
        ExpectedReply(tags=(TagRule(name="a b"),))


# --- strict ---


def test_a_reply_as_it_should_be_passes_strict_mode() -> None:
    assert parse_reply(GOOD, strict=True) == parse_reply(GOOD)
    assert parse_reply("<content>Some <b>bold</b> &lt;words&gt;</content>", strict=True).log == ()


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("<content>Hi", "unclosed", "<content>"),
        ("Hi", "bare_text", ""),
        ("<reply>Hi</reply>", "alias", "<reply>"),
        ("<content>Hi <status_bar>x</status_bar></content>", "unknown_tag", "<status_bar>"),
        ("<content>a<content>b</content></content>", "nested", "<content>"),
        ("<thought>a<content>Hi</content>", "unclosed", "<thought>"),
        ("<content>a<thought>b</thought></content></thought>", "stray_close", "</thought>"),
        ("<thought>a</thought>", "missing", ""),
        (f"<content>a</content><state_update>[{SET},]</state_update>", "repaired", f"[{SET},]"),
        (f"<content>a</content><state_update>[{SET}]", "unclosed", f"<state_update>[{SET}]"),
        (f"<content>a</content><state_update>[{SET}] so</state_update>", "trailing", " so"),
        ("<content>a</content><state_update>[1]</state_update>", "dropped", "[1]"),
        ("```xml\n<content>a</content>\n```", "fence", ""),
    ],
)
def test_strict_mode_objects_and_the_log_says_where(text: str, code: str, at: str) -> None:
    entry = next(entry for entry in parse_reply(text).log if entry.code == code)
    assert text[entry.start : entry.end] == at
    with pytest.raises(ReplyError) as caught:
        parse_reply(text, strict=True)
    assert entry.sentence in caught.value.faults


# --- laws ---

SHARDS = [
    "<content>", "</content>", "<thought>", "</thought>", "<think>", "</think>", "<state_update>", "</state_update>",
    "<filament_output>", "</filament_output>", "<content", "/>", "</", "<", ">", "<choice>", "</choice>", "<aside>",
    "</aside>", "<b>", "<reply>", "<thought/>", f"[{SET}]", '{"ops": [', SET, "{", "}", "[", "]", '"', "'", ",", ":",
    "\\", '\\"', "null", "-1.5e3", "```json\n", "```xml\n", "\n```\n", "```", "`", "````", "\n", "\n\n", " ", "\t", "\r", "\r\n",
    "&quot;", "&lt;", "&amp;", "&am", "p;", "&#x", "&#60;", "\ud83d", "\ude00", "\x00", "word", "He pays.", "钥匙", "😀",
    "<state_update>[", f"<state_update>{{\"ops\": [{SET}]}}</state_update>", "<content>Hi</content>", "</state_updat>",
    f"\n[{SET}]", f"\n```json\n[{SET}]\n```", '\n["SET", "hero', "\n[['ADD',", '\n{"op": "add", "path": "/a/b", "value": 1}',
    ". ", "state_update: ", "**状态更新", "：", f" [{SET}]", ' {"op": "SET", "value": ',
]  # fmt: skip
NOISE = st.lists(st.one_of(st.sampled_from(SHARDS), texts(max_size=8)), max_size=16).map("".join)
PLACES = st.lists(st.integers(0, 400), max_size=8)


@settings(max_examples=250)
@given(NOISE, PLACES, st.sampled_from([None, SCENE]))
def test_chunks_do_not_matter(text: str, places: list[int], expected: ExpectedReply | None) -> None:
    events, reply = fed([text], expected)
    check_whole(text, events, reply)
    whole = (merged(events), reply)
    check_split(text, pieces_of(text, places), whole, expected)
    check_split(text, list(text), whole, expected)
    assert parse_reply(text, **({"expected": expected} if expected else {})) == reply


def corrupted(rng: random.Random) -> str:
    """A reply with a few things done to it."""
    text = (
        rng.choice((GOOD, SHORT, SHORT, SHORT))
        if rng.random() < 0.6
        else "".join(rng.choices(SHARDS, k=rng.randint(0, 12)))
    )
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(text))
        end = min(len(text), at + rng.choice((1, 1, 3, 9, 30)))
        what = rng.random()
        if what < 0.3:
            text = text[:at] + text[end:]
        elif what < 0.7:
            text = text[:at] + rng.choice(SHARDS) + text[at:]
        elif what < 0.8:
            text = text[:at]
        elif what < 0.9:
            text = text[:end] + text[at:]
        else:
            other = rng.randint(0, len(text))
            text = text[:other] + text[at:end] + text[other:]
    return text


SPLITS = 8


def fuzz(cases: int, seed: int) -> None:
    """Each corrupted text is read whole and in SPLITS random splits (now and then character by character, too); a case is
    one split of one text.
    """
    rng = random.Random(seed)
    for number in range(cases // SPLITS):
        text = corrupted(rng)
        expected = SCENE if number % 4 == 0 else None
        splits = [pieces_of(text, [rng.randint(0, 400) for _ in range(1 + count % 4)]) for count in range(SPLITS)]
        if number % 16 == 0:
            splits.append(list(text))
        try:
            events, reply = fed([text], expected)
            check_whole(text, events, reply)
            whole = (merged(events), reply)
            for chunks in splits:
                check_split(text, chunks, whole, expected)
        except Exception as error:
            raise AssertionError(f"seed {seed}, text {number}: {text!r}") from error


@pytest.mark.parametrize(
    "body", ['"hero.gold", 1]]', '"', '", []', '"a": 1}', "1, 2]", ", 1]", ": {}", '"[', "]", '"a" "b"]']
)
def test_json_without_its_first_bracket_is_broken_and_harmless(body: str) -> None:
    text = f"<content>Hi</content><state_update>{body}</state_update><content> there</content>"
    events, reply = fed([text])
    check_whole(text, events, reply)
    check_split(text, list(text), (merged(events), reply), None)
    assert reply.content.split() == ["Hi", "there"]
    assert reply.ops == ()


def test_random_splits_and_corruptions() -> None:
    fuzz(2_000, seed=77)


@pytest.mark.full
def test_a_million_random_splits_and_corruptions() -> None:
    with ProcessPoolExecutor() as pool:
        list(pool.map(fuzz, [62_500] * 16, range(16)))


# --- work ---

FLOODS = [
    "<content>", "<thought>", "</think>", "<think> ", "a <think>b", "<state_update>", "<state_update>[", '<state_update>["',
    '<state_update>["",', '<state_update>["\\",', "<state_update>{}", "<state_update>[]</state_update>", "<content>a</thought>",
    "<", "< ", "<content ", "</content", "&lt;", "&", "&#", "```json\n", "```", "`", "\n", " ", "\n\n```", "<state_update>[ ",
    "```\n<state_update>[]</state_update>\n```", "<thought>a<content>", "<thought>a<content>b</content>", "<x>", "<x y='",
    "<b>", "word ", "[", '{"a":', '"', "\r", "\ud83d", "<state_update>\n\n", "<state_update>```", "<content/>",
    "<thought><content><state_update>[</thought>", '<state_update>[1,"</state_update>',
]  # fmt: skip


def work(read: Callable[[], StreamParser]) -> tuple[int, int]:
    """Calls made (python's and C's alike) and characters looked at."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        parser = read()
    finally:
        sys.setprofile(None)
    return calls, parser.scanned_chars


@pytest.mark.parametrize("shard", FLOODS)
@pytest.mark.parametrize("step", [1, 10**9])
def test_work_grows_with_the_length_and_not_faster(shard: str, step: int) -> None:
    def read(count: int) -> Callable[[], StreamParser]:
        text = shard * count + "end"

        def run() -> StreamParser:
            parser = StreamParser()
            for at in range(0, len(text), step):
                parser.feed(text[at : at + step])
            parser.close()
            return parser

        return run

    few, many = work(read(30)), work(read(300))
    assert many[0] <= 11 * few[0]
    assert many[1] <= 11 * few[1] + 2_000
