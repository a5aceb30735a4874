"""Writes an answer that the engine gives without a model, in the form of a model server's answer."""

from __future__ import annotations

from typing import Any

from jacquard.service.proxy.replies.events import DONE, write_event
from jacquard.service.proxy.requests.chat_request import Api, write_json


def write_answer(api: Api, ident: str, model: str, text: str, *, is_stream: bool) -> bytes:
    """Return the body of an answer that contains `text`: a stream of events if `is_stream`, else JSON. `ident` is the id of the
    answer.

    The usage in the answer is 0, because no model was called.
    """
    write = _write_openai if api is Api.OPENAI else _write_anthropic
    return write(ident, model, text, is_stream=is_stream)


def _write_openai(ident: str, model: str, text: str, *, is_stream: bool) -> bytes:
    said = {"role": "assistant", "content": text}
    frame = {"id": ident, "created": 0, "model": model}
    if not is_stream:
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        return write_json({**frame, "object": "chat.completion", "choices": [choice], "usage": usage})
    frame = {**frame, "object": "chat.completion.chunk"}
    chunks = ({"delta": said, "finish_reason": None}, {"delta": {}, "finish_reason": "stop"})
    events = [write_event({**frame, "choices": [{"index": 0, **chunk}]}) for chunk in chunks]
    return b"".join([*events, f"data: {DONE}\n\n".encode()])


def _write_anthropic(ident: str, model: str, text: str, *, is_stream: bool) -> bytes:
    usage = {"input_tokens": 0, "output_tokens": 0}
    frame = {"id": ident, "type": "message", "role": "assistant", "model": model, "stop_sequence": None, "usage": usage}
    block = {"type": "text", "text": text}
    if not is_stream:
        return write_json({**frame, "content": [block], "stop_reason": "end_turn"})
    ends = {"stop_reason": "end_turn", "stop_sequence": None}
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**frame, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ends, "usage": {"output_tokens": 0}},
        {"type": "message_stop"},
    ]
    return b"".join(write_event(value, value["type"]) for value in values)
