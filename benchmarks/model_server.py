"""A model server whose mode of answering is changed while it runs: the other side of the deadline benchmark.

It runs in a process of its own, so that it takes no time from the event loop that is measured, and speaks just enough
of `POST /v1/chat/completions`. A line on its standard input sets the mode; a line on standard output confirms it. Every
request is written to its log as it comes in. Standard library only; nothing of the product is imported.

A line `choose ["id", …]` makes it an oracle: from then on it chooses these, as far as they are shown to it.

    instant    an answer at once
    quick      an answer within 200 ms
    random     an answer after 0 to 5 s
    hang       no answer
    refuse     HTTP 401, 429, 500, or the connection dropped
    rubbish    an answer without a choice in it, or no JSON at all
    choose     the ids that were set by `choose`, after 0.4 s
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from random import Random
from typing import Any, TextIO

DELAYS = {"instant": 0.0, "quick": 0.2, "random": 5.0}
"""The longest delay of the modes that answer, in seconds."""
CHOOSE_SECONDS = 0.4
CHOOSE = "choose"
MOODS = ("instant", "quick", "random", "hang", "refuse", "rubbish")
_ITEM = re.compile(r'<item id="([^"]*)"')
_WIDE = re.compile("[\u3000-\u9fff]")
_RUBBISH = (
    "I would rather talk about the weather.",
    '["nobody", "nothing"]',
    '{"selected": "',
    "<html>It works!</html>",
)


class FaultyServer:
    """Answers in the way that the present mode says; `seed` fixes delays and faults in the order of requests."""

    def __init__(self, mood: str, seed: int, log: TextIO) -> None:
        self.mood = mood
        self.wanted: tuple[str, ...] = ()
        self._random = Random(seed)
        self._log = log

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until either side ends it."""
        try:
            while (prompt := await _request(reader)) is not None:
                said = {"at": time.time(), "mood": self.mood, "chars": len(prompt), "tokens": _tokens(prompt)}
                self._log.write(json.dumps(said) + "\n")
                self._log.flush()
                if not await self._answer(prompt, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _answer(self, prompt: str, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is to end."""
        random, mood = self._random, self.mood
        if mood == "hang":
            await asyncio.sleep(3600)
        if mood in DELAYS:
            await asyncio.sleep(random.uniform(0.0, DELAYS[mood]))
            return await _send(writer, 200, _completion(prompt, json.dumps(_ITEM.findall(prompt)[:3])))
        if mood == CHOOSE:
            await asyncio.sleep(CHOOSE_SECONDS)
            shown = set(_ITEM.findall(prompt))
            return await _send(
                writer, 200, _completion(prompt, json.dumps([each for each in self.wanted if each in shown][:5]))
            )
        if mood == "refuse":
            status = random.choice((401, 429, 500, 0))
            return status > 0 and await _send(writer, status, {"error": {"message": "refused", "type": "refused"}})
        text = random.choice(_RUBBISH)
        return await _send(writer, 200, text if text.startswith("<html>") else _completion(prompt, text))


async def _request(reader: asyncio.StreamReader) -> str | None:
    """Read one request and return the text of its messages; None at the end of the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"content-length:\s*(\d+)", head, re.IGNORECASE)
    body = json.loads(await reader.readexactly(int(found.group(1)) if found else 0) or b"{}")
    return "\n".join(str(message.get("content")) for message in body.get("messages", ()))


def _tokens(text: str) -> int:
    """Return about what a tokenizer counts: a token a Chinese character, one for four others."""
    wide = len(_WIDE.findall(text))
    return wide + (len(text) - wide) // 4


def _completion(prompt: str, content: str) -> dict[str, Any]:
    asked, answered = _tokens(prompt), _tokens(content)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "moody",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
    }


async def _send(writer: asyncio.StreamWriter, status: int, value: dict[str, Any] | str) -> bool:
    page = isinstance(value, str)
    data = (value if isinstance(value, str) else json.dumps(value)).encode()
    kind = "text/html" if page else "application/json"
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()
    return True


async def _read_moods(server: FaultyServer) -> None:
    """Read modes from standard input until it ends; each is confirmed by a line."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        mood, _, value = line.strip().partition(" ")
        if mood == CHOOSE:
            server.wanted, server.mood = tuple(json.loads(value)), CHOOSE
        elif mood in MOODS:
            server.mood = mood
        print(server.mood, flush=True)


async def _main(port: int, mood: str, seed: int, log: TextIO) -> None:
    server = FaultyServer(mood, seed, log)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await _read_moods(server)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (0 = any free one)")
    parser.add_argument("--mood", choices=MOODS, default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=argparse.FileType("a"), required=True, help="where every request is written")
    chosen = parser.parse_args()
    asyncio.run(_main(chosen.port, chosen.mood, chosen.seed, chosen.log))


if __name__ == "__main__":
    main()
