"""What a proxied call really sent is shown afterwards: in the receipt, on the page and by `explain`."""

from __future__ import annotations

import json
from html import unescape

import anyio
import pytest
from test_proxy_turns import Chat, open_http
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.config.service import ProxySettings
from jacquard.testing.server import ScriptedServer
from mnemosyne.formats.worlds.pack import ImportedWorld, pack_files
from mnemosyne.schema.imported_files import AuthorsNote, BookEntry, CharacterCard, WorldBook

pytestmark = pytest.mark.anyio


@pytest.fixture
def server():
    with ScriptedServer("text:Noted.") as server:
        yield server


def write_world(folder, *, persona="", entries=(), note=None, activation="sillytavern"):
    """Write the pack of an imported card, a book of lore and an author's note; return its folder."""
    cards = (CharacterCard(spec="chara_card_v2", name="Mia", document={}, description=persona),) if persona else ()
    book = WorldBook(
        name="book",
        dialect="sillytavern",
        entries=tuple(BookEntry(uid=str(uid), fields=fields) for uid, fields in enumerate(entries)),
    )
    world = ImportedWorld(
        world_id="tea",
        title="Tea",
        locale="en",
        activation=activation,
        cards=cards,
        books=(book,),
        authors_note=note,
    )
    for name, data in pack_files(world).items():
        file = folder / "world" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder / "world"


async def usages(http):
    document = (await http.get("/api/v1/sessions/tea/document")).json()
    return document["session"]["model_usage"]


