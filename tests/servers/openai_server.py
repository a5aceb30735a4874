"""Scripted answers to the prompts of selectors, planners and writing models, over the scripted server that is shipped.

A script says how each chat request is answered, in turn; the last step answers all later requests. Requests for embeddings take
no step. Besides the steps of `jacquard.testing.server`:

    first[:N]     the first N candidate ids of the pool (default 3), as a bare list
    match:WORD    the ids of at most five candidates whose text holds WORD, as a bare list
    ids:a,b       these ids, whatever the pool holds
    object[:N]    {"selected": [{"id", "why"}], "rationale"}
    prose[:N]     a list with talk and a markdown fence around it
    many[:N]      the first N ids (default 20): more than was asked for
    unknown       ids that no pool holds
    empty         []
    rubbish       words without any list
    writer        what was asked for: a rolling summary that names every turn it was given and goes on from the one before,
                  the memory of each turn of a talk, or a narrative over turns
    copier:W      what a rolling summary was shown, the summary before first, as it was shown; a memory or a narrative of
                  the words W
    slow:S        the answer of first:3, after S seconds
    status:N [T]  HTTP status N with an error body, whose message is T
    echo:N        HTTP status N with an error body that repeats the address, the headers and the messages of the request
    html          HTTP 200 with a body that is no JSON
"""

from __future__ import annotations

import html
import json
import re
import socket
import threading

from jacquard.testing.server import ScriptedRequest, ScriptedServer, Step

ITEM = re.compile(r'<item id="([^"]*)"[^>]*>(.*?)</item>', re.DOTALL)
SHIPPED = ("text", "unmetered", "cut", "hang", "drop")


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
    }
    return texts.get(name, json.dumps(ids[: 3 if name == "slow" else count], ensure_ascii=False))


def step_of(words: str, request: ScriptedRequest) -> Step:
    """Return the step that words of a script name for a request."""
    name, _, argument = words.partition(":")
    if name in SHIPPED:
        return Step.read(words, request)
    if name == "html":
        return Step(page="<html><body>It works!</body></html>")
    if name == "status":
        status, _, said = argument.partition(" ")
        return Step(status=int(status), **({"error": said} if said else {}))
    if name == "echo":
        sent = f"{request.path} {dict(request.headers)} {json.dumps(request.body, ensure_ascii=False)}"
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        return Step(status=int(argument), error=f"Incorrect API key provided: {key}. You sent {sent}")
    return Step(text=answer(words, request.text), seconds=float(argument) if name == "slow" else 0.0)


class OpenAiServer(ScriptedServer):
    """The server; a context manager. Its script may be changed at any time, and keeps the recorded requests."""

    def __init__(self, *script: str) -> None:
        super().__init__(self._take)
        self._script_words = list(script) or ["first:3"]
        self._holds_embeddings = False
        self._arrived = threading.Condition()

    @property
    def api_base(self) -> str:
        """The base address for a client."""
        return self.base_url

    def _take(self, request: ScriptedRequest) -> Step:
        with self._arrived:
            self._arrived.notify_all()
            if request.path.endswith("/embeddings"):
                self._arrived.wait_for(lambda: not self._holds_embeddings)
                return Step()
            words = self._script_words.pop(0) if len(self._script_words) > 1 else self._script_words[0]
        return step_of(words, request)

    def set_script(self, *steps: str) -> None:
        """Say how the coming requests are answered."""
        with self._arrived:
            self._script_words = list(steps)

    def wait_for_requests(self, count: int) -> None:
        """Block until `count` requests have come in altogether; a minute without them is a failure, not a hang."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, timeout=60), "no request came"

    def hold_embeddings(self) -> None:
        """Answer no request for embeddings until `let_go`."""
        self._holds_embeddings = True

    def let_go(self) -> None:
        """Answer what `hold_embeddings` kept waiting."""
        with self._arrived:
            self._holds_embeddings = False
            self._arrived.notify_all()

    def close(self) -> None:
        """Stop; requests that hang end without an answer."""
        self.let_go()
        super().close()


def closed_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
