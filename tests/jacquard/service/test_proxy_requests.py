"""Where our text goes into a client's call, and that nothing which the client sent is changed; rules for calls that are no turn."""

from __future__ import annotations

import json

import pytest

from jacquard import ConfigError
from jacquard.config.service import ProxySettings
from jacquard.service.proxy.requests.chat_request import Api, OurText, read_request, with_our_text
from jacquard.service.proxy.requests.headers import headers_for_client, headers_for_upstream
from jacquard.service.proxy.requests.rules import find_rule, load_rules

OURS = OurText(lasting="LASTING", changing="CHANGING")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}


def system(text):
    return {"role": "system", "content": text}


def user(content):
    return {"role": "user", "content": content}


CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "rain"}
CHAT = [
    system("card"),
    system("scenario"),
    {"role": "assistant", "content": "Hi.", "name": "Mia"},
    user("one"),
    CALL,
    RESULT,
    {"role": "assistant", "content": "ok"},
    system("author's note"),
    user([{"type": "text", "text": "two"}, IMAGE]),
    system("post-history"),
]


def added(messages, place, api=Api.OPENAI, **more):
    body = {"model": "m", "messages": messages, "x": [1.0, None, "\ud83d"], **more}
    request = read_request(api, json.dumps(body).encode())
    sent = json.loads(with_our_text(request, OURS, place))
    assert {**sent, "messages": [], "system": 0} == {**body, "messages": [], "system": 0}
    return sent


@pytest.mark.parametrize(
    ("place", "spot"), [("after_system", 3), ("before_last_user", 9), ("depth:1", 9), ("depth:3", 7), ("depth:99", 3)]
)
def test_our_text_is_added_and_the_rest_stays(place, spot):
    messages = added(CHAT, place)["messages"]
    assert messages[2] == system("LASTING")
    assert messages[spot] == system("CHANGING")
    assert [each for each in messages if each not in (system("LASTING"), system("CHANGING"))] == CHAT


def test_a_call_is_never_parted_from_its_results():
    messages = added(CHAT, "depth:4")["messages"]
    assert messages[5:8] == [system("CHANGING"), CALL, RESULT]


def test_with_results_of_tools_our_text_stays_where_it_was():
    first = added(CHAT[:4], "before_last_user")["messages"]
    later = added(CHAT[:6], "before_last_user")["messages"]
    assert later[: len(first)] == first


def test_in_anthropics_api_our_text_is_a_part_beside_the_clients():
    parts = [{"type": "text", "text": "two"}, {"type": "image", "source": {"type": "base64", "data": "AAAA"}}]
    messages = [user("one"), {"role": "assistant", "content": "ok"}, user(parts)]
    sent = added(messages, "before_last_user", Api.ANTHROPIC, system="card")
    text = [{"type": "text", "text": each} for each in ("card", "LASTING", "CHANGING")]
    assert sent["system"] == text[:2]
    assert sent["messages"] == [*messages[:2], user([text[2], *parts])]
    own = [{"type": "text", "text": "card", "cache_control": {"type": "ephemeral"}}]
    sent = added(messages, "after_system", Api.ANTHROPIC, system=own)
    assert (sent["system"], sent["messages"]) == ([*own, *text[1:]], messages)


@pytest.mark.parametrize("blank", ["", " \n", None, []])
def test_in_anthropics_api_a_blank_text_becomes_no_part(blank):
    sent = added([user("one")], "after_system", Api.ANTHROPIC, system=blank)
    assert [part["text"] for part in sent["system"]] == ["LASTING", "CHANGING"]
    sent = added([user(blank), {"role": "assistant", "content": "ok"}], "before_last_user", Api.ANTHROPIC)
    assert sent["messages"][0] == user([{"type": "text", "text": "CHANGING"}])


def test_merged_into_the_clients_first_system_message():
    sent = added(CHAT, "merged")["messages"]
    assert sent == [system("card\n\nLASTING\n\nCHANGING"), *CHAT[1:]]
    assert added([user([IMAGE])], "merged")["messages"][0]["content"][1:] == [IMAGE]


def test_in_anthropics_api_results_of_tools_stay_first():
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]}
    result = user([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "rain"}]}])
    sent = added([user("one"), use, result], "before_last_user", Api.ANTHROPIC)
    assert sent["messages"][1:] == [use, result]
    request = read_request(Api.ANTHROPIC, json.dumps({"messages": [user("one"), use, result]}).encode())
    assert [each["role"] for each in request.messages] == ["user", "assistant", "tool"]
    assert request.tail[1] == {"role": "tool", "tool_call_id": "t", "content": "rain"}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"messages": 1}', b'{"messages": ["x"]}', b"[" * 100_000])
