"""What clients do with their conversation, one case a test: a call finds its session, and the branch where the client is."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.proxy.alignment import align
from jacquard.service.proxy.message_forms import form_of
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer
from mnemosyne import Message, Role

pytestmark = pytest.mark.anyio
SYSTEM = {"role": "system", "content": "You are Mia."}
WORLD = str(Path(__file__).parents[3] / "examples" / "whispering_forest" / "en")


def user(content):
    return {"role": "user", "content": content}


def reply(content):
    return {"role": "assistant", "content": content}


@pytest.fixture
def server():
    with ScriptedServer(lambda request: f"text:Reply {request.number}.") as server:
        yield server


@asynccontextmanager
async def open_http(tmp_path, server, **settings):
    app = build_app(
        ServiceSettings(store=str(tmp_path / "store"), upstream=server.base_url, embedder="none", **settings)
    )
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        yield http


async def ask(http, messages, session=None, **more):
    """Make a call with these messages; return them with the reply."""
    headers = {"X-Jacquard-Session": session} if session else {}
    body = {"model": "m", "messages": [SYSTEM, *messages], **more}
    answer = await http.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert "x-jacquard-receipt" in answer.headers, answer.headers
    return [*messages, reply(answer.json()["choices"][0]["message"]["content"])]


async def talk(http, texts, session=None, messages=()):
    for text in texts:
        messages = await ask(http, [*messages, user(text)], session)
    return messages


async def sessions(http):
    return list((await http.get("/api/v1/sessions")).json()["items"])


async def stored(http, session=None):
    """Return what was said on the active branch."""
    if session is None:
        [session] = await sessions(http)
    turns = (await http.get(f"/api/v1/sessions/{session}/turns?limit=100")).json()["items"]
    return [
        {"role": message["role"], "content": message["content"]}
        for turn in sorted(turns, key=lambda turn: turn["depth"])
        for message in turn["messages"]
    ]


async def branches(http, session=None):
    [session] = [session] if session else await sessions(http)
    answer = (await http.get(f"/api/v1/sessions/{session}/branches")).json()
    return len(answer["items"] if isinstance(answer, dict) else answer)


def added(server):
    """Return our texts of the newest call."""
    return "\n".join(
        message["content"]
        for message in server.requests[-1].body["messages"]
        if message["role"] == "system" and message != SYSTEM
    )


async def test_append(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello.", "How is Oslo?", "And the tea?"], messages=[reply("Welcome!")])
        assert await stored(http) == messages
        assert await branches(http) == 1


async def test_a_message_that_is_stored_without_its_secrets_is_the_same_message(tmp_path, server):
    key, card = "sk-proj-AbCdEf1234567890ghIJkl", "4945 8073 0215 7365"
    said = [f"Anna: my key is {key}, and the card is {card}.", key, "What is the password: hunter2!x for?", "Thanks."]
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, said)
        assert await branches(http) == 1
        told = await stored(http)
    assert [message["content"] for message in told if message["role"] == "user"] == [
        "Anna: my key is [redacted:api_key], and the card is [redacted:bank_card].",
        "[redacted:api_key]",
        "What is the password: [redacted:secret] for?",
        "Thanks.",
    ]
    assert [each for each in server.requests[-1].body["messages"] if each["role"] == "user"] == messages[:-1:2]


@pytest.mark.parametrize(
    ("said", "is_same"),
    [
        ("my key is sk-AbCdEf1234567890ghIJkl now", True),
        ("my key is now", False),
        ("my key was sk-AbCdEf1234567890ghIJkl now", False),
        ("my key is sk-AbCdEf1234567890ghIJkl then", False),
    ],
)
def test_what_stands_around_a_removed_secret_decides(said, is_same):
    stored = form_of(Message(role=Role.USER, content="my key is [redacted:api_key] now"))
    assert form_of(Message(role=Role.USER, content=said)).is_same(stored) is is_same
    assert stored.is_same(form_of(Message(role=Role.USER, content=said))) is is_same


async def test_edit_of_an_earlier_message_keeps_what_follows(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["My cat is Ink.", "How is Oslo?"])
        messages[0] = user("My cat is Soot.")
        messages = await talk(http, ["And the tea?"], messages=messages)
        assert await stored(http) == messages


async def test_edit_of_a_reply_keeps_the_state_that_it_set(tmp_path, server):
    update = '<state_update>[["ADD", "hero.gold", 5]]</state_update>'
    server.set_script(f"text:<content>A purse in the moss.</content>{update}", "text:<content>Rain.</content>")
    async with open_http(tmp_path, server, world=WORLD) as http:
        messages = await talk(http, ["I look under the ferns."])
        messages[-1] = reply("A purse lies in the wet moss.")
        messages = await talk(http, ["I look at the sky."], messages=messages)
        assert (await stored(http))[-4:] == messages
        [session] = await sessions(http)
        state = (await http.get(f"/api/v1/sessions/{session}/state")).json()
    assert state["hero"]["gold"] == 27


@pytest.mark.parametrize(
    ("shown", "count"), [("Mia: *Reply 0.*\n", 1), ("“Reply 0.”", 1), ("Reply 0. And more.", 2)], ids=str
)
async def test_what_a_client_trims_or_adds_to_a_reply_is_no_edit(tmp_path, server, shown, count):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello."])
        await talk(http, ["How is Oslo?"], messages=[messages[0], reply(shown)])
        assert await branches(http) == count


async def test_a_conversation_begins_after_the_prologue_of_its_world(tmp_path, server):
    server.set_script("text:<content>Rain.</content>")
    async with open_http(tmp_path, server, world=WORLD) as http:
        messages = await talk(http, ["I look under the ferns.", "I look at the sky."])
        long = await stored(http)
        await talk(http, ["I look under the ferns."])
        assert await stored(http) == long[:-2]
        assert long[-4:] == messages
        assert len(long) == 4 + 80


@pytest.mark.parametrize("place", ["before", "behind", ""])
async def test_a_conversation_whose_only_reply_was_edited_is_still_the_same(tmp_path, server, place):
    """A note may move with the newest message, from before or behind the first one."""
    first, note = "I carry the copper kettle up to the lantern room.", "[Style: short and dry.]"

    def noted(text):
        return f"{note}\n\n{text}" if place == "before" else f"{text}\n\n{note}" if place else text

    async with open_http(tmp_path, server) as http:
        await ask(http, [user(noted(first))])
        await ask(http, [user(first), reply("The stairs creak below you."), user(noted("Who lit it last night?"))])
        assert len(await sessions(http)) == 1


async def test_delete_of_the_newest_exchange(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello.", "My secret word is basalt."])
        messages = await talk(http, ["What is my secret word?"], messages=messages[:2])
        assert await stored(http) == messages
    assert "basalt" not in str(server.requests[-1].body)


async def test_a_deleted_message_is_not_recalled(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(
            http, ["Hello.", "My secret word is basalt.", *(f"Tell me of tea {n}." for n in range(4))], "s"
        )
        del messages[2:4]
        messages = await ask(http, [*messages[-2:], user("What is my secret word?")], "s")
        assert "basalt" in added(server)  # left out by the client, which is no deletion
        messages = await talk(http, ["Hello.", "Tell me of tea."], "t")
        messages = await talk(http, ["My secret word is gneiss.", "Fine."], "t", messages)
        messages = await talk(http, [f"Tell me of tea {n}." for n in range(4)], "t", messages[:4])
        await ask(http, [*messages[-2:], user("What is my secret word?")], "t")
    assert "gneiss" not in str(server.requests[-1].body)


async def test_delete_in_the_middle(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello.", "How is Oslo?", "My secret word is basalt.", "And the tea?"])
        del messages[4:6]
        messages = await talk(http, ["What is my secret word?"], messages=messages)
        assert await stored(http) == messages
    assert "basalt" not in str(server.requests[-1].body)


async def test_swipe_is_a_branch_and_the_former_reply_is_kept(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello.", "How is Oslo?"])
        swiped = await ask(http, messages[:-1])
        assert await stored(http) == swiped != messages
        assert await branches(http) == 2
        # Swiped back, and on from there: the former branch is the active one, with its turns.
        messages = await talk(http, ["And the tea?"], messages=messages)
        assert await stored(http) == messages
        assert await branches(http) == 2


async def test_swipe_of_the_first_reply(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello."], messages=[reply("Welcome!")])
        swiped = await ask(http, messages[:-1])
        assert await stored(http) == swiped
        assert await branches(http) == 2


async def test_regenerate_of_an_earlier_message(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello.", "How is Oslo?", "And the tea?"])
        messages = await ask(http, messages[:3])
        assert await stored(http) == messages


async def test_branches_of_a_chat_do_not_disturb_each_other(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        trunk = await talk(http, ["Hello.", "How is Oslo?"])
        one = await talk(http, ["I go north."], messages=trunk)
        two = await talk(http, ["I go south."], messages=trunk)
        for number in range(2):
            one = await talk(http, [f"North {number}."], messages=one)
            assert await stored(http) == one
            two = await talk(http, [f"South {number}."], messages=two)
            assert await stored(http) == two
        assert await branches(http) == 2


async def test_conversations_that_begin_alike_are_not_mixed(tmp_path, server):
    """A card's greeting is always the same, and so may be the user's first words: then each is a branch of one session."""
    async with open_http(tmp_path, server) as http:
        greeting = [reply("Welcome to the inn!")]
        one = await talk(http, ["Hi.", "My horse is called Basalt."], messages=greeting)
        two = await talk(http, ["Hi."], messages=greeting)
        for number in range(4):
            onward = f"We ride past chapel, ferry and orchard {number}."
            one = await talk(http, [onward], messages=one)
            two = await talk(http, [onward], messages=two)
        two = await ask(http, [*two[-2:], user("What is my horse called?")])
        assert "Basalt" not in str(server.requests[-1].body)
        one = await ask(http, [*one[-2:], user("What is my horse called?")])
    assert "Basalt" in added(server)


async def test_group_chat(tmp_path, server):
    """Names stand before the texts, and several speakers answer one message of the user."""
    async with open_http(tmp_path, server) as http:
        messages = [user("Rowan: Who is there?")]
        nudge = {"role": "system", "content": "[Write the next reply only as Ann.]"}
        for number in range(3):
            answer = await http.post("/v1/chat/completions", json={"messages": [SYSTEM, *messages, nudge]})
            said = answer.json()["choices"][0]["message"]["content"]
            messages += [reply(f"Ann: {said}"), reply("Bob: So it is."), user(f"Rowan: And then {number}?")]
        messages = await ask(http, messages)
        held = await stored(http)
        assert await branches(http) == 1
    assert len(held) == len(messages)
    assert [each["content"] for each in held if each["content"].startswith("Bob")] == ["Bob: So it is."] * 3


async def test_the_next_speaker_of_a_group_gets_the_text_of_the_same_turn(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Bees live behind the mill.", *(f"Tell me of tea {n}." for n in range(4))], "s")
        messages = [*messages[-2:], user("Where do the bees live?")]
        nudge = {"role": "system", "content": "[Write the next reply only as Bob.]"}
        for spoken in ([], [reply("Ann: Reply 5.")], [reply("Ann: Reply 5."), reply("Bob: Reply 6.")]):
            body = {"messages": [SYSTEM, *messages, *spoken, nudge]}
            answer = await http.post("/v1/chat/completions", json=body, headers={"X-Jacquard-Session": "s"})
            assert ("x-jacquard-receipt" in answer.headers) == (not spoken)
        first, *later = (request.body["messages"] for request in server.requests[-3:])
        assert "mill" in added(server)
        for sent in later:
            assert sent[: len(first) - 1] == first[:-1]
        assert len(await stored(http, "s")) == 12


@pytest.mark.parametrize("restarts", [False, True])
async def test_truncated_by_the_client_without_a_name(tmp_path, server, restarts):
    """The beginning is gone, and with it what the session was found by first."""
    messages = []
    texts = ["My sister Runa keeps bees behind the mill.", *(f"Tell me of tea {n}." for n in range(5))]
    async with open_http(tmp_path, server) as http:
        for text in texts:
            messages += (await ask(http, [*messages[-4:], user(text)]))[-2:]
        if not restarts:
            await ask(http, [*messages[-4:], user("What did I say of my sister Runa?")])
            assert await stored(http)
    if restarts:
        async with open_http(tmp_path, server) as http:
            await ask(http, [*messages[-4:], user("What did I say of my sister Runa?")])
            assert await stored(http)
    assert "mill" in added(server)


@pytest.mark.parametrize(
    ("texts", "asked", "word"),
    [
        (
            ["My sister Runa keeps bees.", "Tell me of tea.", "Tell me of cake.", "And the weather?"],
            "What did I say of my sister Runa and her bees?",
            "Runa keeps",
        ),
        (["我姐姐小茹养蜜蜂。", "说说茶。", "说说蛋糕。", "天气呢？"], "我姐姐小茹养什么？", "小茹养蜜蜂。"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
async def test_truncated_to_one_short_exchange_without_a_name(tmp_path, server, texts, asked, word, again):
    server.set_script("text:Noted.")
    messages = []
    for text in texts:
        async with open_http(tmp_path, server) as http:
            messages += (await ask(http, [*messages[-2:], user(text)]))[-2:]
            if again:
                await ask(http, messages[-4:-1])
    async with open_http(tmp_path, server) as http:
        await ask(http, [*messages[-2:], user(asked)])
        assert len(await stored(http)) == 2 * len(texts) + 2
        assert word in added(server)
        # Another one who was told the same elsewhere; then two conversations have that exchange, and neither gets the other's.
        await ask(http, [*messages[-2:], user("Thanks, that is all.")], "other")
        await ask(http, [*messages[-2:], user(asked)])
        assert word not in added(server)


async def test_truncated_to_the_newest_message_in_a_named_session(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        await ask(http, [user("My sister Runa keeps bees behind the mill.")], "tea")
        for number in range(3):
            await ask(http, [user(f"Tell me of tea {number}.")], "tea")
        await ask(http, [user("What did I say of my sister Runa?")], "tea")
        assert len(await stored(http, "tea")) == 10
    assert "mill" in added(server)


async def test_truncated_and_edited_at_the_cut(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["My cat is Ink.", "How is Oslo?", "And the tea?", "And the cake?"])
        shown = [user("How is Bergen?"), *messages[3:]]
        last = await ask(http, [*shown, user("Thanks.")])
        assert await stored(http) == [*messages[:2], *last]


async def test_a_conversation_that_began_elsewhere_is_taken_in(tmp_path, server):
    elsewhere = [user("My sister Runa keeps bees behind the mill."), reply("I see.")]
    for number in range(8):
        elsewhere += [user(f"Tell me of tea {number}."), reply(f"Tea {number} is good.")]
    async with open_http(tmp_path, server) as http:
        messages = await ask(http, [*elsewhere, user("Is it warm?")])
        assert await stored(http) == messages
        await ask(http, [*messages[-4:], user("What did I say of my sister Runa?")])
    assert "mill" in added(server)


@pytest.mark.parametrize("note", ["{words}\n[Style: short.]", "[Style: short.]\n{words}", "{words}\n\n[Style: short.]"])
async def test_an_edited_first_reply_and_a_note_that_moves_on_leave_the_conversation_known(tmp_path, server, note):
    first, asked = "I take the velvet and the falcon to the fiddle.", "I take the quartz and the cobalt to the timber."
    async with open_http(tmp_path, server) as http:
        await ask(http, [user(note.format(words=first))])
        shown = [user(first), reply("A reply that was written anew.")]
        await ask(http, [*shown, user(note.format(words=asked))])
        assert len(await sessions(http)) == 1


async def test_the_same_words_said_twice_are_two_messages(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        messages = await talk(http, ["Hello."])
        for _ in range(2):
            messages = await talk(http, ["Go on."], messages=[*messages, reply("Silence.")])
        assert await stored(http) == messages


async def test_another_image_is_another_message(tmp_path, server):
    def look(data):
        url = {"url": f"data:image/png;base64,{data}"}
        return user([{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": url}])

    async with open_http(tmp_path, server) as http:
        messages = await ask(http, [look("AAAA")])
        messages = await talk(http, ["Is it black?"], messages=messages)
        assert await branches(http) == 1
        await talk(http, ["Is it white?"], messages=[look("BBBB"), *messages[1:]])
        assert await branches(http, (await sessions(http))[0]) == 2


def forms(*texts):
    return [
        form_of(Message(role=Role.USER if at % 2 else Role.ASSISTANT, content=each)) for at, each in enumerate(texts)
    ]


def places(shown, stored):
    return [(pair.shown, pair.stored) for pair in align(shown, stored).pairs]


@pytest.mark.parametrize(
    ("shown", "stored_texts", "found"),
    [
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("cd", "abcd", [(0, 2), (1, 3)]),
        ("ab", "abcd", [(0, 0), (1, 1)]),
        ("abxd", "abcd", [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("abefgh", "abcdefgh", [(0, 0), (1, 1), (2, 4), (3, 5), (4, 6), (5, 7)]),
        ("ab", "", []),
        ("abcb", "abababcb", [(0, 4), (1, 5), (2, 6), (3, 7)]),
    ],
)
def test_where_the_clients_messages_stand(shown, stored_texts, found):
    even = len(stored_texts) % 2 != len(shown) % 2
    stored_forms = [*forms(*stored_texts)]
    shown_forms = forms(*(["-"] if even else []), *shown)[even:]
    assert places(shown_forms, stored_forms) == found


def test_a_first_message_that_was_said_often_is_found_where_the_client_is():
    stored = forms(*(["Told.", "Go on."] * 40))
    assert places(stored, stored)[0] == (0, 0)
    assert places(stored[20:], stored)[0] == (0, 20)
    assert len(places(stored[20:], stored)) == 60


def test_an_edited_pinned_message_is_the_one_that_it_is_like():
    """A client pins its first message, leaves out those that follow, and the first one was edited."""
    told = [
        "I take the cherry and the magnet to the mirror, gate one.",
        "She nods. The raven lies by the oyster near a thyme, gate two.",
        "I take the lobster and the lichen to the garnet, gate three.",
        "She nods. The bridge lies by the mortar near a quartz, gate four.",
        "I take the nickel and the lantern to the bramble, gate five.",
        "She nods. The vinegar lies by the otter near a linen, gate six.",
    ]
    stored = forms("Hello.", *told)[1:]
    shown = [*forms("Hello.", told[0].replace("one", "ten"))[1:], *stored[4:]]
    assert places(shown, stored) == [(0, 0), (1, 4), (2, 5)]


def test_an_edited_pinned_message_is_known_however_much_the_client_leaves_out():
    told = [f"I take road {number} to the mill and wait there for the miller's boy." for number in range(40)]
    stored = forms("Hello.", *told)[1:]
    shown = [*forms("Hello.", told[0].replace("boy", "girl"))[1:], *stored[36:]]
    assert places(shown, stored) == [(0, 0), *((at, at + 35) for at in range(1, 5))]
