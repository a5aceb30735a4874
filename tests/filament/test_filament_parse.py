"""What a model's reply says, however it was written."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from filament_strategies import texts
from hypothesis import given, settings
from hypothesis import strategies as st

from filament import StreamParser, clean_text, escape_text, parse_op, parse_reply, unescape

SET = '["SET", "hero.gold", 1]'
GOLD = (parse_op(["SET", "hero.gold", 1]),)


def test_a_reply_as_it_should_be() -> None:
    reply = parse_reply(
        '<filament_output version="3.0">\n'
        "<thought>He pays.</thought>\n"
        "<content>\n“Five coins &amp; a smile.” &lt;he nods&gt;\n</content>\n"
        '<state_update>{"ops": [["SUB", "hero.gold", 5], {"op": "add", "path": "/hero/mood", "value": "glad"}]}'
        "</state_update>\n"
        "</filament_output>"
    )
    assert (reply.content, reply.thought) == ("“Five coins & a smile.” <he nods>", "He pays.")
    assert reply.ops == (
        parse_op(["SUB", "hero.gold", 5], 0),
        parse_op({"op": "add", "path": "/hero/mood", "value": "glad"}, 1),
    )
    assert reply.log == ()


@pytest.mark.parametrize(
    ("text", "content", "thought"),
    [
        ("Just words.", "Just words.", ""),
        ("  Just <b>words</b>.\n", "Just <b>words</b>.", ""),
        ("他点了点头。", "他点了点头。", ""),
        ("<content>Hi</content>", "Hi", ""),
        ("<CONTENT lang='zh'>Hi</Content>", "Hi", ""),
        ("< content >Hi</ content >", "Hi", ""),
        ("<reply>Hi</reply>", "Hi", ""),
        ("<think>a</think>Hi", "Hi", "a"),
        ("<thinking>a</thinking>\n\n<content>Hi</content>", "Hi", "a"),
        ("<THOUGHT>a</thought><content>Hi</content><thought>b</thought>", "Hi", "ab"),
        ("Sure:\n<content>Hi</content>\nBye", "Sure:\nHi\nBye", ""),
        ("<content>A</content><content>B</content>", "AB", ""),
        ("<content>Hi", "Hi", ""),
        ("<thought>a", "", "a"),
        ("<thought>a<content>Hi</content>", "Hi", "a"),
        ("<thought>a<content>Hi</content> b</thought> you", "Hi you", "a b"),
        ("<content>Hi<thought>a</thought> you</content>", "Hi you", "a"),
        ("<content>Hi<thought>a</content> you", "Hi<thought>a you", ""),
        ("reasons</think>Hi", "Hi", "reasons"),
        ("<content>Hi</content></think>", "Hi", ""),
        ("Hi</think>", "Hi", ""),
        ("<content>a<content>b</content>c</content>", "abc", ""),
        ("<thought>I write <content> now</thought><content>Hi</content>", "Hi", "I write <content> now"),
        ("He typed <think> and left.", "He typed <think> and left.", ""),
        ("<content>He typed <think> once.</content><thought>a</thought>", "He typed <think> once.", "a"),
        ("A <state_update> changes things.", "A <state_update> changes things.", ""),
        ("&lt;content&gt;Hi", "<content>Hi", ""),
        ("```xml\n<content>Hi</content>\n```", "Hi", ""),
        ("```\ncode\n```", "```\ncode\n```", ""),
        ("<content/>Hi<state_update/>", "Hi", ""),
        ("a\r\nb\x00\ud800", "a\nb\ufffd\ufffd", ""),
        ("1 < 2 > 1 </b> </contents> <contentment>", "1 < 2 > 1 </b> </contents> <contentment>", ""),
    ],
)
def test_what_is_said_and_thought(text: str, content: str, thought: str) -> None:
    reply = parse_reply(text)
    assert (reply.content, reply.thought) == (content, thought)
    assert reply.ops == ()


@pytest.mark.parametrize(
    "block",
    [
        f'<state_update>{{"ops": [{SET}]}}</state_update>',
        f'<state_update>{{"analysis": "x", "ops": [{SET}]}}</state_update>',
        f"<state_update>[{SET}]</state_update>",
        f"<state_update>{SET}</state_update>",
        f"<Variable_Update>\n[{SET}]\n</VARIABLE_UPDATE>",
        f'<state_update>\n```json\n{{"ops": [{SET}]}}\n```\n</state_update>',
        '<state_update>{"op": "replace", "path": "hero.gold", "value": 1}</state_update>',
        '<state_update>[{"op": "replace", "path": "hero.gold", "value": 1}]</state_update>',
        '<state_update>{"ops": {"op": "replace", "path": "hero.gold", "value": 1}}</state_update>',
        f"<variable_update><analysis>He pays.</analysis>[{SET}]</variable_update>",
        f"<state_update>[{SET}]",
        f"<state_update>[{SET}]</state_updat>",
        f"<state_update>[{SET}]\n```\n",
        "<state_update>[[&quot;SET&quot;, &quot;hero.gold&quot;, 1]]</state_update>",
        "<state_update>[['SET', 'hero.gold', 1]]</state_update>",
        f"<state_update>[{SET},]</state_update>",
        "<state_update>{ops: [[SET, hero.gold, 1]]}</state_update>",
        f'<state_update>{{"ops": [{SET}</state_update>',
        f'<state_update>{{"ops": [{SET}]',
        f'<state_update>{{"ops": [{SET}',
        f'<state_update>{{"ops": [{SET}] // done\n}}</state_update>',
    ],
)
def test_the_ways_to_write_an_update(block: str) -> None:
    for text in (f"He pays.{block}", f"<content>He pays.</content>{block}"):
        reply = parse_reply(text)
        assert reply.ops == GOLD
        assert reply.content == "He pays."
        assert reply.set_aside == ()
    for text in (f"<content>He pays.{block}", *([f"{block}<content>He pays.</content>"] if "</" in block else [])):
        reply = parse_reply(text)
        assert (reply.ops, reply.lost) == ((), ())
        assert len(reply.set_aside) == 1
        assert reply.content == "He pays."


@pytest.mark.parametrize(
    ("block", "word"),
    [
        ("<state_update>nothing at all</state_update>", "cannot be read"),
        ("<state_update></state_update>", "cannot be read"),
        ("<state_update>{}</state_update>", "no list of ops"),
        ('<state_update>{"changes": []}</state_update>', "no list of ops"),
        ('<state_update>[["JUMP", "a", 1]]</state_update>', "not a verb"),
        (f'<state_update>[{SET}, ["ADD", "a"]]</state_update>', "op 1 "),
        ('<state_update>[["SET", "a", NaN]]</state_update>', "not finite"),
        ("<state_update>" + "[" * 50_000 + "</state_update>", "too long or too deep"),
        ("<state_update>" + '{"a":' * 5_000 + "</state_update>", "too long or too deep"),
        ('<state_update>[["SET", "a", ' + "9" * 5000 + "]]</state_update>", "dropped"),
        ('<state_update>{"ops": [["SET", "hero.gold", 12', "middle of an op"),
        (f'<state_update>{{"ops": [{SET}, ["SET", "hero.na', "middle of an op"),
        (f'<state_update>[{SET}, {{"op": "add", "path": "/a", "value": ["x"]', "middle of an op"),
    ],
)
def test_a_hopeless_update_is_dropped_and_the_content_stays(block: str, word: str) -> None:
    reply = parse_reply(f"<content>He pays.</content>{block}")
    assert reply.ops == ()
    assert reply.content == "He pays."
    assert any(word in sentence for sentence in reply.corrections)
    if block.endswith("</state_update>"):
        assert parse_reply(f"{block}He pays.").content == "He pays."


def test_what_was_mended_is_said() -> None:
    assert parse_reply(f"Hi<state_update>[{SET}]</state_update>").corrections == ()
    assert parse_reply(f"Hi<state_update>[{SET},]</state_update>").corrections == (
        "state_update 1: its JSON was broken and has been repaired.",
    )
    assert parse_reply("<content>Hi").corrections == ("<content> was not closed; it ends with the reply.",)
    assert parse_reply("").corrections == ("The reply has no content.",)
    two = parse_reply(f"Hi<state_update>oops</state_update><state_update>[{SET}]</state_update>")
    assert two.ops == (replace(GOLD[0], number=1),)
    assert [(lost.number, lost.op, lost.code) for lost in two.lost] == [(0, "state_update 1", "unreadable")]
    assert [sentence[:14] for sentence in two.corrections] == ["state_update 1"]


def test_tags_in_json_texts_are_text() -> None:
    value = "<content>x</content></state_update><thought><state_update>"
    reply = parse_reply(f"<content>Hi</content><state_update>{json.dumps([['SET', 'a', value]])}</state_update>")
    assert reply.ops == (parse_op(["SET", "a", value]),)
    assert (reply.content, reply.thought) == ("Hi", "")


def test_escaping_copied_from_the_prompt_is_undone_in_ops() -> None:
    reply = parse_reply('Hi<state_update>[["SET", "inn.name", "Cat &amp; Fiddle &lt;3"]]</state_update>')
    assert reply.ops[0].value == "Cat & Fiddle <3"


def test_ops_are_numbered_through_the_reply() -> None:
    reply = parse_reply(f"Hi<state_update>[{SET}, {SET}]</state_update>\n<state_update>[{SET}]</state_update>")
    assert [op.number for op in reply.ops] == [0, 1, 2]


def test_prose_behind_unclosed_json_is_content_and_the_update_does_not_count() -> None:
    for json_text in (f"[{SET}]", f'{{"ops": [{SET}]}}', f"[{SET},]"):
        reply = parse_reply(f"<state_update>{json_text}\n\nHe [the knight] smiles: <b>yes</b>.")
        assert (reply.ops, [entry.code for entry in reply.set_aside]) == ((), ["update_before_content"])
        assert reply.content == "He [the knight] smiles: <b>yes</b>."


WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta", "<b>", "{x}", "[y]", "&amp;", "\n\n", "“ja”", "钥匙"]),
    max_size=8,
)
PROSE = WORDS.map(" ".join)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("SET"), st.sampled_from(["hero.gold", "a.b"]), texts(max_size=12)).map(list),
        st.tuples(st.sampled_from(["ADD", "MUL"]), st.just("hero.gold"), st.integers(-9, 9)).map(list),
        st.fixed_dictionaries({"op": st.just("add"), "path": st.just("/a/b"), "value": texts(max_size=12)}),
    ),
    max_size=4,
)
TAGS = [
    "<content>",
    "</content>",
    "<thought>",
    "</thought>",
    "<state_update>",
    "</state_update>",
    "<think>",
    "</think>",
]
SHARDS = st.one_of(
    st.sampled_from(
        [*TAGS, "<filament_output>", "</filament_output>", "```json\n", "\n```", "<", ">", "</", "{", "[", "]", "}"]
    ),
    st.sampled_from(
        ['{"ops": [', SET, f"[{SET}]", '"', "'", ",", "&quot;", "&lt;", "<content", "/>", "\\", "\ud800", "\x00"]
    ),
    texts(max_size=12),
)


def no_tag_words(text: str) -> bool:
    return "<" not in clean_text(text) and "`" not in text


def plain_law(text: str) -> None:
    """Escaped, any text is a reply that says just that; unescaped, one without tags is."""
    said = clean_text(text).strip()
    reply = parse_reply(escape_text(text))
    assert (reply.content, reply.thought, reply.ops) == (said, "", ())
    assert reply.corrections == (() if said else ("The reply has no content.",))
    assert parse_reply(f"<content>{escape_text(text)}</content>").content == said
    if no_tag_words(text):
        paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert parse_reply(text).content == unescape(clean_text(paired)).strip()


def whole_law(content: str, thought: str, ops: list[Any], order: random.Random) -> None:
    """A reply that was written well is read whole, whatever the order of its blocks, as long as the update comes last."""
    update = json.dumps({"ops": ops}).replace("&", "&amp;")
    blocks = [
        f"<content>{escape_text(content)}</content>",
        f"<thought>{escape_text(thought)}</thought>",
    ]
    order.shuffle(blocks)
    blocks.append(f"<state_update>{update}</state_update>")
    reply = parse_reply("\n".join(blocks))
    assert reply.content == clean_text(content).strip()
    assert reply.thought == clean_text(thought).strip()
    assert reply.ops == tuple(parse_op(op, number) for number, op in enumerate(ops))


def shard_law(shards: list[str]) -> None:
    """Whatever comes, an answer comes back."""
    text = "".join(shards)
    reply = parse_reply(text)
    assert clean_text(reply.content) == reply.content
    assert clean_text(reply.thought) == reply.thought
    assert len(reply.content) + len(reply.thought) <= len(text)


def kept_law(content: str, thought: str, ops: list[Any], hits: list[tuple[int, str]]) -> None:
    """The words of the content survive whatever happens to the blocks beside it."""
    update = json.dumps({"ops": ops}, ensure_ascii=False)
    beside = f"<thought>{thought}</thought><state_update>{update}</state_update>"
    for place, shard in hits:
        at = place % (len(beside) + 1)
        beside = beside[:at] + shard + beside[at + (0 if shard else 1) :]
    reply = parse_reply(f"<content>{content}</content>{beside}")
    for word in content.split():
        assert unescape(word) in reply.content
    reply = parse_reply(f"{beside}<content>KEEP {content}</content>")
    assert "KEEP" in reply.content + reply.thought


HITS = st.lists(st.tuples(st.integers(0, 400), st.one_of(st.just(""), SHARDS.filter(no_tag_words))), max_size=4)
LAWS: dict[str, tuple[Any, tuple[st.SearchStrategy[Any], ...]]] = {
    "plain": (plain_law, (texts(),)),
    "whole": (whole_law, (texts(), texts(), OPS, st.randoms(use_true_random=False))),
    "shards": (shard_law, (st.lists(SHARDS, max_size=14),)),
    "kept": (kept_law, (PROSE, PROSE, OPS, HITS)),
}


def hold(name: str, examples: int) -> None:
    law, strategies = LAWS[name]
    settings(max_examples=examples, deadline=None)(given(*strategies)(law))()


@pytest.mark.parametrize("name", LAWS)
def test_law(name: str) -> None:
    hold(name, 300)


@pytest.mark.full
@pytest.mark.parametrize("name", LAWS)
def test_law_at_length(name: str) -> None:
    hold(name, 10_000)


QUOTED = f"<state_update>[{SET}]</state_update>"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            f"You muttered something about {QUOTED}, and Bram shook his head.",
            "You muttered something about, and Bram shook his head.",
        ),
        (f'You mutter "{QUOTED}", and Bram nods.', "You mutter, and Bram nods."),
        (f"He reads “{QUOTED}” aloud.", "He reads aloud."),
        (f"A note ({QUOTED}) lies there.", "A note lies there."),
        (f"A note [“{QUOTED}”] lies there.", "A note lies there."),
        (f"He says: {QUOTED}.", "He says."),
        (f"Type `{QUOTED}`. Nothing happens.", "Type. Nothing happens."),
        (f"Fine. {QUOTED}, he says.", "Fine. he says."),
        (f"{QUOTED}, and Bram nods.", "and Bram nods."),
        (f"He waits.  {QUOTED}  Then he goes.", "He waits. Then he goes."),
        (f'She said "yes" {QUOTED} "no".', 'She said "yes" "no".'),
        (f"Le café {QUOTED} est là.", "Le café est là."),
        (f"One.\n\n{QUOTED}\n\nTwo.", "One.\n\nTwo."),
        (f"你念叨着「{QUOTED}」，布拉姆摇了摇头。", "你念叨着，布拉姆摇了摇头。"),
        (f"你念叨着（{QUOTED}），布拉姆摇了摇头。", "你念叨着，布拉姆摇了摇头。"),
        (f"他说：{QUOTED}。你点头。", "他说。你点头。"),
        (f"他念“{QUOTED}”给你听。", "他念给你听。"),
    ],
)
def test_what_is_taken_out_leaves_no_hole_in_its_sentence(said: str, kept: str) -> None:
    for reply in (f"<content>{said}</content>", f"<content>{said} Done.</content>"):
        wanted = kept if reply.endswith(f"{said}</content>") else f"{kept} Done."
        assert parse_reply(reply).content == wanted
        for size in (1, 3, 7):
            parser = StreamParser()
            for start in range(0, len(reply), size):
                parser.feed(reply[start : start + size])
            assert parser.close().content == wanted