def test_what_is_no_call_is_left_to_the_model_server(data):
    assert read_request(Api.OPENAI, data) is None


@pytest.mark.parametrize("body", [{"messages": [user(5)]}, {"messages": [user({})]}, {"messages": [], "system": 5}])
def test_content_that_is_neither_text_nor_a_list_is_left_to_the_model_server(body):
    assert read_request(Api.ANTHROPIC, json.dumps(body).encode()) is None


def test_headers_of_the_client_go_up_and_those_of_this_service_do_not():
    sent = {
        "Host": "127.0.0.1",
        "Authorization": "Bearer x",
        "OpenAI-Organization": "o",
        "Cookie": "c",
        "Connection": "keep-alive, X-Once",
        "X-Once": "1",
        "X-Jacquard-Session": "tea",
        "Content-Length": "3",
        "Accept-Encoding": "br",
        "Origin": "http://127.0.0.1:8000",
    }
    assert headers_for_upstream(sent.items(), None) == [
        ("authorization", "Bearer x"),
        ("openai-organization", "o"),
        ("accept-encoding", "identity"),
    ]
    received = {"X-RateLimit-Limit": "9", "Set-Cookie": "a", "Access-Control-Allow-Origin": "*", "Content-Length": "1"}
    assert headers_for_client(received.items()) == [("x-ratelimit-limit", "9")]


def rule_of(text, rules=None, headers=None, **body):
    data = json.dumps({"messages": [system("card"), user("Hello."), *text], **body}).encode()
    found = find_rule(rules or load_rules(None), read_request(Api.OPENAI, data), headers or {})
    return found and found.name


@pytest.mark.parametrize(
    ("last", "name"),
    [
        (
            system("[Write your next reply from the point of view of Ada, using the chat history so far"),
            "SillyTavern, imp",
        ),
        (
            system("Ignore previous instructions. Summarize the most important facts and events in the story so far."),
            "SillyTavern, ext",
        ),
        (system("[Write the next reply only as Bob.]"), "SillyTavern, next"),
        (user("### Task:\nGenerate a concise, 3-5 word title with an emoji"), "Open WebUI"),
        (user("### Task:\nGenerate a concise title summarizing the chat history.\n### Guidelines:"), "Open WebUI"),
        (user("使用四到五个字直接返回这句话的简要主题"), "titles and summ"),
    ],
)
def test_shipped_rules_know_calls_that_are_no_turn(last, name):
    assert rule_of([last]).startswith(name)


def test_a_message_alone_may_be_a_test():
    data = json.dumps({"messages": [user("Hi")], "max_tokens": 300}).encode()
    assert find_rule(load_rules(None), read_request(Api.OPENAI, data), {}).name == "SillyTavern, test message"


def test_what_a_player_says_is_a_turn():
    assert rule_of([user("Please summarize what the innkeeper said.")], max_tokens=300) is None
    assert rule_of([system("[Keep replies short.]")]) is None
    assert rule_of([user("Hi")]) is None
    assert rule_of([], headers={"x-jacquard-pass": "1"}) == "asked for by the client"


def test_rules_of_a_file_are_used_in_their_order(tmp_path):
    file = tmp_path / "rules.yaml"
    text = "rules:\n  - {name: story, treat: turn, system: CARD}\n  - {name: rest, last_role: user}\n"
    file.write_text(text, encoding="utf-8")
    assert rule_of([], load_rules(str(file))) == "story"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rules: 3", "there is no list `rules`"),
        ("rules: [{max_tokens: 1}]", "rule 1 has no name"),
        ("rules: [{name: a}]", "has no condition"),
        ("rules: [{name: a, last_mesage: b}]", "no condition 'last_mesage'"),
        ("rules: [{name: a, max_tokens: b}]", "must be a whole number"),
        ("rules: [{name: a, system: ['']}]", "none of them empty"),
        ("rules: [", "rules.yaml"),
    ],
)
def test_faults_of_a_file_of_rules_are_named(tmp_path, text, fault):
    file = tmp_path / "rules.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=fault):
        load_rules(str(file))


@pytest.mark.parametrize("place", ["depth:", "depth:-1", "end", "", "depth:1\n"])
def test_a_place_that_there_is_not_is_refused(place):
    with pytest.raises(ConfigError, match="after_system, before_last_user, merged or depth:N"):
        ProxySettings(place=place)
