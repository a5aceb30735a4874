"""The form of the conversation in a prompt: no two messages of one role in a row, and one form of what the user said last."""

from __future__ import annotations

from itertools import pairwise

import anyio
import pytest

from jacquard import RuntimeConfig, open_runtime
from mnemosyne.world.scaffold import write_scaffold

NOTICE = {"en": "<notice>This message got no reply.</notice>", "zh": "<notice>这条消息没有得到回复。</notice>"}
LORE = """- id: dir_key
  name: Keys
  category: directive
  keys: [key, 钥匙]
  content: Say which key it is.
"""


def play(tmp_path, locale, script, layout="classic"):
    pack = tmp_path / "pack"
    if not pack.exists():
        write_scaffold(pack, locale)
        (pack / "lore" / "directive_of_keys.yaml").write_text(LORE, encoding="utf-8")

    async def run():
        config = RuntimeConfig(layout=layout)
        async with open_runtime(str(tmp_path / "store"), world=pack, embedder="none", config=config) as runtime:
            await runtime.ensure_session("s")
            return await script(runtime, runtime.engine)

    return anyio.run(run)


def roles(turn):
    return [message.role for message in turn.messages if message.role != "system"]


@pytest.mark.parametrize("layout", ["classic", "cache_first", "cache_append"])
@pytest.mark.parametrize("locale", ["en", "zh"])
def test_the_newest_message_has_one_form_with_and_without_directives(tmp_path, locale, layout):
    async def script(runtime, engine):
        bare = await engine.prepare_turn("s", "I wait.")
        await engine.commit_assistant_message("s", "<content>Fine.</content>")
        return bare, await engine.prepare_turn("s", "I take the key.")

    bare, directed = play(tmp_path, locale, script, layout)
    assert "dir_key" not in bare.text
    assert "dir_key" in directed.text
    for turn, said in ((bare, "I wait."), (directed, "I take the key.")):
        assert turn.messages[-1].role == "user"
        assert turn.messages[-1].content.endswith(f"<user_input>\n{said}\n</user_input>")


@pytest.mark.parametrize("layout", ["classic", "cache_first"])
@pytest.mark.parametrize("reply", ["", "<thought>Hm.</thought>", None])
@pytest.mark.parametrize("locale", ["en", "zh"])
def test_no_two_messages_of_the_user_stand_in_a_row(tmp_path, locale, reply, layout):
    async def script(runtime, engine):
        await engine.prepare_turn("s", "I sing.")
        if reply is not None:
            await engine.commit_assistant_message("s", reply)
        second = await engine.prepare_turn("s", "I wait.")
        await engine.commit_assistant_message("s", "<content>Nobody comes.</content>")
        return second, await engine.prepare_turn("s", "I go.")

    for turn in play(tmp_path, locale, script, layout):
        said = roles(turn)
        assert all(left != right for left, right in pairwise(said))
        assert f"I sing.\n{NOTICE[locale]}\n\n" in "\n".join(message.content for message in turn.messages)
        assert turn.text.count("I sing.") == 1


def test_pictures_and_tool_calls_keep_messages_of_their_own(tmp_path):
    picture = [
        {"type": "text", "text": "Look at this."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]

    async def script(runtime, engine):
        await engine.prepare_turn("s", {"role": "user", "content": picture})
        return await engine.prepare_turn("s", "And now?")

    turn = play(tmp_path, "en", script)
    sent = [message for message in turn.to_openai() if message["role"] == "user"]
    assert sent[-2]["content"][-1]["type"] == "image_url"
    assert sent[-1]["content"] == "<user_input>\nAnd now?\n</user_input>"