async def test_an_answer_leads_to_the_page_of_its_turn(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        chat = Chat(http)
        await chat.say("Good morning.")
        page = await http.get(chat.answer.headers["x-jacquard-page"])
    assert page.status_code == 200
    assert "Good morning." in page.text
    assert "x-jacquard-degraded" not in chat.answer.headers


async def test_what_a_turn_was_done_without_is_a_header(tmp_path, server):
    async with open_http(tmp_path, server, world=str(write_world(tmp_path, persona="long " * 9_000))) as http:
        chat = Chat(http)
        await chat.say("Good morning.")
        receipt = (await http.get(chat.answer.headers["x-jacquard-receipt"])).json()
    codes = [each["code"] for each in receipt["report"]["degradations"]]
    assert codes
    assert chat.answer.headers["x-jacquard-degraded"].split(", ") == list(dict.fromkeys(codes))


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_is_recorded_with_its_times_and_why_the_model_stopped(tmp_path, server, streams):
    server.set_script("unmetered:Noted.")
    async with open_http(tmp_path, server) as http:
        body = {"model": "m", "stream": streams, "messages": [{"role": "user", "content": "Good morning."}]}
        await http.post("/v1/chat/completions", json=body, headers={"X-Jacquard-Session": "tea"})
        body = {"model": "m", "max_tokens": 9, "stream": streams, "messages": [{"role": "user", "content": "Tea?"}]}
        await http.post("/v1/messages", json=body, headers={"X-Jacquard-Session": "tea"})
        first, second = await usages(http)
    assert (first["stop_reason"], second["stop_reason"]) == ("stop", "end_turn")
    for usage in (first, second):
        assert (usage.get("first_token_latency_ms") is not None) is streams
        assert usage["latency_ms"] >= 0
        assert usage["prompt_tokens"] > 0
        assert usage["completion_tokens"] > 0
    assert first["counted"] == "estimated"


LANTERN = "The lantern of Saltmere burns only for those who once drowned in its bay. Nobody may put it out."
BEES = "Runa keeps nine hives of black bees behind the mill. They sleep until the first thunder."
NOTE = "Write in short sentences. Never decide for the player."
ENTRIES = (
    {"key": [], "content": LANTERN, "comment": "Lantern", "constant": True, "order": 10, "position": 0},
    {"key": ["bees"], "content": BEES, "comment": "Bees", "order": 20, "position": 1},
)
MATERIAL = "It is material, not an instruction"


def texts_of(server, number=-1):
    return [(each.role, each.text) for each in server.requests[number].messages]


async def receipt_of(http, answer):
    return (await http.get(answer.headers["x-jacquard-receipt"])).json()


def decisions_of(receipt):
    return {each["title"] or each["block_id"]: each for each in receipt["report"]["decisions"]}


async def test_the_receipt_has_the_messages_as_they_were_sent(tmp_path, server):
    world = write_world(tmp_path, persona="Mia is a lighthouse keeper who counts ships.", entries=ENTRIES)
    async with open_http(tmp_path, server, world=str(world)) as http:
        chat = Chat(http)
        await chat.say("Good morning.")
        await chat.say("Where are the bees?")
        receipt = await receipt_of(http, chat.answer)
        page = (await http.get(chat.answer.headers["x-jacquard-page"])).text
        turn = receipt["turn_id"]
        origins = (await http.get(f"/api/v1/sessions/tea/turns/{turn}/explain", params={"text": "black bees"})).json()
        assert (await http.get(f"/api/v1/sessions/tea/turns/{turn}/replay")).json()["differences"] == []
    sent, texts = receipt["report"]["sent"], texts_of(server)
    assert [each["message"] for each in sent["texts"]] == list(range(len(texts)))
    assert [each["role"] for each in sent["texts"]] == [role for role, _ in texts]
    ours = {each["message"]: each["text"] for each in sent["texts"] if each["place"]}
    assert ours == {place: texts[place][1] for place in ours}
    assert len(ours) == 2
    assert sum(each["tokens"] for each in sent["texts"]) == sent["client_tokens"] + sent["our_tokens"]
    assert sum(receipt["tokens_by_block"].values()) == sent["client_tokens"] + sent["our_tokens"]
    assert decisions_of(receipt)["Persona"]["code"] == "not_added"
    assert decisions_of(receipt)["Persona"]["reason"] == "The client has its own."
    assert [call["extra"]["stop_reason"] for call in receipt["calls"]] == ["stop"]
    assert page.index("Good morning.") < page.index("black bees") < page.rindex("Where are the bees?")
    assert "lighthouse keeper" not in page
    assert f"The client's own tokens: {sent['client_tokens']}; ours: {sent['our_tokens']}" in unescape(page)
    assert "stopped: stop" in page
    [origin] = origins
    assert texts[origin["message"]][1][origin["start"] : origin["end"]] == "black bees"


@pytest.mark.parametrize("shown", ["{0}", "# Book\n\n**{0}** And much more is said of it here.", "“{0}”\n{1}"])
async def test_lore_that_the_client_shows_is_not_added_again(tmp_path, server, shown):
    world = write_world(tmp_path, entries=ENTRIES, note=AuthorsNote(text=NOTE))
    system = shown.format(LANTERN.upper().replace(". ", ".\n"), BEES.replace("nine", "*nine*")) + f"\n[{NOTE}]"
    async with open_http(tmp_path, server, world=str(world)) as http:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": "Where are the bees?"}]
        body, headers = {"model": "m", "messages": messages}, {"X-Jacquard-Session": "tea"}
        answer = await http.post("/v1/chat/completions", json=body, headers=headers)
        receipt = await receipt_of(http, answer)
    codes = {name: each["code"] for name, each in decisions_of(receipt).items()}
    assert (codes["Lantern"], codes["authors-note"]) == ("shown_by_client", "shown_by_client")
    ours = "\n".join(text for _, text in texts_of(server) if text not in (system, "Where are the bees?"))
    assert "Saltmere" not in ours
    assert "short sentences" not in ours
    assert ("hives" in ours) is ("{1}" not in shown) is (codes["Bees"] != "shown_by_client")


@pytest.mark.parametrize("is_shown", [False, True])
async def test_lore_that_is_recalled_is_not_added_where_the_client_shows_it(tmp_path, server, is_shown):
    world = write_world(tmp_path, entries=ENTRIES, activation="recall")
    async with open_http(tmp_path, server, world=str(world)) as http:
        chat = Chat(http)
        chat.messages = [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Yes."},
            *([{"role": "system", "content": BEES}] if is_shown else []),
        ]
        await chat.say("How many hives of black bees has Runa behind the mill?")
        receipt = await receipt_of(http, chat.answer)
    assert (decisions_of(receipt)["Bees"]["code"] == "shown_by_client") is is_shown
    assert sum("nine hives" in text for _, text in texts_of(server)) == 1


@pytest.mark.parametrize(
    "shown",
    [
        "The lantern of Saltmere burns only for those who once drowned in its bay.",
        LANTERN.replace("may", "dared to"),
        LANTERN.replace("bay", "bayside"),
        "Saltmere",
    ],
)
async def test_lore_of_which_the_client_shows_less_than_nearly_all_is_added(tmp_path, server, shown):
    async with open_http(tmp_path, server, world=str(write_world(tmp_path, entries=ENTRIES))) as http:
        await Chat(http).say(f"I read this: {shown}")
    assert any(LANTERN in text for _, text in texts_of(server))


@pytest.mark.parametrize("place", ["before_last_user", "after_system"])
@pytest.mark.parametrize("state", [False, True])
async def test_the_authors_note_stands_at_its_depth(tmp_path, server, place, state):
    world = write_world(tmp_path, entries=ENTRIES, note=AuthorsNote(text=NOTE, depth=2, role="user"))
    if state:
        with (world / "world.yaml").open("a", encoding="utf-8") as file:
            file.write("state: {hero: {health: 3}}\n")
    async with open_http(tmp_path, server, world=str(world), proxy=ProxySettings(place=place)) as http:
        chat = Chat(http)
        await chat.say("Good morning.")
        await chat.say("Where are the bees?")
    texts = texts_of(server)
    [(at, role, text)] = [(at, role, text) for at, (role, text) in enumerate(texts) if NOTE in text]
    if place == "after_system":
        assert role == "system"
        assert MATERIAL not in text[: text.index(NOTE)]
    else:
        assert (role, text) == ("user", f'<directive id="authors-note">{NOTE}</directive>')
        theirs = [text for _, text in texts[at + 1 :] if text in ("Good morning.", "Noted.", "Where are the bees?")]
        assert theirs == ["Noted.", "Where are the bees?"]


@pytest.mark.parametrize("role", [0, 1, 2])
async def test_world_info_at_a_depth_has_a_message_of_its_own_there(tmp_path, server, role):
    entry = {"key": [], "content": BEES, "comment": "Bees", "constant": True, "position": 4, "depth": 1, "role": role}
    async with open_http(tmp_path, server, world=str(write_world(tmp_path, entries=[entry]))) as http:
        await Chat(http).say("Good morning.")
    said, text = texts_of(server)[-2]
    assert said == ("system", "user", "assistant")[role]
    assert BEES in text
    assert MATERIAL not in text


async def test_results_of_tools_get_the_same_notes_in_the_same_place(tmp_path, server):
    server.set_script("tool:weather {}", "text:Rain.")
    world = write_world(tmp_path, entries=ENTRIES, note=AuthorsNote(text=NOTE, depth=0))
    async with open_http(tmp_path, server, world=str(world)) as http:
        messages = [{"role": "user", "content": "Do the bees sleep?"}]
        headers = {"X-Jacquard-Session": "tea"}
        first = await http.post("/v1/chat/completions", json={"messages": messages}, headers=headers)
        call = first.json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "Rain."}
        await http.post("/v1/chat/completions", json={"messages": [*messages, call, result]}, headers=headers)
    one, two = (request.body["messages"] for request in server.requests)
    assert two == [*one, call, result]
    assert NOTE in one[-1]["content"]


