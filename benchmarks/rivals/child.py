"""The process of one stack: reads orders as JSON lines from standard input and answers each with one line.

Times are taken here, around the stack's own call and nothing else. Whatever a library prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio
from anyio import to_thread

from benchmarks.conversation import utterances
from benchmarks.rivals.names import OURS, find_entrant
from benchmarks.rivals.stacks.stack import Stack, TurnRequest, estimate, find_missing, normalise_spaces
from evals.dataset import read_set
from evals.reporting.machine import memory_mb
from mnemosyne import Chain
from mnemosyne.formats.corpora.corpus import CorpusDocument

SEED = 7
_LOOPBACK = ("127.", "::1", "localhost")


class Child:
    """Runs the orders for one stack."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        before = memory_mb()
        began = perf_counter()
        self._cache = Path(order["cache"]) if order.get("cache") else None
        module, _, name = find_entrant(order["stack"]).place.partition(":")
        self._made_up = bool(order.get("made_up"))
        self._ours = order["stack"] == OURS
        kinds = import_module("benchmarks.rivals.model")
        kind = kinds.NotingEmbedder if self._ours else kinds.SharedModel
        self._model = kind(order["embedder"], library=order["library"], cache=self._cache)
        self._stack: Stack = getattr(import_module(module), name)(self._model)
        self._documents: Sequence[CorpusDocument] = ()
        self._talk: Sequence[CorpusDocument] = ()
        self._texts: dict[str, str] = {}
        self._played: list[str] = []
        self._asked = ""
        self.opened = {"import_seconds": perf_counter() - began, "import_mb": memory_mb() - before}

    async def warm(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Load the model, so that no figure holds that."""
        for text in ("warm", "warm the model with some more words"):
            if self._ours:
                await self._model.embed([text], "query")
            else:
                self._model.query(text)
        return {}

    async def index(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Take in a pool of a set, or made-up talk."""
        self._documents = await to_thread.run_sync(documents_of, order)
        self._talk = select_talk(self._documents, int(order["history"]))
        self._texts = {each.document_id: each.text for each in self._documents}
        self._played = []
        drawn, self._model.drawn = self._model.drawn, self._made_up or self._model.drawn
        self._model.cache = None if order.get("fresh") else self._cache
        before = memory_mb()
        began = perf_counter()
        await self._stack.index(self._documents, self._talk)
        seconds = perf_counter() - began
        # What is said from here on is embedded as a user's messages would be.
        self._model.drawn, self._model.cache = drawn, None
        return {
            "seconds": seconds,
            "documents": len(self._documents),
            "shown": [each.document_id for each in self._talk],
            "index_mb": memory_mb() - before,
        }

    async def embed(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Embed what a stack would index, and do nothing else: the bare embedder."""
        documents = await to_thread.run_sync(documents_of, order)
        texts = [f"{each.speaker}: {each.text}" for each in documents]
        self._model.cache = None
        began = perf_counter()
        if self._ours:
            await self._model.embed(texts, "document")
        else:
            self._model.documents(texts)
        return {"seconds": perf_counter() - began, "documents": len(documents)}

    async def turn(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Prepare a turn; `reply`: right after that has been committed, while the stack may still be busy with it."""
        ask = TurnRequest(query=order["query"], limit=int(order["limit"]), tokens=int(order["tokens"]))
        if reply := order.get("reply"):
            await self._commit(reply)
        await self._stack.discard()
        self._model.free, self._model.embed_ms = False, 0.0
        began, rested = perf_counter(), process_time()
        turn = await self._stack.turn(ask)
        took, worked = (perf_counter() - began) * 1000, (process_time() - rested) * 1000
        self._asked = ask.query
        if reply:
            await self._stack.settle()
        prompt = turn.text
        return {
            "ms": took,
            "processor_ms": worked,
            "embed_ms": self._model.embed_ms,
            "ranked": list(turn.ranked),
            "evidence": [[name, tokens] for name, tokens in turn.evidence],
            "prompt_tokens": estimate("\n".join(content for _, content in turn.messages)),
            "not_in_prompt": find_missing(turn, self._texts),
            "steps_ms": dict(turn.steps_ms),
            "talk_not_in_prompt": [text for text in self._newest() if normalise_spaces(text) not in prompt],
        }

    async def commit(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Commit a reply to the turn before, and wait until nothing of that goes on."""
        began, rested = perf_counter(), process_time()
        await self._commit(order["reply"])
        took = (perf_counter() - began) * 1000
        await self._stack.settle()
        whole, worked = (perf_counter() - began) * 1000, (process_time() - rested) * 1000
        return {"ms": took, "behind_ms": whole - took, "processor_ms": worked}

    async def _commit(self, reply: str) -> None:
        self._model.free = False
        await self._stack.commit(self._asked, reply)
        self._played += [self._asked, reply]

    def _newest(self) -> list[str]:
        """Return the messages that every prompt must show: the session so far, moved on by what was played."""
        said = [*(each.text for each in self._talk), *self._played]
        # A prompt that would begin with the assistant may leave that message out.
        return said[len(said) - max(len(self._talk) - bool(self._played), 0) :]

    async def recall(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Search, with a query vector that costs nothing."""
        self._model.free = True
        began, rested = perf_counter(), process_time()
        found = await self._stack.recall(order["query"], int(order["limit"]))
        took, worked = (perf_counter() - began) * 1000, (process_time() - rested) * 1000
        return {"ms": took, "processor_ms": worked, "found": len(found)}

    async def close(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Let the stack go."""
        await self._stack.close()
        return {}

    async def run_order(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one order and add what the process holds now."""
        orders = {"warm", "index", "embed", "turn", "commit", "recall", "close"}
        if order["do"] not in orders:
            raise ValueError(f"there is no order {order['do']!r}")
        answer: dict[str, Any] = await getattr(self, order["do"])(order)
        return {**answer, "memory_mb": memory_mb()}


def documents_of(order: Mapping[str, Any]) -> tuple[CorpusDocument, ...]:
    """Return the documents that an order names: `folder` and `session` of a set, or `talk`: so many made-up lines."""
    if "talk" in order:
        texts = utterances(int(order["talk"]), SEED)
        return tuple(
            CorpusDocument(
                document_id=f"m{place:07d}",
                chain=Chain.HISTORY,
                text=text,
                line=place + 1,
                turn=place,
                speaker="Mara" if place % 2 else "Wen",
            )
            for place, text in enumerate(texts)
        )
    corpus = read_set(Path(order["folder"])).corpus
    found = corpus.entries_for(order["session"])
    return tuple(islice(found, order["first"])) if order.get("first") else found


def select_talk(documents: Sequence[CorpusDocument], count: int) -> tuple[CorpusDocument, ...]:
    """Return the newest `count` lines of talk or a few fewer, so that they begin with the user (who spoke first)."""
    said = [each for each in documents if each.chain is Chain.HISTORY]
    newest = said[len(said) - min(count, len(said)) :]
    while newest and newest[0].speaker != said[0].speaker:
        newest = newest[1:]
    return tuple(newest)


def watch_network(found: list[str]) -> Callable[[str, tuple[Any, ...]], None]:
    """Return a hook that notes every address beyond this machine that anything connects to or looks up."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("socket.connect", "socket.getaddrinfo"):
            return
        address = arguments[1] if event == "socket.connect" else arguments[0]
        host = str(address[0]) if isinstance(address, tuple) else str(address)
        if isinstance(address, tuple | str) and not host.startswith((*_LOOPBACK, "/")):
            found.append(f"{event} {host}")

    return hook


async def serve(answers: int) -> None:
    """Obey until standard input ends."""
    reached: list[str] = []
    sys.addaudithook(watch_network(reached))
    child: Child | None = None
    while line := await to_thread.run_sync(sys.stdin.readline):
        order = json.loads(line)
        try:
            if child is None:
                child = Child(order)
                answer: dict[str, Any] = {**child.opened, "memory_mb": memory_mb()}
            else:
                answer = await child.run_order(order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"}
        answer["network"] = reached[:20]
        await to_thread.run_sync(_say, answers, json.dumps(answer, ensure_ascii=True) + "\n")


def _say(answers: int, text: str) -> None:
    with os.fdopen(answers, "wb", closefd=False) as stream:
        stream.write(text.encode("ascii"))


def main() -> None:
    """Keep standard output for answers, and serve."""
    warnings.simplefilter("ignore")
    answers = os.dup(1)
    os.dup2(2, 1)
    anyio.run(serve, answers)


if __name__ == "__main__":
    main()
