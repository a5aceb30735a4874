"""Laws of streams that are read as they pass: however they are cut, the client sees the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filament import parse_reply
from jacquard.service.proxy.replies.answers import AnswerReader, ContentView, WholeView
from jacquard.service.proxy.replies.events import DONE, EventSplitter, data_of, value_of, write_event
from jacquard.service.proxy.requests.chat_request import Api

TEXTS = st.text(st.sampled_from(list("ab<>/&;\n 灯笼")), max_size=12)
UPDATE = '<state_update>[["SET", "hero.gold", 3]]</state_update>'
REPLIES = st.builds(
    lambda thought, said, update: f"<thought>{thought}</thought><content>{said}</content>{update}",
    st.text("abc 想", max_size=8),
    st.text("abc。灯 \n", min_size=1, max_size=20),
    st.sampled_from(["", UPDATE, f"\n{UPDATE}\n"]),
) | st.builds("{}{}".format, TEXTS, st.sampled_from(["", UPDATE]))


def cut(data, places):
    marks = sorted({min(place, len(data)) for place in places})
    return [data[start:end] for start, end in zip([0, *marks], [*marks, len(data)], strict=True)]


PLACES = st.lists(st.integers(0, 400), max_size=30)


def openai_stream(pieces):
    chunks = [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    chunks += [{"index": 0, "delta": {"content": piece}, "finish_reason": None} for piece in pieces]
    chunks += [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    events = [write_event({"id": "c", "model": "m", "choices": [chunk]}) for chunk in chunks]
    return b"".join([b": a comment\n\n", *events, b"data: [DONE]\n\n"])


def anthropic_stream(pieces):
    values = [{"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3}}}]
    values += [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
    values += [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces
    ]
    values += [{"type": "content_block_stop", "index": 0}, {"type": "message_stop"}]
    return b"".join(write_event(value, value["type"]) for value in values)


STREAMS = {Api.OPENAI: openai_stream, Api.ANTHROPIC: anthropic_stream}


def shown_by(api, body):
    text = ""
    for event in EventSplitter().take(body):
        data = data_of(event)
        value = value_of(data) if data and data != DONE else {}
        if api is Api.OPENAI:
            text += "".join(choice["delta"].get("content") or "" for choice in value.get("choices", ()))
        elif value.get("type") == "content_block_delta":
            text += value["delta"]["text"]
    return text


@pytest.mark.parametrize("api", list(Api))
@given(reply=REPLIES, pieces=PLACES, parts=PLACES)
def test_updates_are_taken_out_wherever_the_stream_is_cut(api, reply, pieces, parts):
    body = STREAMS[api](cut(reply, pieces))
    splitter, reader = EventSplitter(), AnswerReader(api, ContentView)
    passed = b"".join(reader.take(event) for part in cut(body, parts) for event in splitter.take(part))
    passed += splitter.end() + reader.end()
    assert reader.raw == reply
    assert reader.is_complete
    assert reader.shown == shown_by(api, passed)
    assert reader.shown.strip() == parse_reply(reply).content


@pytest.mark.parametrize("api", list(Api))
@given(reply=REPLIES, pieces=PLACES, parts=PLACES)
def test_what_is_shown_as_it_is_passes_byte_for_byte(api, reply, pieces, parts):
    body = STREAMS[api](cut(reply, pieces))
    splitter, reader = EventSplitter(), AnswerReader(api)
    passed = b"".join(reader.take(event) for part in cut(body, parts) for event in splitter.take(part))
    assert passed + splitter.end() + reader.end() == body
    assert reader.raw == reader.shown == reply


@given(st.binary(max_size=80) | st.text("data: \r\n", max_size=60).map(str.encode), PLACES)
def test_events_do_not_depend_on_how_a_stream_is_cut(body, places):
    whole, parts = EventSplitter(), EventSplitter()
    assert [*whole.take(body), whole.end()] == [
        *[event for part in cut(body, places) for event in parts.take(part)],
        parts.end(),
    ]


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
    {"type": "text", "text": "<thought>Where?</thought><content>Under "},
    {"type": "text", "text": "the stairs."},
]


@pytest.mark.parametrize("view", [WholeView, ContentView])
def test_a_reply_in_parts_is_read_and_shown_as_its_text(view):
    whole = "<thought>Where?</thought><content>Under the stairs."
    said = whole if view is WholeView else "Under the stairs."
    body = json.loads(json.dumps({"choices": [{"message": {"role": "assistant", "content": PARTS}}]}))
    reader = AnswerReader(Api.OPENAI, view)
    assert reader.take_whole(body) is (view is ContentView)
    shown = body["choices"][0]["message"]["content"]
    assert (reader.raw, reader.shown) == (whole, said)
    assert (shown[0], "".join(part["text"] for part in shown[1:])) == (PARTS[0], said)
    reader, seen = AnswerReader(Api.OPENAI, view), ""
    for place, part in enumerate(PARTS):
        chunk = {"index": 0, "delta": {"content": [part]}, "finish_reason": "stop" if place == 2 else None}
        passed = value_of(data_of(reader.take(write_event({"choices": [chunk]}))))["choices"][0]["delta"]["content"]
        seen += "".join(each.get("text", "") for each in passed)
    assert (reader.raw, reader.shown, seen) == (whole, said, said)


def test_in_anthropics_api_a_block_may_begin_with_its_text():
    reader = AnswerReader(Api.ANTHROPIC, WholeView)
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Under "}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "the stairs."}}
    for value in (block, delta):
        assert value_of(data_of(reader.take(write_event(value, value["type"])))) == value
    assert reader.raw == "Under the stairs."


def test_a_stream_that_ends_without_saying_so_shows_all_that_was_said():
    reader = AnswerReader(Api.OPENAI, ContentView)
    event = write_event({"id": "c", "choices": [{"index": 0, "delta": {"content": "<content>It rains. <"}}]})
    assert shown_by(Api.OPENAI, reader.take(event) + reader.end()) == "It rains. <"


def test_what_is_odd_in_a_stream_passes_as_it_is():
    reader = AnswerReader(Api.OPENAI, ContentView)
    odd = [b"data: nonsense\n\n", b"data: [1]\n\n", b"event: ping\n\n", b'data: {"choices": 3}\n\n', b"\n\n"]
    odd += [b'data: {"choices": [{"delta": {"content": 3}}, {"delta": null}]}\n\n', b'data: {"error": {"code": 1}}\n\n']
    assert [reader.take(event) for event in odd] == odd


def test_reading_is_linear_in_the_length_of_an_event():
    splitter = EventSplitter()
    for _ in range(20_000):
        assert list(splitter.take(b"x" * 10)) == []
    assert [len(event) for event in splitter.take(b"\n\n")] == [200_002]


def test_tools_usage_and_other_answers_are_read_from_a_whole_answer():
    reader = AnswerReader(Api.OPENAI, ContentView)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "model": "m",
        "choices": [{"message": {"content": None, "tool_calls": [call]}}, {"message": {"content": "second"}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "details": {"x": 1}},
    }
    assert not reader.take_whole(json.loads(json.dumps(body)))
    assert (reader.calls_tools, reader.raw, reader.usage) == (True, "", {"prompt_tokens": 5, "completion_tokens": 2})
