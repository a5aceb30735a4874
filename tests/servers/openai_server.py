"""An OpenAI-compatible server for tests and trials, with scripted behaviour and nothing but the standard library.

It speaks `POST /v1/chat/completions` and `POST /v1/embeddings` over real HTTP and records every request. A script says
how each chat request is answered, in turn; the last step stands for all later requests. At the command line:

    python tests/servers/openai_server.py --port 8099 --script slow:3 first:5

    first[:N]     the first N candidate ids of the pool (default 3), as a bare list
    match:WORD    the ids of at most five candidates whose text holds WORD, as a bare list
    ids:a,b       these ids, whatever the pool holds
    object[:N]    {"selected": [{"id", "why"}], "rationale"}
    prose[:N]     a list with talk and a markdown fence around it
    many[:N]      the first N ids (default 20): more than was asked for
    unknown       ids that no pool holds
    empty         []
    rubbish       words without any list
    text:...      exactly this text as the answer
    writer        what was asked for: a rolling summary that names every turn it was given and goes on from the one before,
                  the memory of each turn of a talk, or a narrative over turns
    copier:W      what a rolling summary was shown, the summary before first, as it was shown; a memory or a narrative of
                  the words W
    cut:T         the text T, which the limit of tokens cut off
    slow:S        the answer of first:3, after S seconds
    unmetered:T   the text T, and not a word of what it cost
    hang          no answer for as long as the server runs
    status:N [T]  HTTP status N with an error body, whose message is T
    echo:N        HTTP status N with an error body that repeats the address, the headers and the messages of the request
    html          HTTP 200 with a body that is no JSON
    drop          the connection is closed without an answer
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import math
import re
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

ITEM = re.compile(r'<item id="([^"]*)"[^>]*>(.*?)</item>', re.DOTALL)
DIMENSIONS = 64


@dataclass(frozen=True)
class Recorded:
    """One request as it came in."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def text(self) -> str:
        """All message contents, in order."""
        return "\n".join(str(message["content"]) for message in self.body.get("messages", ()))


def pool(text: str) -> list[tuple[str, str]]:
    """Return (id, preview) of every candidate in a selector's prompt, in its order."""
    return [(html.unescape(name), html.unescape(body)) for name, body in ITEM.findall(text)]


def written(prompt: str) -> str:
    """Return what a writing model would answer: it keeps what came before and names what is new."""
    asked = prompt.rpartition("</system_instruction>")[2]
    if "<new_talk>" in asked:
        before = re.search(r"<summary_so_far>\n(.*?)\n</summary_so_far>", asked, re.DOTALL)
        told = " ".join(f"Then came {name}." for name in re.findall(r'<turn id="([^"]*)">', asked))
        return " ".join(part for part in (html.unescape(before.group(1)) if before else "", told) if part)
    numbers = re.findall(r'<turn n="(\d+)">', asked)
    if "<talk>" not in asked:
        return json.dumps(
            {"title": f"Turns {numbers[0]} to {numbers[-1]}", "text": f"They lived {len(numbers)} turns."}
        )
    turns = [
        {
            "n": int(number),
            "summary": f"In turn {number} Reed kept the key.",
            "events": [{"type": "found", "summary": f"Fact {number}.", "participants": ["Reed"], "location": "tower"}],
            "chapter_end": False,
        }
        for number in numbers
    ]
    return json.dumps({"turns": turns})


def copied(prompt: str, words: str) -> str:
    """Return what a model would answer that shortens nothing and copies the entities that it is shown."""
    asked = prompt.rpartition("</system_instruction>")[2]
    if "<new_talk>" in asked:
        before = re.findall(r"<summary_so_far>\n(.*?)\n</summary_so_far>", asked, re.DOTALL)
        told = re.findall(r"<turn [^>]*>\n(.*?)\n</turn>", asked, re.DOTALL)
        return " ".join([*before, *(turn.replace("\n", " ") for turn in told)])
    numbers = re.findall(r'<turn n="(\d+)">', asked)
    if "<talk>" not in asked:
        return json.dumps({"title": words, "text": words})
    event = {"type": "found", "summary": words, "participants": [words], "location": words}
    return json.dumps(
        {"turns": [{"n": int(n), "summary": words, "events": [event], "chapter_end": False} for n in numbers]}
    )


def answer(step: str, prompt: str) -> str:
    """Return the text that a step answers to a prompt."""
    name, _, argument = step.partition(":")
    if name == "copier":
        return copied(prompt, argument)
    if name == "writer":
        return written(prompt)
    candidates = pool(prompt)
    ids = [entry_id for entry_id, _ in candidates]
    count = int(argument) if argument.isdigit() else 20 if name == "many" else 3
    if name == "match":
        return json.dumps([entry_id for entry_id, text in candidates if argument in text][:5], ensure_ascii=False)
    if name == "object":
        chosen = [{"id": entry_id, "why": "It names what was asked."} for entry_id in ids[:count]]
        return json.dumps({"selected": chosen, "rationale": "These explain the question."}, ensure_ascii=False)
    if name == "prose":
        listed = json.dumps(ids[:count], ensure_ascii=False)
        return f"Sure! I looked at all items [50 in all].\n```json\n{listed}\n```\nLet me know if you need more."
    texts = {
        "ids": json.dumps(argument.split(","), ensure_ascii=False),
        "unknown": '["no_such_entry", "nor_this_one"]',
        "empty": "[]",
        "rubbish": "I am sorry, I could not decide what matters here.",
        "text": argument,
    }
    return texts.get(name, json.dumps(ids[: 3 if name == "slow" else count], ensure_ascii=False))


