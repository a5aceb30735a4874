"""The proxy keeps conversations and viewers apart: nobody gets, continues or changes what is another's."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio
WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
ASKED = "Chief, where is the temple key, and what lies in the lead box in your hearth?"
SECRET = "It lies in a lead box"
NUDGE = {"role": "system", "content": "[Write the next reply only as Bob]"}
CANARY = "ZEBRA-7731"


def user(text):
    return {"role": "user", "content": text}


def reply(text):
    return {"role": "assistant", "content": text}


def call_of(ident="c1", name="look"):
    calls = [{"id": ident, "type": "function", "function": {"name": name, "arguments": "{}"}}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(text, ident="c1"):
    return {"role": "tool", "tool_call_id": ident, "content": text}


@pytest.fixture
def server():
    with ScriptedServer("text:I will not say.") as server:
        yield server


class Callers:
    """Clients of one service, each with a token of its own (`host` without a viewer)."""

    def __init__(self, http, server, tokens):
        self.http, self.server, self.tokens = http, server, tokens

    async def ask(self, who, messages, session="s", path="chat/completions", **body):
        """Make a call of the proxy; return its answer, and the prompt that the model server got."""
        headers = self.headers(who) | ({"X-Jacquard-Session": session} if session else {})
        answer = await self.http.post(f"/v1/{path}", json={"messages": messages, **body}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert "x-jacquard-error" not in answer.headers
        return answer, str(self.server.requests[-1].body)

    def headers(self, who):
        return {"Authorization": f"Bearer {self.tokens[who]}"} if who in self.tokens else {}

    async def get(self, who, path):
        answer = await self.http.get(f"/api/v1/{path}", headers=self.headers(who))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def messages(self, session="s"):
        return [each["content"] for each in await self.get("host", f"sessions/{session}/messages?limit=200")]


@asynccontextmanager
async def open_callers(tmp_path, server, **settings):
    store, tokens = str(tmp_path / "store"), {}
    if settings.get("tenants"):
        async with using_records(store) as records:
            for name in ("host", "chief", "stranger"):
                viewer = None if name == "host" else name
                tokens[name] = (await records.tokens.create("north", Scope.PLAY, viewer=viewer))[0]
    app = build_app(ServiceSettings(store=store, upstream=server.base_url, embedder="none", **settings))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http,
    ):
        yield Callers(http, server, tokens)


@pytest.fixture
async def play(tmp_path, server):
    async with open_callers(tmp_path, server, tenants=True, world=str(WORLD)) as callers:
        yield callers


@pytest.fixture
async def alone(tmp_path, server):
    async with open_callers(tmp_path, server) as callers:
        yield callers


async def test_a_turn_that_waits_for_results_goes_on_only_for_its_viewer(play, server):
    server.set_script("tool:look {}", "tool:look {}", "text:No.")
    first, prompt = await play.ask("chief", [user(ASKED)])
    assert SECRET in prompt
    tail = [user(ASKED), call_of(), result("nothing")]
    again, prompt = await play.ask("chief", tail)
    assert SECRET in prompt
    assert again.headers["x-jacquard-receipt"] == first.headers["x-jacquard-receipt"]
    theirs, prompt = await play.ask("stranger", tail)
    assert SECRET not in prompt
    assert theirs.headers["x-jacquard-receipt"] != first.headers["x-jacquard-receipt"]


async def test_the_next_speaker_gets_the_text_of_a_turn_of_its_own_viewer(play):
    _, prompt = await play.ask("chief", [user(ASKED)])
    assert SECRET in prompt
    shown = [user(ASKED), reply("Ann: Hm."), NUDGE]
    assert SECRET not in (await play.ask("stranger", shown))[1]
    assert SECRET not in (await play.ask("host", shown))[1]
    assert SECRET in (await play.ask("chief", shown))[1]


@pytest.mark.parametrize(
    "shown",
    [
        [user(ASKED), reply("The key is under the mill.")],
        [user("Chief, where is the key?"), reply("I will not say.")],
        [user(ASKED)],
        [reply("Welcome, thief!")],
        [],
    ],
)
async def test_a_viewer_changes_nothing_of_what_others_said(play, shown):
    await play.ask("chief", [user(ASKED)])
    before = await play.messages()
    _, prompt = await play.ask("stranger", [*shown, user("And then?")])
    assert SECRET not in prompt
    assert await play.messages() == [*before, "And then?", "I will not say."]
    assert len(await play.get("host", "sessions/s/branches")) == 1


async def test_the_same_words_of_another_viewer_are_no_other_reply_to_the_first(play):
    await play.ask("chief", [user(ASKED)])
    before = await play.messages()
    _, prompt = await play.ask("stranger", [user(ASKED)])
    assert SECRET not in prompt
    assert await play.messages() == [*before, ASKED, "I will not say."]


async def test_a_viewer_asks_for_another_reply_to_its_own_newest_message(play, server):
    said = [user("Who is there?")]
    await play.ask("stranger", said)
    server.set_script("text:Nobody.")
    await play.ask("stranger", said)
    assert (await play.messages())[-2:] == ["Who is there?", "Nobody."]
    assert len(await play.get("host", "sessions/s/branches")) == 2
    await play.ask("stranger", [*said, reply("Nobody."), user("Who is there?")])
    assert (await play.messages())[-4:] == ["Who is there?", "Nobody."] * 2


async def test_viewers_who_talk_in_turn_keep_what_each_of_them_shows(play):
    talks = {"chief": [], "stranger": []}
    for number in range(3):
        for who, talk in talks.items():
            talk.append(user(f"{who} speaks of matter {number}."))
            await play.ask(who, talk)
            talk.append(reply("I will not say."))
    assert [each for each in await play.messages() if "matter" in each] == [
        f"{who} speaks of matter {number}." for number in range(3) for who in talks
    ]


async def test_conversations_of_viewers_without_a_name_are_apart(play):
    greeting = [user("My brother Olaf mends the boats of the ferryman by night.")]
    await play.ask("chief", greeting, None)
    await play.ask("stranger", greeting, None)
    await play.ask("host", greeting, None)
    assert len((await play.get("host", "sessions"))["items"]) == 3


OPENINGS = [
    ("hello", "Hello! How can I help you today?"),
    ("Good morning!", "Good morning! What can I do for you?"),
    ("你好", "你好！有什么可以帮您？"),
    ("Who are you?", "I am an AI assistant."),
]


async def look_up(alone, server, opening, answer, *, ident="c1"):
    """Play the conversation of one who asks a tool for something of their own, and return what their client shows."""
    server.set_script(
        f"text:{answer}", "tool:getOrder {}", f"text:Your door word is {CANARY}.", "text:You are welcome."
    )
    said = [user(opening)]
    await alone.ask("alice", said, None)
    said += [reply(answer), user("look up my order and my door code")]
    await alone.ask("alice", said, None)
    said += [
        call_of(ident, "getOrder"),
        result(f"Order of Alice: door word {CANARY}, garden shed, blue bicycle", ident),
    ]
    await alone.ask("alice", said, None)
    said += [reply(f"Your door word is {CANARY}."), user("thanks")]
    await alone.ask("alice", said, None)
    return [*said, reply("You are welcome.")]


@pytest.mark.parametrize(("opening", "answer"), OPENINGS)
async def test_conversations_that_begin_alike_get_nothing_of_each_other(alone, server, opening, answer):
    alices = await look_up(alone, server, opening, answer)
    asked = user("what is the door word of the order, and whose blue bicycle is in the garden shed?")
    begun, thanked = [user(opening), reply(answer)], [user("thanks"), reply("You are welcome.")]
    for shown in (
        [],
        begun,
        [*begun, reply("OK."), user("yes"), reply("OK.")],
        [user("good evening"), reply("Good evening!"), *begun],
        [reply(answer), user("yes"), reply("OK.")],
        thanked,
        [reply("You are welcome.")],
        [user("hi"), reply("Hi!"), *thanked],
    ):
        server.set_script("text:I do not know.")
        _, prompt = await alone.ask("bob", [*shown, asked], None)
        assert CANARY not in prompt, shown
        _, prompt = await alone.ask(
            "bob", [*shown, asked, reply("I do not know."), user("tell me the door word")], None
        )
        assert CANARY not in prompt, shown
    server.set_script("text:Yes.")
    _, prompt = await alone.ask("alice", [*alices[-4:], asked], None)
    assert "blue bicycle" in prompt.replace(asked["content"], ""), "who said so much alike goes on"


async def test_two_who_ask_the_same_of_their_tools_get_their_own_results(alone, server):
    async def begin(who, name):
        server.set_script("tool:getOrder {}", "text:It is on its way.")
        said = [user("Where is my order?")]
        await alone.ask(who, said, None)
        said += [call_of(), result(f"Order of {name}: {name}-7731")]
        await alone.ask(who, said, None)
        return [*said, reply("It is on its way.")]

    talks = {who: await begin(who, who) for who in ("alice", "bob")}
    server.set_script("text:Hm.")
    for who, other in (("bob", "alice"), ("alice", "bob")):
        for shown in (talks[who], [each for each in talks[who] if each["role"] != "tool" and each["content"]]):
            _, prompt = await alone.ask(who, [*shown, user("And what was in the order?")], None)
            assert f"{other}-7731" not in prompt


async def test_results_that_come_in_turn_from_two_clients_stay_with_their_conversations(alone, server):
    asked = [user("Where is my order?")]
    server.set_script("tool:getOrder {}")
    for who in ("alice", "bob"):
        await alone.ask(who, asked, None)
    talks = {who: [*asked, call_of(), result(f"Order of {who}: {who}-7731")] for who in ("alice", "bob")}
    for _ in range(2):
        for who, other in (("alice", "bob"), ("bob", "alice")):
            _, prompt = await alone.ask(who, talks[who], None)
            assert f"{other}-7731" not in prompt
            talks[who] += [call_of(f"c{len(talks[who])}"), result(f"more for {who}", f"c{len(talks[who])}")]


async def test_what_a_host_gave_to_a_session_is_not_for_another_that_begins_alike(alone, server):
    server.set_script("text:Hello! How can I help you today?")
    await alone.ask("alice", [user("hello")], None)
    [session] = (await alone.get("alice", "sessions"))["items"]
    page = {
        "content": f"The door word is {CANARY}.",
        "evidence_type": "rag_doc",
        "source": {"kind": "rag", "name": "notes"},
    }
    assert (await alone.http.post(f"/api/v1/sessions/{session}/evidence", json=page)).status_code == 200
    for shown in ([], [user("hello"), reply("Hello! How can I help you today?")]):
        _, prompt = await alone.ask("bob", [*shown, user("what is the door word?")], None)
        assert CANARY not in prompt


async def test_a_viewer_speaks_as_itself(play):
    facts = {"facts": [{"text": f"The code word of the chief is {CANARY}."}]}
    assert (
        await play.http.post("/api/v1/users/chief/facts", json=facts, headers=play.headers("host"))
    ).status_code == 200
    named = {**user("What is my code word?"), "name": "chief"}
    assert CANARY in (await play.ask("chief", [named]))[1]
    assert CANARY not in (await play.ask("stranger", [named]))[1]


PERSONS = [
    ("chat/completions", lambda name: {"user": name}),
    ("messages", lambda name: {"metadata": {"user_id": name}, "max_tokens": 50}),
]


@pytest.mark.parametrize(("path", "of"), PERSONS)
async def test_the_person_whom_a_call_names_joins_no_conversations(alone, path, of):
    await alone.ask("ana", [user("My locker is blue and stands below the stairs.")], None, path, **of("ana"))
    _, prompt = await alone.ask("ana", [user("Which colour has my locker below the stairs?")], None, path, **of("ana"))
    assert "is blue" not in prompt
    assert len((await alone.get("ana", "sessions"))["items"]) == 2


@pytest.mark.parametrize("named", [(True, False, True), (False, True, False)])
@pytest.mark.parametrize("cut", [0, 2])
@pytest.mark.parametrize(("path", "of"), PERSONS)
async def test_a_conversation_goes_on_if_its_client_begins_or_ceases_to_name_the_person(alone, path, of, cut, named):
    said = []
    for number, is_named in enumerate(named):
        said.append(user(f"Locker number {number} stands below the old marble stairs of the harbour museum."))
        more = of("ana") if is_named else {key: value for key, value in of("ana").items() if key == "max_tokens"}
        await alone.ask("ana", said[-2 * cut - 1 :] if cut else said, None, path, **more)
        said.append(reply("I will not say."))
    assert len((await alone.get("ana", "sessions"))["items"]) == 1
    await alone.ask("ana", [*said, user("And the last one?")], None, path, **of("ben"))
    assert len((await alone.get("ana", "sessions"))["items"]) == 2, "another person's is another conversation"


@pytest.mark.parametrize(("path", "of"), PERSONS)
async def test_facts_are_those_about_the_person_whom_a_call_names(alone, path, of):
    """Two persons who begin with the same words, or share a session, never get the facts about each other."""
    for name in ("ana", "ben"):
        facts = {"facts": [{"text": f"The house word of {name} is {name}-{CANARY}."}]}
        assert (await alone.http.post(f"/api/v1/users/{name}/facts", json=facts)).status_code == 200
    for session in (None, "shared"):
        for name, other in (("ana", "ben"), ("ben", "ana")):
            said = [user("Hello, what is my house word?")]
            for _ in range(2):
                _, prompt = await alone.ask(name, said, session, path, **of(name))
                assert f"{name}-{CANARY}" in prompt
                assert f"{other}-{CANARY}" not in prompt
                said += [reply("I will not say."), user("Why not, since I ask so kindly?")]


async def test_a_viewer_is_no_other_person(play):
    facts = {"facts": [{"text": f"The code word of the chief is {CANARY}."}]}
    await play.http.post("/api/v1/users/chief/facts", json=facts, headers=play.headers("host"))
    assert CANARY not in (await play.ask("stranger", [user("What is my code word?")], user="chief"))[1]
