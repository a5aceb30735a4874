"""OpenAI-compatible server that answers from a script, for examples and tests without a provider, a key or a network.

    python -m jacquard.testing.server --port 8099 'tool:weather {"city": "Oslo"}' 'text:It rains in Oslo.'

It serves `POST /v1/chat/completions`, `POST /v1/responses` and Anthropic's `POST /v1/messages`, complete and streamed, with
tools and usage, and `POST /v1/embeddings` (similar texts get similar vectors), on 127.0.0.1, and needs only the standard
library. Each request takes the next step of the script; the last step answers all later ones (with `--loop`, the script begins
again):

    text:...                   this text
    echo                       the text of the newest user message
    tool:NAME {JSON}           a call of this tool; several, separated by ` && `, are called at once
    slow:SECONDS text:...      another step, after a delay
    pause:SECONDS text:...     another step, with a delay between the events of its stream
    status:N NAME=VALUE ...    HTTP status N with an error body, and with these headers
    unmetered:...              a text without usage
    cut:...                    a text that the limit of tokens cut off
    page:...                   this text as an HTML page
    hang                       no answer while the server runs
    drop                       the connection is closed without an answer

In Python, `ScriptedServer("text:Hello.")` is a context manager that records every request; instead of steps it takes one
function from a request to its step.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from mnemosyne.values import dataclass

CHARS_PER_TOKEN = 4
"""Characters that count as one token in the usage of an answer."""
CHUNK_CHARS = 6
"""Characters of one chunk of a streamed answer."""
MODEL = "scripted"
"""Name of the model in an answer if the request names none."""
DIMENSIONS = 64
"""Length of an embedding."""


@dataclass(frozen=True, kw_only=True)
class SeenMessage:
    """One message of a request.

    `calls` are the names of the tools that it calls. `call_id` is the id of the tool call that it answers.
    """

    role: str
    text: str
    calls: tuple[str, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, kw_only=True)
class ScriptedRequest:
    """Request that the server received. `number` counts the requests from 0."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    number: int = 0

    @property
    def messages(self) -> tuple[SeenMessage, ...]:
        """Messages of the request in one form for all APIs, in their order."""
        return tuple(_read_messages(self.body))

    @property
    def text(self) -> str:
        """Texts of all messages, in their order."""
        return "\n".join(message.text for message in self.messages)

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that the request offers."""
        return tuple(str(tool.get("function", tool).get("name", "")) for tool in self.body.get("tools") or ())

    @property
    def is_stream(self) -> bool:
        """True if the answer is to be streamed."""
        return bool(self.body.get("stream"))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One answer of a script. `calls` has (name, arguments) of each tool call.

    `Step.read` makes a step from its text and raises ValueError if the text is not a step.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    status: int = 200
    seconds: float = 0.0
    is_metered: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    pause_seconds: float = 0.0
    error: str = "scripted failure"
    """Message of the error body, if `status` is not 200."""
    page: str = ""
    """Body of an HTML page that is sent in place of the answer."""
    is_cut: bool = False
    is_dropped: bool = False

    @classmethod
    def read(cls, step: str, request: ScriptedRequest | None = None) -> Step:
        """Return the step that a text describes. Raises ValueError if the text is not a step.

        `request` is the request to answer; `echo` repeats its newest user message.
        """
        name, _, rest = step.partition(":")
        if name == "slow":
            seconds, _, then = rest.partition(" ")
            after = cls.read(then, request)
            return replace(after, seconds=float(seconds))
        if name == "pause":
            seconds, _, then = rest.partition(" ")
            return replace(cls.read(then, request), pause_seconds=float(seconds))
        if name == "tool":
            return cls(calls=tuple(_read_call(each) for each in rest.split(" && ")))
        if name == "status":
            status, *headers = rest.split()
            return cls(status=int(status), headers=tuple(_read_header(each) for each in headers))
        if name == "echo":
            said = [message.text for message in request.messages if message.role == "user"] if request else []
            return cls(text=said[-1] if said else "")
        if name in ("text", "unmetered", "cut"):
            return cls(text=rest, is_metered=name != "unmetered", is_cut=name == "cut")
        if name == "page":
            return cls(page=rest)
        if step == "hang":
            return cls(seconds=math.inf)
        if step == "drop":
            return cls(is_dropped=True)
        raise ValueError(
            f"{step!r} is not a step; begin with text:, echo, tool:, slow:, pause:, status:, unmetered:, cut:, page:, hang or drop."
        )


def _read_header(words: str) -> tuple[str, str]:
    name, equals, value = words.partition("=")
    if not name or not equals:
        raise ValueError(f"{words!r} is not a header; write it as NAME=VALUE.")
    return name, value


def _read_call(words: str) -> tuple[str, Mapping[str, Any]]:
    name, _, arguments = words.strip().partition(" ")
    value = json.loads(arguments or "{}")
    if not name or not isinstance(value, dict):
        raise ValueError(f'{words!r} is not a call of a tool; write it as NAME {{"argument": 1}}.')
    return name, value


def _read_messages(body: Mapping[str, Any]) -> Iterator[SeenMessage]:
    for name in ("instructions", "system"):
        if body.get(name):
            yield SeenMessage(role="system", text=_read_content(body[name]))
    given = body.get("messages", body.get("input")) or ()
    items: Any = [{"role": "user", "content": given}] if isinstance(given, str) else given
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            yield SeenMessage(role="assistant", text="", calls=(str(item.get("name", "")),))
        elif kind == "function_call_output":
            yield SeenMessage(role="tool", text=_read_content(item.get("output")), call_id=str(item.get("call_id", "")))
        elif "role" in item:
            calls = tuple(str(call.get("function", {}).get("name", "")) for call in item.get("tool_calls") or ())
            role = "system" if item["role"] == "developer" else str(item["role"])
            text, call_id = _read_content(item.get("content")), str(item.get("tool_call_id") or "")
            yield SeenMessage(role=role, text=text, calls=calls, call_id=call_id)


def _read_content(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in content)


Script = Callable[[ScriptedRequest], Step | str]
"""Function that answers each request of a server."""


class ScriptedServer:
    """Model server that runs in threads and answers from a script.

    `steps` are texts as the docstring of the module describes them, or one function that answers each request.
    `requests` has all received requests, in order. `cancelled` has the numbers of the requests whose client
    disconnected during the streamed answer. Raises ValueError if a step cannot be read.
    """

    def __init__(self, *steps: str | Script, port: int = 0, loop: bool = False, verbose: bool = False) -> None:
        self._script = next((step for step in steps if callable(step)), None)
        self._steps = [step for step in steps if isinstance(step, str)] or ["echo"]
        for step in self._steps:
            Step.read(step)
        self._loop = loop
        self._taken = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.verbose = verbose
        self.requests: list[ScriptedRequest] = []
        self.cancelled: list[int] = []
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        """Port on 127.0.0.1 at which the server listens."""
        return int(self._http.server_address[1])

    @property
    def base_url(self) -> str:
        """Address for a client, including `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def set_script(self, *steps: str | Script) -> None:
        """Answer the next requests by another script, and forget the recorded requests."""
        with self._lock:
            self._script = next((step for step in steps if callable(step)), None)
            self._steps = [step for step in steps if isinstance(step, str)] or ["echo"]
            self._taken = 0
            self.requests = []

    def answer(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[ScriptedRequest, Step]:
        """Record a request. Return (request, step): the recorded request and the step that answers it."""
        with self._lock:
            request = ScriptedRequest(path=path, body=body, headers=headers, number=len(self.requests))
            self.requests.append(request)
            taken, self._taken = self._taken, self._taken + 1
            place = taken % len(self._steps) if self._loop else min(taken, len(self._steps) - 1)
            step: Step | str = self._steps[place]
        if self._script is not None:
            step = self._script(request)
        return request, step if isinstance(step, Step) else Step.read(step, request)

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait `seconds` and return False. If the server is closed before, return True at once."""
        return self._closing.wait(min(seconds, threading.TIMEOUT_MAX))

    def close(self) -> None:
        """Stop serving."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> ScriptedServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: ScriptedServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # Headers and body in one segment, because two would wait for a delayed ACK.
    server: _Server

    def do_GET(self) -> None:
        self._send_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        headers = {key.lower(): value for key, value in self.headers.items()}
        path = self.path.partition("?")[0]
        try:
            request, step = self.server.owner.answer(self.path, body, headers)
        except Exception as error:
            self._send_json(500, {"error": {"message": f"The script failed: {error}", "type": "server_error"}})
            raise
        if step.is_dropped or (step.seconds and self.server.owner.wait(step.seconds)):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if step.status != 200:
            self._send_json(step.status, {"error": {"message": step.error, "type": "server_error"}}, step.headers)
            return
        if step.page:
            self._send(200, step.page.encode(), "text/html")
            return
        if path.endswith("/embeddings"):
            self._send_json(200, _embeddings(body))
            return
        if path.endswith("/count_tokens"):
            self._send_json(200, {"input_tokens": len(request.text) // CHARS_PER_TOKEN})
            return
        shapes: dict[str, type[_ChatCompletions | _Responses | _Messages]]
        shapes = {"responses": _Responses, "messages": _Messages}
        shape = shapes.get(path.rpartition("/")[2], _ChatCompletions)(request, step)
        if request.is_stream:
            self._send_events(shape.events(), request, step)
        else:
            self._send_json(200, shape.whole())

    def _send_events(self, events: Iterator[str], request: ScriptedRequest, step: Step) -> None:
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for event in events:
                self.wfile.write(event.encode())
                self.wfile.flush()
                time.sleep(step.pause_seconds)
        except OSError:
            self.server.owner.cancelled.append(request.number)
        self.close_connection = True

    def _send_json(self, status: int, value: Any, headers: Sequence[tuple[str, str]] = ()) -> None:
        self._send(status, json.dumps(value, ensure_ascii=False).encode(), "application/json", headers)

    def _send(self, status: int, data: bytes, kind: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            for name, text in headers:
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        if self.server.owner.verbose:
            sys.stderr.write(f"{self.path}: {format % args}\n")


def embed(text: str) -> list[float]:
    """Return a unit vector of the hashed words and CJK characters of a text. Similar texts get similar vectors."""
    vector = [0.0] * DIMENSIONS
    for token in re.findall(r"[a-z0-9]+|[\u3400-\u9fff]", text.lower()):
        vector[int.from_bytes(hashlib.sha256(token.encode()).digest()[:4], "big") % DIMENSIONS] += 1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


def _embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    given = body.get("input", [])
    texts = [str(each) for each in ([given] if isinstance(given, str) else given)]
    rows = [{"object": "embedding", "index": place, "embedding": embed(text)} for place, text in enumerate(texts)]
    tokens = sum(len(text) // CHARS_PER_TOKEN for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": rows, "model": body.get("model", MODEL), "usage": usage}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + CHUNK_CHARS] for start in range(0, len(text), CHUNK_CHARS))


@dataclass(frozen=True)
class _Answer:
    """Common parts of an answer of each API."""

    request: ScriptedRequest
    step: Step

    @property
    def model(self) -> str:
        return str(self.request.body.get("model") or MODEL)

    @property
    def tokens(self) -> tuple[int, int]:
        calls = sum(len(json.dumps(dict(arguments))) + len(name) for name, arguments in self.step.calls)
        return len(self.request.text) // CHARS_PER_TOKEN, (len(self.step.text) + calls) // CHARS_PER_TOKEN + 1

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Return (id, name, arguments as JSON) of each call."""
        return [
            (f"call_{self.request.number}_{place}", name, json.dumps(dict(arguments), ensure_ascii=False))
            for place, (name, arguments) in enumerate(self.step.calls)
        ]


class _ChatCompletions(_Answer):
    """Forms of `/v1/chat/completions`."""

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        created, ident = int(time.time()), f"chatcmpl-{self.request.number}"
        return {"id": ident, "object": kind, "created": created, "model": self.model, "choices": choices}

    def _usage(self) -> dict[str, int]:
        asked, answered = self.tokens
        return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}

    def _tool_calls(self, *, with_index: bool) -> list[dict[str, Any]]:
        return [
            {
                **({"index": place} if with_index else {}),
                "id": ident,
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for place, (ident, name, arguments) in enumerate(self.calls)
        ]

    @property
    def _reason(self) -> str:
        return "tool_calls" if self.step.calls else "length" if self.step.is_cut else "stop"

    def whole(self) -> dict[str, Any]:
        calls = {"tool_calls": self._tool_calls(with_index=False)} if self.step.calls else {}
        message = {"role": "assistant", "content": self.step.text or (None if calls else ""), **calls}
        made = self._frame("chat.completion", [{"index": 0, "message": message, "finish_reason": self._reason}])
        return {**made, "usage": self._usage()} if self.step.is_metered else made

    def events(self) -> Iterator[str]:
        def event(delta: dict[str, Any], reason: str | None = None) -> str:
            made = self._frame("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": reason}])
            return f"data: {json.dumps(made, ensure_ascii=False)}\n\n"

        yield event({"role": "assistant", "content": ""})
        for piece in _pieces(self.step.text):
            yield event({"content": piece})
        if self.step.calls:
            yield event({"tool_calls": self._tool_calls(with_index=True)})
        yield event({}, self._reason)
        if (self.request.body.get("stream_options") or {}).get("include_usage") and self.step.is_metered:
            yield f"data: {json.dumps({**self._frame('chat.completion.chunk', []), 'usage': self._usage()})}\n\n"
        yield "data: [DONE]\n\n"


class _Messages(_Answer):
    """Forms of Anthropic's `/v1/messages`."""

    def _content(self) -> list[dict[str, Any]]:
        text: list[dict[str, Any]] = [{"type": "text", "text": self.step.text}] if self.step.text else []
        return text + [
            {"type": "tool_use", "id": ident, "name": name, "input": json.loads(arguments)}
            for ident, name, arguments in self.calls
        ]

    def whole(self) -> dict[str, Any]:
        asked, answered = self.tokens
        return {
            "id": f"msg_{self.request.number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self._content(),
            "stop_reason": "tool_use" if self.step.calls else "max_tokens" if self.step.is_cut else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": asked, "output_tokens": answered},
        }

    def events(self) -> Iterator[str]:
        def event(kind: str, **facts: Any) -> str:
            return f"event: {kind}\ndata: {json.dumps({'type': kind, **facts}, ensure_ascii=False)}\n\n"

        whole = self.whole()
        usage = {"input_tokens": whole["usage"]["input_tokens"], "output_tokens": 1}
        yield event("message_start", message={**whole, "content": [], "stop_reason": None, "usage": usage})
        yield event("ping")
        for place, block in enumerate(whole["content"]):
            empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
            yield event("content_block_start", index=place, content_block=empty)
            if block["type"] == "text":
                for piece in _pieces(block["text"]):
                    yield event("content_block_delta", index=place, delta={"type": "text_delta", "text": piece})
            else:
                words = json.dumps(block["input"], ensure_ascii=False)
                yield event(
                    "content_block_delta", index=place, delta={"type": "input_json_delta", "partial_json": words}
                )
            yield event("content_block_stop", index=place)
        ends = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield event("message_delta", delta=ends, usage={"output_tokens": whole["usage"]["output_tokens"]})
        yield event("message_stop")


class _Responses(_Answer):
    """Forms of `/v1/responses`."""

    def _output(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if self.step.text:
            content = [{"type": "output_text", "text": self.step.text, "annotations": []}]
            ident = f"msg_{self.request.number}"
            items.append(
                {"type": "message", "id": ident, "role": "assistant", "status": "completed", "content": content}
            )
        for ident, name, arguments in self.calls:
            call = {"id": f"fc_{ident}", "call_id": ident, "name": name, "arguments": arguments}
            items.append({"type": "function_call", "status": "completed", **call})
        return items

    def whole(self) -> dict[str, Any]:
        return self._response("completed", self._output(), with_usage=self.step.is_metered)

    def _response(self, status: str, output: list[dict[str, Any]], *, with_usage: bool) -> dict[str, Any]:
        asked, answered = self.tokens
        usage = {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answered,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked + answered,
        }
        return {
            "id": f"resp_{self.request.number}",
            "object": "response",
            "created_at": int(time.time()),
            "status": status,
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "temperature": 1.0,
            "top_p": 1.0,
            "usage": usage if with_usage else None,
        }

    def events(self) -> Iterator[str]:
        count = iter(range(1_000_000))

        def event(kind: str, **facts: Any) -> str:
            value = {"type": kind, "sequence_number": next(count), **facts}
            return f"event: {kind}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"

        yield event("response.created", response=self._response("in_progress", [], with_usage=False))
        for place, item in enumerate(self._output()):
            at = {"output_index": place, "item_id": item["id"]}
            if item["type"] == "message":
                part = item["content"][0]
                empty, inside = {**part, "text": ""}, {**at, "content_index": 0}
                yield event("response.output_item.added", output_index=place, item={**item, "content": []})
                yield event("response.content_part.added", part=empty, **inside)
                for piece in _pieces(part["text"]):
                    yield event("response.output_text.delta", delta=piece, logprobs=[], **inside)
                yield event("response.output_text.done", text=part["text"], logprobs=[], **inside)
                yield event("response.content_part.done", part=part, **inside)
            else:
                yield event("response.output_item.added", output_index=place, item={**item, "arguments": ""})
                yield event("response.function_call_arguments.delta", delta=item["arguments"], **at)
                yield event(
                    "response.function_call_arguments.done", arguments=item["arguments"], name=item["name"], **at
                )
            yield event("response.output_item.done", output_index=place, item=item)
        yield event("response.completed", response=self.whole())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a server from the command line until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8099, help="port on 127.0.0.1 (0 = any free one)")
    parser.add_argument("--loop", action="store_true", help="begin again after the last step")
    parser.add_argument("--quiet", action="store_true", help="do not log requests")
    parser.add_argument("steps", nargs="*", metavar="STEP", help="steps, one a request (default: echo)")
    chosen = parser.parse_args(arguments)
    try:
        server = ScriptedServer(*chosen.steps, port=chosen.port, loop=chosen.loop, verbose=not chosen.quiet)
    except ValueError as error:
        parser.error(str(error))
    with server:
        print(server.base_url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")


if __name__ == "__main__":
    main()