def embed(text: str) -> list[float]:
    """Return a unit vector of hashed words and CJK characters: alike texts lie near each other."""
    vector = [0.0] * DIMENSIONS
    for token in re.findall(r"[a-z0-9]+|[\u3400-\u9fff]", text.lower()):
        place = int.from_bytes(hashlib.sha256(token.encode()).digest()[:4], "big") % DIMENSIONS
        vector[place] += 1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # headers and body in one segment: two would wait for a delayed ACK
    server: _Server

    def do_POST(self) -> None:
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        request = Recorded(path=self.path, body=body, headers={k.lower(): v for k, v in self.headers.items()})
        step = owner.take(request)
        if self.path.endswith("/embeddings"):
            owner.may_embed.wait()
            self._embeddings(body)
            return
        name, _, argument = step.partition(":")
        if name == "hang" or (name == "slow" and owner.closing.wait(float(argument))):
            owner.closing.wait()
            self.close_connection = True
        elif name == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif name == "status":
            status, _, said = argument.partition(" ")
            self._send(int(status), {"error": {"message": said or "scripted failure", "type": "server_error"}})
        elif name == "echo":
            sent = f"{self.path} {dict(self.headers)} {json.dumps(body, ensure_ascii=False)}"
            key = self.headers.get("Authorization", "").removeprefix("Bearer ")
            said = f"Incorrect API key provided: {key}. You sent {sent}"
            self._send(int(argument), {"error": {"message": said, "type": "invalid_request_error"}})
        elif name == "html":
            self._send_bytes(200, b"<html><body>It works!</body></html>", "text/html")
        elif name == "unmetered":
            self._chat(body, request.text, argument, metered=False)
        elif name == "cut":
            self._chat(body, request.text, argument, finish_reason="length")
        else:
            self._chat(body, request.text, answer(step, request.text))

    def _chat(
        self, body: dict[str, Any], prompt: str, content: str, *, metered: bool = True, finish_reason: str = "stop"
    ) -> None:
        sent, received = len(prompt) // 4, len(content) // 4
        usage = {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}
        self._send(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": body.get("model", "small"),
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}
                ],
                **({"usage": usage} if metered else {}),
            },
        )

    def _embeddings(self, body: dict[str, Any]) -> None:
        given = body.get("input", [])
        texts = [given] if isinstance(given, str) else list(given)
        rows = [{"object": "embedding", "index": i, "embedding": embed(str(t))} for i, t in enumerate(texts)]
        total = sum(len(str(text)) // 4 for text in texts)
        usage = {"prompt_tokens": total, "total_tokens": total}
        self._send(200, {"object": "list", "data": rows, "model": body.get("model", "embed"), "usage": usage})

    def _send(self, status: int, value: Any) -> None:
        self._send_bytes(status, json.dumps(value, ensure_ascii=False).encode(), "application/json")

    def _send_bytes(self, status: int, data: bytes, kind: str) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        if self.server.owner.verbose:
            sys.stderr.write(f"{self.path}: {format % args}\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: OpenAiServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class OpenAiServer:
    """The server, run in threads; a context manager. `script` may be changed at any time."""

    def __init__(self, *script: str, port: int = 0, verbose: bool = False) -> None:
        self.script: list[str] = list(script) or ["first:3"]
        self.requests: list[Recorded] = []
        self.closing = threading.Event()
        self.may_embed = threading.Event()
        self.may_embed.set()
        self.verbose = verbose
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def api_base(self) -> str:
        """The base address for a client."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def take(self, request: Recorded) -> str:
        """Record a request and return its step; only chat requests use the script up."""
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
            if request.path.endswith("/embeddings"):
                return "embeddings"
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def set_script(self, *steps: str) -> None:
        """Say how the coming requests are answered."""
        with self._lock:
            self.script = list(steps)

    def wait_for_requests(self, count: int) -> None:
        """Block until `count` requests have come in altogether; a minute without them is a failure, not a hang."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, timeout=60), "no request came"

    def hold_embeddings(self) -> None:
        """Answer no request for embeddings until `let_go`."""
        self.may_embed.clear()

    def let_go(self) -> None:
        """Answer what `hold_embeddings` kept waiting."""
        self.may_embed.set()

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def close(self) -> None:
        """Stop; requests that hang end without an answer."""
        self.closing.set()
        self.may_embed.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> OpenAiServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def closed_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8099, help="port on 127.0.0.1 (0 = any free one)")
    parser.add_argument("--script", nargs="+", default=["first:3"], metavar="STEP", help="steps, one a request")
    chosen = parser.parse_args(arguments)
    with OpenAiServer(*chosen.script, port=chosen.port, verbose=True) as server:
        sys.stderr.write(f"serving {' then '.join(chosen.script)} at {server.api_base}\n")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")


if __name__ == "__main__":
    main()
