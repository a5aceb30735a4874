"""Talk outside of the story (`(OOC: …)`, `（（…））`): heard once, kept, and no part of the story afterwards; in both languages."""

from __future__ import annotations

from itertools import pairwise

import anyio
import pytest

from jacquard import HistoryConfig, RuntimeConfig, open_runtime
from mnemosyne.chains.asides import is_aside
from mnemosyne.world.scaffold import write_scaffold

TALK = {
    "en": [
        ("(OOC: could your replies be shorter?)", "Of course."),
        ("((shorter replies, please))", "((Sure, shorter from now on.))"),
        ("[OOC shorter replies (a lot), please]", "(OOC: Understood!)"),
    ],
    "zh": [
        ("（OOC：回复能不能短一点？）", "好的，没问题。"),
        ("（（回复短一点））", "（（明白了））"),
        ("【OOC 回复短一点（短很多）】", "（OOC：当然可以。）"),
    ],
}
CASES = [(locale, asked, reply) for locale, talk in TALK.items() for asked, reply in talk]
STORY = {"en": "I look at the sea.", "zh": "我看着大海。"}
TOLD = {"en": "The tide is out.", "zh": "潮水退了。"}


def play(tmp_path, locale, script, config=None):
    pack = tmp_path / "pack"
    write_scaffold(pack, locale)

    async def run():
        async with open_runtime(str(tmp_path / "store"), world=pack, embedder="none", config=config) as runtime:
            await runtime.ensure_session("s")
            return await script(runtime, runtime.engine)

    return anyio.run(run)


@pytest.mark.parametrize(("locale", "asked", "reply"), CASES)
def test_it_leaves_the_window_after_the_turn_that_hears_it(tmp_path, locale, asked, reply):
    async def script(runtime, engine):
        await engine.prepare_turn("s", asked)
        await engine.commit_assistant_message("s", reply)
        heard = await engine.prepare_turn("s", STORY[locale])
        await engine.commit_assistant_message("s", f"<content>{TOLD[locale]}</content>")
        after = await engine.prepare_turn("s", STORY[locale])
        document = await runtime.store.get_session("s")
        return heard, after, [message.content for message in document.session.messages]

    heard, after, kept = play(tmp_path, locale, script)
    assert asked in heard.text
    assert reply in heard.text
    assert asked not in after.text
    assert reply not in after.text
    assert TOLD[locale] in after.text
    assert kept[-5:-2] == [asked, reply, STORY[locale]]
    assert [gone.code for gone in after.report.left_out if gone.what == "message"] == ["aside", "aside"]


@pytest.mark.parametrize(
    ("locale", "reply"), [("en", '"Who is there?" asks Wren.'), ("zh", "雾散了，远处亮起一盏灯。")]
)
def test_a_reply_that_goes_on_with_the_story_stays(tmp_path, locale, reply):
    asked = TALK[locale][0][0]

    async def script(runtime, engine):
        for said, told in ((STORY[locale], TOLD[locale]), (asked, reply), (STORY[locale], TOLD[locale])):
            await engine.prepare_turn("s", said)
            await engine.commit_assistant_message("s", f"<content>{told}</content>")
        return await engine.prepare_turn("s", STORY[locale])

    after = play(tmp_path, locale, script)
    assert asked not in after.text
    assert reply.replace('"', "&quot;") in after.text or reply in after.text
    roles = [message.role for message in after.messages]
    assert all(left != right for left, right in pairwise(roles))


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_it_is_neither_summarised_nor_recalled(tmp_path, locale):
    config = RuntimeConfig(history=HistoryConfig(max_messages=4))
    asked, reply = TALK[locale][0]

    async def script(runtime, engine):
        await engine.prepare_turn("s", asked, config)
        await engine.commit_assistant_message("s", reply)
        for number in range(12):
            await engine.prepare_turn("s", f"{STORY[locale]} {number}", config)
            await engine.commit_assistant_message("s", f"<content>{TOLD[locale]} {number}</content>")
        await engine.summarize("s")
        return await engine.prepare_turn("s", asked.strip("()（）").removeprefix("OOC"), config)

    turn = play(tmp_path, locale, script, config)
    assert asked not in turn.text
    shown = [each for each in turn.report.stream_b.candidates if each.chosen]
    assert not any(asked in each.preview for each in shown)


@pytest.mark.parametrize(
    ("text", "aside"),
    [
        *((asked, True) for _, asked, _ in CASES),
        ("OOC: shorter, please", True),
        ("// ooc shorter, please", True),
        ("【场外：短一点】", True),
        ("(OOC: shorter) I open the door.", False),
        ("I open the door. ((carefully))", False),
        ("(She waits.)", False),
        ("我打开门。", False),
        ("", False),
    ],
)
def test_only_a_text_that_is_nothing_else_is_an_aside(text, aside):
    assert is_aside(text) is aside