async def test_a_thousand_messages_are_recorded_without_their_words(tmp_path, server):
    async with open_http(tmp_path, server, world=str(write_world(tmp_path, entries=ENTRIES))) as http:
        chat = Chat(http)
        for number in range(500):
            words = f"In the year {number} the harbour froze and the ships waited for the thaw, one beside the other."
            chat.messages += [{"role": "user", "content": words}, {"role": "assistant", "content": f"Yes, {number}."}]
        await chat.say("Where are the bees?")
        receipt = await http.get(chat.answer.headers["x-jacquard-receipt"])
    sent = receipt.json()["report"]["sent"]
    assert len(sent["texts"]) == len(server.requests[-1].body["messages"])
    client = [each for each in sent["texts"] if not each["place"]]
    assert not any(each["text"] for each in client)
    assert len(json.dumps(client)) < 130 * len(client)


async def test_the_oldest_messages_of_a_very_long_call_are_one_text_of_its_receipt(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        chat = Chat(http, shows=5_000)
        for number in range(1050):
            chat.messages += [
                {"role": "user", "content": f"Is it day {number}?"},
                {"role": "assistant", "content": "It is."},
            ]
        receipts = []
        for asked in ("Where are the bees?", "And the ships?"):
            await chat.say(asked)
            receipts.append((await http.get(chat.answer.headers["x-jacquard-receipt"])).json()["report"]["sent"])
        page = await http.get(chat.answer.headers["x-jacquard-page"])
    for sent, newest in zip(receipts, (2101, 2103), strict=True):
        system, older, following, *_ = sent["texts"]
        assert (system["message"], older["message"], following["message"]) == (0, 1, newest - 1999)
        assert sent["texts"][-1]["message"] == newest
    growth = receipts[1]["client_tokens"] - receipts[0]["client_tokens"]
    assert 0 < growth < 40, "an exchange more"
    assert f"[{newest - 2000} messages: {older['digest']}]" in page.text


async def test_the_receipt_says_what_was_decided_about_the_clients_messages(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        chat = Chat(http)
        await chat.say("Good morning.")
        chat.messages[0]["content"] = "Good evening."
        await chat.say("Is there tea?")
        [sentence] = (await receipt_of(http, chat.answer))["report"]["sent"]["alignment"]
        page = await http.get(chat.answer.headers["x-jacquard-page"])
    assert sentence == "1 messages have another text; the state stays."
    assert sentence in page.text


async def test_a_secret_is_not_kept_by_what_was_sent(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        chat = Chat(http)
        await chat.say("My PIN: 4471, please keep it.")
        receipt = await http.get(chat.answer.headers["x-jacquard-receipt"])
        page = await http.get(chat.answer.headers["x-jacquard-page"])
    assert any("4471" in text for _, text in texts_of(server))
    assert "4471" not in receipt.text + page.text


async def test_a_call_of_anthropics_api_is_recorded_with_the_parts_that_are_ours(tmp_path, server):
    world = write_world(tmp_path, entries=ENTRIES, note=AuthorsNote(text=NOTE))
    content = [{"type": "text", "text": "Where are the bees?"}]
    messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes?"}]
    body = {"model": "m", "max_tokens": 9, "system": "You are terse.", "metadata": {"user_id": "tea"}}
    body["messages"] = [*messages, {"role": "user", "content": content}]
    async with open_http(tmp_path, server, world=str(world)) as http:
        answer = await http.post("/v1/messages", json=body)
        texts = (await receipt_of(http, answer))["report"]["sent"]["texts"]
        page = (await http.get(answer.headers["x-jacquard-page"])).text
    sent = server.requests[-1].body
    messages = [{"role": "system", "content": sent["system"]}, *sent["messages"]]
    assert {each["message"] for each in texts} == set(range(len(messages)))
    ours = [each for each in texts if each["place"]]
    assert {each["place"] for each in ours} == {"lasting", "changing", "depth:4"}
    for each in ours:
        message = messages[each["message"]]
        assert each["role"] == message["role"]
        assert each["text"] in [part["text"] for part in message["content"]]
    assert page.index("Saltmere") < page.index("Never decide for the player") < page.index("black bees")


def test_the_command_line_explains_what_was_sent(tmp_path, server):
    world = write_world(tmp_path, persona="Mia is a lighthouse keeper who counts ships.", entries=ENTRIES)

    async def play():
        async with open_http(tmp_path, server, world=str(world)) as http:
            await Chat(http).say("Where are the bees?")

    anyio.run(play)

    def explain(*arguments):
        done = CliRunner().invoke(
            app, ["play", "explain", "--store", str(tmp_path / "store"), "--session", "tea", *arguments]
        )
        assert done.exit_code == 0, done.output
        return done.output

    told = json.loads(explain("--json"))
    sent = told["report"]["sent"]
    assert f"{sent['client_tokens']} tokens of the client's own, {sent['our_tokens']} of ours" in explain()
    assert "stopped: stop" in explain()
    assert told["calls"][0]["completion_tokens"] > 0
    [origin] = json.loads(explain("--find", "nine hives", "--json"))["origins"]
    assert server.requests[-1].messages[origin["message"]].text[origin["start"] : origin["end"]] == "nine hives"
