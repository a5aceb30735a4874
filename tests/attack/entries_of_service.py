"""Entry points of the service: calls of chat clients, answers of model servers, arguments of tools, bodies and parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from urllib.parse import unquote_to_bytes

from entry_points import LIMITS, MEASURED_CHARS, Run, entry

from filament import FilamentError, load_yaml, parse_reply
from jacquard import JacquardError
from jacquard.remote.bodies import TurnRequest
from jacquard.remote.operations import OPERATIONS
from jacquard.service.answers import Refusal
from jacquard.service.host_paths import hide_places
from jacquard.service.http.endpoints import read_parameter, spell_path
from jacquard.service.ids import MOST_CHARS as MOST_ID_CHARS
from jacquard.service.ids import check_id, check_ids, shorten_id
from jacquard.service.mcp.calls import MOST_CHARS, read_arguments
from jacquard.service.mcp.prompts import MOST_CHARS as PROMPT_CHARS
from jacquard.service.mcp.prompts import get_prompt
from jacquard.service.mcp.tools import TOOLS
from jacquard.service.proxy.alignment import align
from jacquard.service.proxy.client_lines import find_instruction, split_merged, without_lines, without_reminders
from jacquard.service.proxy.message_forms import form_of
from jacquard.service.proxy.replies.answers import AnswerReader, ContentView, ReplyView, WholeView
from jacquard.service.proxy.replies.events import DONE, EventSplitter, write_event
from jacquard.service.proxy.requests.chat_request import (
    AFTER_SYSTEM,
    BEFORE_LAST_USER,
    DEPTH,
    Api,
    OurText,
    read_request,
    with_our_text,
)
from jacquard.service.proxy.requests.headers import headers_for_client, headers_for_upstream
from jacquard.service.proxy.requests.rules import find_rule, load_rules, read_rules
from mnemosyne import MnemosyneError, Role
from mnemosyne.chains.messages.exchanges import exchange_digests
from mnemosyne.chains.messages.message_parts import message_from_chat
from mnemosyne.core import codec

OURS = OurText(lasting="What lasts.", changing="What changes.")
PLACES = (AFTER_SYSTEM, BEFORE_LAST_USER, f"{DEPTH}2")
HEADER_CHARS = 64_000
MESSAGE_CHARS = 60
"""How long the messages are into which a text is cut."""
ARGUMENT_CHARS = MOST_CHARS // 8
"""A tool gets a text several times, and a character may need six in JSON."""

# --- addresses and ids ------------------------------------------------------------------------------------------------


@entry("service: an address", HEADER_CHARS)
def spell_address(text: str) -> None:
    spelt = spell_path(_bytes(text))
    assert spelt.isascii()
    assert spell_path(spelt.encode()) == spelt
    assert unquote_to_bytes(spelt) == unquote_to_bytes(_bytes(text))


@entry("service: an id", MEASURED_CHARS, JacquardError)
def give_id(text: str) -> None:
    short = shorten_id(text or "x")
    assert len(short) <= MOST_ID_CHARS
    said = {"message_id": text, "tool_calls": [{"id": text, "function": {"arguments": text}}], "content": text}
    for given in (TurnRequest(message=said), {"branch": text, "query": text}):
        check_ids(given)
    check_id("session_id", text)
    assert len(text) <= MOST_ID_CHARS


@entry("service: a sentence about what failed", MEASURED_CHARS)
def tell_error(text: str) -> None:
    for sentence in (text, f"'/srv/{text}'", f"/srv/north/{text} cannot be used: {text}"):
        assert hide_places({"reason": [sentence]}) == {"reason": [hide_places(sentence)]}


# --- the proxy: calls of clients --------------------------------------------------------------------------------------


def _fault_of(work: Callable[[], object]) -> str:
    """Return the sentence with which work refuses what it was given; empty where it does not."""
    try:
        work()
    except (JacquardError, Refusal) as error:
        return str(error)
    return ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@entry("proxy: body of a call", MEASURED_CHARS)
def read_body(text: str) -> None:
    for api in Api:
        read_request(api, _bytes(text))
        # Whatever JSON the text is, it stands where a client may put something.
        for form in ('{"messages":[{"role":"user","content":%s}]}', '{"messages":%s}', '{"system":%s,"messages":[{}]}'):
            _pass_on(api, _bytes(form % text))


@entry("proxy: message of a call", MEASURED_CHARS)
def read_message(text: str) -> None:
    said = {"role": "user", "content": text}
    parts = {"role": "assistant", "content": [{"type": "text", "text": text}, {"type": text[:9], "input": text[:99]}]}
    for api in Api:
        _pass_on(api, json.dumps({"messages": [said, parts, said], "system": text[:999]}).encode())


def _pass_on(api: Api, data: bytes) -> None:
    """Read a call as the proxy does, and add our text; what the client sent stays as it is."""
    request = read_request(api, data)
    if request is None:
        return
    find_rule(_rules(), request, {})
    for place in PLACES:
        sent = json.loads(with_our_text(request, OURS, place))
        own = list(request.body["messages"])
        if api is Api.OPENAI:
            kept = [each for each in sent["messages"] if each.get("content") not in (OURS.lasting, OURS.changing)]
            assert json.dumps(kept) == json.dumps(own)
        else:
            assert len(sent["messages"]) == len(own)
        rest, expected = ({**each, "messages": 0, "system": 0} for each in (sent, request.body))
        assert json.dumps(rest) == json.dumps(expected)


@cache
def _rules():
    return load_rules(None)


@entry("proxy: messages beside stored ones", 400_000, ValueError)
def align_messages(text: str) -> None:
    roles = (Role.USER, Role.ASSISTANT)
    pieces = [text[at : at + MESSAGE_CHARS] for at in range(0, len(text), MESSAGE_CHARS)]
    said = [message_from_chat({"role": roles[at % 2].value, "content": piece}) for at, piece in enumerate(pieces)]
    forms = [form_of(each) for each in said]
    whole = align(forms, forms)
    assert whole.is_exact
    assert whole.cost == 0
    named = [form_of(replace(each, content=f"Wren: {each.content}")) for each in said]
    align(named, forms)
    half = align(forms[len(forms) // 2 :], forms)
    for user in said[:2]:
        form = form_of(without_reminders(user))
        without_lines(user, find_instruction(form, forms[len(forms) // 2 :], said, forms, half))
    assert len([at for at, _ in exchange_digests(said)]) // 2 == len(forms) // 2


@entry("proxy: one long message", LIMITS.user_message_chars, ValueError)
def form_message(text: str) -> None:
    said = message_from_chat(
        {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image", "url": text}]}
    )
    assert form_of(said).is_same(form_of(said))
    split_merged(said, [form_of(replace(said, content=line)) for line in text.split("\n")[:100]])


@entry("proxy: rules of calls", 200_000, JacquardError, FilamentError)
def read_rule_file(text: str) -> None:
    request = read_request(Api.OPENAI, json.dumps({"messages": [{"role": "user", "content": text}]}).encode())
    assert request is not None
    # As the text of a condition, as a name that there is not, and as a whole file.
    rules = read_rules(
        {"rules": [{"name": text, "last_message": text[:9_000] or "a", "header": {text: text}}]}, "rules"
    )
    find_rule(rules, request, {text.lower(): text})
    assert len(_fault_of(lambda: read_rules({"rules": [{"name": "a", text: text}]}, "rules"))) < 1_000
    read_rules(load_yaml(text), "rules")


@entry("proxy: headers", HEADER_CHARS)
def pass_headers(text: str) -> None:
    sent = [
        ("Connection", text),
        (text[:99], text),
        ("Authorization", text),
        ("Cookie", text),
        ("X-Jacquard-Session", text),
    ]
    up = headers_for_upstream(sent, [("authorization", "ours")])
    assert [value for name, value in up if name == "authorization"] == ["ours"]
    assert not {"cookie", "x-jacquard-session", "connection"} & {name for name, _ in up}
    headers_for_client(sent)


# --- the proxy: answers of model servers ------------------------------------------------------------------------------


def cut_in(size: int) -> Run:
    def cut(text: str) -> None:
        data, splitter = _bytes(text), EventSplitter()
        events = [event for at in range(0, len(data), size) for event in splitter.take(data[at : at + size])]
        assert b"".join([*events, splitter.end()]) == data

    return cut


for _size in (1, 7, 4096):
    entry(f"proxy: stream in pieces of {_size}", MEASURED_CHARS)(cut_in(_size))


@entry("proxy: events of an answer", MEASURED_CHARS)
def read_events(text: str) -> None:
    data = text.replace("\n", "")
    for api in Api:
        reader, splitter = AnswerReader(api), EventSplitter()
        stream = _bytes(f"data: {text}\n\ndata: {data}\n\nevent: {text}\n\n")
        assert b"".join(reader.take(event) for event in splitter.take(stream)) + splitter.end() == stream
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            AnswerReader(api).take_whole(value)


def _stream(api: Api, view: type[ReplyView], pieces: list[str]) -> AnswerReader:
    reader = AnswerReader(api, view)
    for piece in pieces:
        if api is Api.OPENAI:
            reader.take(write_event({"choices": [{"index": 0, "delta": {"content": piece}}]}))
        else:
            delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            reader.take(write_event(delta, "content_block_delta"))
    if api is Api.OPENAI:
        reader.take(f"data: {DONE}\n\n".encode())
    else:
        reader.take(write_event({"type": "content_block_stop", "index": 0}))
    return reader


@entry("proxy: reply in events", LIMITS.reply_chars)
def read_streamed_reply(text: str) -> None:
    pieces = [text[at : at + 29] for at in range(0, len(text), 29)]
    for api in Api:
        plain = _stream(api, WholeView, pieces)
        assert plain.raw == plain.shown == text
        shown = _stream(api, ContentView, pieces).shown
        assert shown == _stream(api, ContentView, [text]).shown
        reply = parse_reply(text)
        # What was streamed cannot be taken back when a closing tag shows that it was a thought.
        if not reply.content and all(each.code != "moved" for each in reply.log):
            assert not shown.strip()


# --- tools, prompts and parameters ------------------------------------------------------------------------------------


@entry("mcp: arguments of tools", ARGUMENT_CHARS, JacquardError, Refusal)
def read_tool_arguments(text: str) -> None:
    for name, given in (
        ("prepare_turn", {"session_id": text, "message": text}),
        ("remember_memory", {"session_id": "s", "text": text, "viewer": text[:99]}),
        ("search_memory", {"session_id": "s", "text": text, "limit": text}),
        ("set_state", {"session_id": "s", "changes": {text: text}}),
        ("list_sessions", {"query": text, "limit": 5}),
        ("edit_lore", {"world_id": "w", "entry_id": text, "text": [text]}),
        ("prepare_turn", {"session_id": [text], "message": "a"}),
        ("list_worlds", {text: text}),
    ):
        assert len(_fault_of(partial(read_arguments, TOOLS[name], given))) < 2_000, name


@entry("mcp: arguments of prompts", PROMPT_CHARS, JacquardError)
def read_prompt_arguments(text: str) -> None:
    made = get_prompt("recall", {"session_id": "s", "question": text})
    assert text in made.messages[0].content.text
    get_prompt(text, {})


@entry("service: parameters and bodies", MEASURED_CHARS, Refusal, MnemosyneError)
def read_sent(text: str) -> None:
    for operation in OPERATIONS:
        for known in operation.query:
            assert len(_fault_of(partial(read_parameter, known, text))) < 1_000
    body = next(each.body for each in OPERATIONS if each.name == "prepare_turn")
    codec.decode(_bytes(json.dumps({"message": text, "turn_id": text[:99]})), body)
    codec.decode(_bytes(text), body)
