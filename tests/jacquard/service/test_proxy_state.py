"""State and memory of a session survive what chat clients do to their messages every day."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio
WORLD = "id: light\ntitle: The light\nlocale: en\nstate: {hero: {id: hero, name: Anna, coins: 12}}\n"
NOD = "<content>You nod.</content>"
FIND = '<content>You find coins.</content><state_update>[["ADD","hero.coins",100]]</state_update>'


def user(content):
    return {"role": "user", "content": content}


def reply(content):
    return {"role": "assistant", "content": content}


class Client:
    """A chat client."""

    def __init__(self, http, server):
        self.http, self.server = http, server

    async def ask(self, *messages, says=NOD, session=None, path="/v1/chat/completions", **more):
        if says is not None:
            self.server.set_script(f"text:{says}")
        headers = {"X-Jacquard-Session": session} if session else {}
        answer = await self.http.post(path, json={"model": "m", "messages": [*messages], **more}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert "x-jacquard-error" not in answer.headers
        return answer.headers

    async def sessions(self):
        return (await self.http.get("/api/v1/sessions")).json()["items"]

    async def coins(self):
        [session] = await self.sessions()
        return (await self.http.get(f"/api/v1/sessions/{session}/state")).json()["hero"]["coins"]

    async def stored(self):
        [session] = await self.sessions()
        messages = (await self.http.get(f"/api/v1/sessions/{session}/messages?limit=200")).json()
        return [(each["role"], each["content"]) for each in messages]

    async def branches(self):
        [session] = await self.sessions()
        return len((await self.http.get(f"/api/v1/sessions/{session}/branches")).json())

    @property
    def added(self):
        """The system texts of the newest call."""
        return "\n".join(str(m["content"]) for m in self.server.requests[-1].body["messages"] if m["role"] == "system")


@pytest.fixture
def server():
    with ScriptedServer(f"text:{NOD}") as server:
        yield server


@asynccontextmanager
async def open_client(tmp_path, server, has_world=True):
    world = tmp_path / "world"
    world.mkdir(exist_ok=True)
    (world / "world.yaml").write_text(WORLD)
    settings = ServiceSettings(
        store=str(tmp_path / "store"),
        upstream=server.base_url,
        embedder="none",
        world=str(world) if has_world else None,
    )
    app = build_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http,
    ):
        yield Client(http, server)


@pytest.fixture
async def client(tmp_path, server):
    async with open_client(tmp_path, server) as client:
        yield client


@pytest.fixture
async def plain(tmp_path, server):
    async with open_client(tmp_path, server, has_world=False) as client:
        yield client


async def test_edit_taken_back_loses_no_state(client):
    first, walk = [user("Good evening."), reply("You nod.")], [user("We walk."), reply("You nod.")]
    await client.ask(first[0], session="s")
    await client.ask(*first, walk[0], session="s")
    search = [user("I search the drawer."), reply("You find coins.")]
    late = [user("Good evening. [late]"), first[1], *walk]
    await client.ask(*late, search[0], says=FIND, session="s")
    headers = await client.ask(*first, *walk, *search, user("I leave."), session="s")
    assert await client.coins() == 112
    assert "edited=1" in headers["x-jacquard-alignment"]
    assert (await client.stored())[0] == ("user", "Good evening.")


async def test_edit_taken_back_is_where_it_was(client):
    talk = [user("Good evening."), reply("You nod."), user("We walk."), reply("You nod.")]
    await client.ask(talk[0], session="s")
    await client.ask(*talk[:2], talk[2], session="s")
    await client.ask(user("Good night."), *talk[1:], user("I sit."), session="s")
    headers = await client.ask(*talk, user("I stand."), session="s")
    assert headers["x-jacquard-alignment"] == "branch=1"
    assert await client.branches() == 2


async def test_pinned_beginning_drops_the_middle_and_nothing_is_lost(client):
    asked = ["Tell me of the lighthouse.", "The spare lens lies below the third step of the tower.", "I look around."]
    asked += ["We walk.", "It rains.", "I sit.", "We eat.", "Where did I say that the spare lens lies?"]
    talk = []
    for number, text in enumerate(asked):
        shown = talk if number < 4 else [*talk[:2], *talk[-4:]]
        headers = await client.ask(*shown, user(text), says=FIND if number == 2 else NOD)
        talk += [user(text), reply("You find coins." if number == 2 else "You nod.")]
    assert await client.coins() == 112
    assert "third step" in client.added
    assert headers["x-jacquard-alignment"] == "left_out=8"


@pytest.mark.parametrize("now", ["left out", "detail", "thinking", "formatted"])
async def test_parts_differ_and_no_state_is_lost(client, now):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    look = {"type": "text", "text": "Look at this map."}
    dig = [user("I dig *there*."), reply("You find coins.")]
    await client.ask(user([look, image]), session="s")
    await client.ask(user([look, image]), reply("You nod."), dig[0], says=FIND, session="s")
    detailed = {**image, "image_url": {**image["image_url"], "detail": "low"}}
    thought = {"type": "redacted_thinking", "data": "abc"}
    nod = reply([thought, {"type": "text", "text": "You nod."}]) if now == "thinking" else reply("You nod.")
    shown = {"left out": [look], "detail": [look, detailed]}.get(now, [look, image])
    if now == "formatted":
        nod, dig = (
            reply("<p>“You</p> <i>nod</i>.”"),
            [user("I  dig there"), reply("<think>Coins?</think>\n\nYou find coins.")],
        )
    headers = await client.ask(user(shown), nod, *dig, user("I leave."), session="s")
    assert await client.coins() == 112
    assert headers["x-jacquard-alignment"] == "goes_on"
    assert await client.branches() == 1


async def test_more_messages_formatted_than_can_be_edited_one_by_one(client):
    talk = []
    for number in range(12):
        await client.ask(
            *talk, user(f"I take the path number {number}."), says=FIND if number == 3 else NOD, session="s"
        )
        talk += [user(f"I take the path number {number}."), reply("You find coins." if number == 3 else "You nod.")]
    changed = [{**each, "content": each["content"].replace("path", "road").replace("nod", "bow")} for each in talk]
    await client.ask(*changed, user("I leave."), session="s")
    assert await client.coins() == 112
    assert [text for _, text in await client.stored()][:2] == ["I take the road number 0.", "You bow."]


async def test_text_beside_tool_result_is_no_turn(plain):
    async def call(*messages):
        return await plain.ask(*messages, session="s", path="/v1/messages", max_tokens=50, says=None)

    def result(number, text):
        told = {"type": "tool_result", "tool_use_id": f"tu{number}", "content": "ok"}
        return user([told, {"type": "text", "text": f"<system-reminder>{text}</system-reminder>"}])

    def use(number):
        return reply([{"type": "tool_use", "id": f"tu{number}", "name": "read", "input": {}}])

    reminded = [
        {"type": "text", "text": "<system-reminder>Today is Friday.</system-reminder>"},
        {"type": "text", "text": "Fix the off-by-one in pages.py."},
    ]
    asked = user(reminded)
    plain.server.set_script("tool:read {}", "tool:read {}", "text:Fixed.")
    first = await call(asked)
    second = await call(asked, use(1), result(1, "The list of tasks is empty."))
    third = await call(asked, use(1), result(1, "The list of tasks is empty."), use(2), result(2, "Still empty."))
    assert first["x-jacquard-receipt"] == second["x-jacquard-receipt"] == third["x-jacquard-receipt"]
    assert await plain.stored() == [("user", "Fix the off-by-one in pages.py."), ("assistant", "Fixed.")]


async def test_first_message_changes_and_the_session_goes_on(client):
    note = "\n\n[Stay in character.]"
    hi, coins = reply("Hi."), [user("Good evening."), reply("You find coins.")]
    await client.ask(hi, user(f"Good evening.{note}"), says=FIND)
    headers = await client.ask(hi, *coins, user(f"We walk.{note}"))
    await client.ask(hi, *coins, user("We walk."), reply("You nod."), user(f"I search the drawer.{note}"))
    assert await client.coins() == 112
    assert "instruction=1" in headers["x-jacquard-alignment"]
    assert [text for role, text in await client.stored() if role == "user"] == [
        "Good evening.",
        "We walk.",
        "I search the drawer.",
    ]


@pytest.mark.parametrize("role", ["user", "system"])
async def test_a_constant_last_instruction_is_known_at_the_second_call(client, role):
    last = {"role": role, "content": "[Write the next reply in the third person.]"}
    talk = []
    for number, text in enumerate(["Good evening.", "I search the drawer.", "We walk.", "I leave."]):
        await client.ask(*talk, user(text), last, says=FIND if number == 1 else NOD)
        talk += [user(text), reply("You find coins." if number == 1 else "You nod.")]
    assert await client.coins() == 112
    assert await client.stored() == [(each["role"], each["content"]) for each in talk]


async def test_constant_prefill_has_memory(plain):
    lens, walk = user("The spare lens lies below the third step."), user("We walk.")
    start = reply("Wren:")
    for shown in (
        [lens],
        [lens, reply("Noted."), walk],
        [lens, reply("Noted."), walk, reply("Wren: On."), user("I sit.")],
    ):
        headers = await plain.ask(*shown, start, says="Noted." if len(shown) == 1 else "On.")
        assert "x-jacquard-receipt" in headers
    assert [text for _, text in await plain.stored()] == [lens["content"], "Noted.", "We walk.", "On.", "I sit.", "On."]
    goes_on = await plain.ask(lens, reply("Noted."), says=", and that is all.")
    assert goes_on["x-jacquard-pass"] == "nothing%20to%20answer"


async def test_single_message_of_all_is_taken_apart(client):
    """A client may merge all messages into one of the user."""
    talk, system = [], "You are Mia."
    for number, text in enumerate(["I take the amber lantern.", "I search the willow chest.", "We walk to the ferry."]):
        merged = "\n\n".join([system, *talk, f"Anna: {text}"])
        await client.ask(user(merged), says=FIND if number == 1 else NOD)
        talk += [f"Anna: {text}", f"Mia: {'You find coins.' if number == 1 else 'You nod.'}"]
    assert await client.coins() == 112
    assert [role for role, _ in await client.stored()] == ["user", "assistant"] * 3


async def test_an_exchange_that_comes_back_has_its_changes_again(client):
    talk = []
    for number, text in enumerate(["Good evening.", "We walk.", "It rains.", "I search the drawer.", "I sit."]):
        await client.ask(*talk, user(text), says=FIND if number == 3 else NOD, session="s")
        talk += [user(text), reply("You find coins." if number == 3 else "You nod.")]
    without = [*talk[:6], *talk[8:]]
    headers = await client.ask(*without, user("I stand."), session="s")
    assert "deleted=2" in headers["x-jacquard-alignment"]
    assert await client.coins() == 12
    await client.ask(*talk, user("I stand."), reply("You nod."), user("I run."), session="s")
    assert await client.coins() == 112


async def test_a_conversation_without_a_name_is_found_after_a_restart_by_what_the_client_still_shows(tmp_path, server):
    texts = [
        "My sister Runa keeps bees behind the mill.",
        "She paints the hives in copper.",
        "I search the willow chest.",
    ]
    talk = []
    async with open_client(tmp_path, server) as client:
        for number, text in enumerate(texts):
            await client.ask(*talk, user(text), says=FIND if number == 2 else NOD)
            talk += [user(text), reply("You find coins." if number == 2 else "You nod.")]
    async with open_client(tmp_path, server) as client:
        await client.ask(*talk[2:], user("I leave."))
        assert await client.coins() == 112


async def test_messages_whose_replies_were_empty_are_stored_once(client):
    talk = []
    for number, says in enumerate([FIND, "", "", NOD, ""]):
        headers = await client.ask(*talk[-4:], user(f"I open drawer {number}."), says=says, session="s")
        assert headers["x-jacquard-alignment"] == "goes_on"
        talk += [user(f"I open drawer {number}."), reply({FIND: "You find coins.", NOD: "You nod."}.get(says, ""))]
    await client.ask(*talk[-4:], user("I rest."), session="s")
    assert [text for role, text in await client.stored() if role == "user"] == [
        *(f"I open drawer {number}." for number in range(5)),
        "I rest.",
    ]
    assert await client.coins() == 112
    assert await client.branches() == 1


async def test_a_reply_deleted_after_an_edit_takes_its_changes_alone_along(client):
    talk = []
    for number in range(6):
        await client.ask(*talk, user(f"I open drawer {number}."), says=FIND if number > 2 else NOD, session="s")
        talk += [user(f"I open drawer {number}."), reply("You find coins." if number > 2 else "You nod.")]
    talk[1] = reply("You open the upper drawer, which is empty.")
    await client.ask(*talk, user("I rest."), session="s")
    talk += [user("I rest."), reply("You nod.")]
    assert await client.coins() == 312
    await client.ask(*talk[:7], *talk[8:], user("I stand."), session="s")
    assert await client.coins() == 212


@pytest.mark.parametrize("edited", [False, True])
async def test_an_exchange_has_the_ops_of_one_on_another_branch_only_if_the_same_was_said_before_it(client, edited):
    enter, search = user("I enter the mill by the river."), [user("I search the chest."), reply("You find coins.")]
    await client.ask(enter, says="<content>The miller greets you and opens an old chest.</content>")
    first = [enter, reply("The miller greets you and opens an old chest.")]
    await client.ask(*first, search[0], says=FIND)
    assert await client.coins() == 112
    await client.ask(enter, says="<content>Nobody is there, and the door falls shut.</content>")
    second = [enter, reply("Nobody is there, and the door falls shut.")]
    assert await client.coins() == 12
    await client.ask(*second, *search, user("And now?"))
    assert await client.coins() == 12, "other coins, which the client's own chest may have had"
    if edited:
        first[1] = reply("The old miller greets you and opens an old chest.")
    await client.ask(*first, *search, user("How many do I have?"))
    assert await client.coins() == 112


async def test_a_former_reply_is_taken_again_though_the_clients_instruction_is_not_known_yet(client):
    entered, instruction = user("I enter the mill by the river."), user("[Write the next reply in the third person.]")
    await client.ask(entered, instruction, says=FIND)
    await client.ask(entered, instruction, says="<content>Nobody is there, and the door falls shut.</content>")
    assert await client.coins() == 12
    await client.ask(entered, reply("You find coins."), user("I search the chest."), instruction)
    assert await client.coins() == 112
