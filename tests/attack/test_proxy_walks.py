"""The law of the proxy: state and memory are those of the true history, whatever a client shows of it.

A walk is a conversation of one or two clients with random histories (edit, undo, swipe, delete, branch, side calls, restart of the
service) that they show in random ways. After each call the state, and what is on the path that recall reads, equal the oracle's.

    python -m tests.attack walks
    python tests/attack/test_proxy_walks.py 1000      # a table: walks and findings by what they do
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import anyio
import httpx
import pytest
from chat_clients import Author, Client, View
from long_form import LongForm

from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

SHORT = 30
CALLS = 9
COINS = 12
WORLD = """\
id: light
title: The light
locale: en
state: {hero: {id: hero, name: Anna, coins: 12}}
"""
FACT = re.compile(r"fact\d+x\d+x")
VIEWS = (
    *("front", "pinned", "note", "strict", "semi", "single", "pictures", "thinking", "format", "names", "prefill"),
    "instruction",
)
STEPS = (
    "edit",
    "edit back",
    "undo",
    "swipe",
    "swipe back",
    "delete",
    "branch",
    "side call",
    "model",
    "restart",
    "view",
)


class Service:
    """A service over one SQLite store, and a model server that says what it is told to."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        world = folder / "world"
        world.mkdir()
        (world / "world.yaml").write_text(WORLD, encoding="utf-8")
        self._settings = ServiceSettings(
            store=str(folder / "store"), upstream=server.base_url, embedder="none", world=str(world)
        )
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        app = build_app(self._settings)
        await self._stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app=app)
        self._http = await self._stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        )

    async def stop(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    async def post(self, body: dict[str, object], session: str) -> httpx.Response:
        headers = {"X-Jacquard-Session": session} if session else {}
        answer = await self._http.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert "x-jacquard-error" not in answer.headers, answer.headers["x-jacquard-error"]
        return answer

    async def state(self, session: str) -> int:
        found: int = (await self._http.get(f"/api/v1/sessions/{session}/state")).json()["hero"]["coins"]
        return found

    async def facts(self, session: str) -> list[str]:
        """Return the tokens on the active path, in order."""
        page = (await self._http.get(f"/api/v1/sessions/{session}/messages?limit=200")).json()
        return [fact for each in page for fact in FACT.findall(each["content"])[:1]]


class Walk:
    """One walk: what is done in each step is drawn by its number."""

    def __init__(self, number: int, service: Service, say: list[str]) -> None:
        self.random, self.author = Random(number), Author(Random(number + 1), number)
        self.service, self.say = service, say
        self.session = f"walk-{number}" if self.random.random() < 0.5 else ""
        self.clients = [Client(view=self._view())]
        self.found = ""
        self.log: list[str] = []

    @property
    def kinds(self) -> list[str]:
        return [each.split(":")[0] for each in self.log]

    def _view(self, **more: object) -> View:
        view, kind = View(), self.random.choice(("plain", *VIEWS))
        if kind in ("front", "pinned"):
            view.last = self.random.choice((6, 8))
            view.pinned = self.random.choice((1, 2, 3)) if kind == "pinned" else 0
        elif kind == "note":
            view.note_depth, view.merge = self.random.randrange(5), "semi"
        elif kind in ("strict", "semi", "single"):
            view.merge = kind
        elif kind == "pictures":
            view.pictures = self.random.choice(("newest", "detail", "encoded"))
        elif kind == "format":
            view.format = self.random.choice(("curly", "markup", "spaces"))
        elif kind == "instruction":
            view.instruction = self.random.choice(("user", "system"))
        else:
            setattr(view, kind, True) if kind != "plain" else None
        self.last_view = kind
        return view

    async def run(self) -> None:
        client = self.clients[0]
        self.log.append(f"{self.last_view}:first")
        await self.send(client)
        for _ in range(CALLS - 1):
            client = self.random.choice(self.clients)
            if self.random.random() < 0.6:
                await self.step(client, self.random.choice(STEPS))
            await self.send(client)

    async def send(self, client: Client) -> None:
        """Send a new message of the user and keep the reply."""
        # Of words that everybody says alone nothing can be told.
        plain = self.random.random() < 0.2 and len(client.items) > 4 and bool(client.items[-1].fact)
        client.items.append(self.author.user(plain=plain))
        await self.answer(client, plain=plain)

    async def answer(self, client: Client, *, plain: bool = False) -> None:
        reply = self.author.reply(plain=plain)
        update = f'<state_update>[["ADD", "hero.coins", {reply.gain}]]</state_update>' if reply.gain else ""
        self.say[0] = f"<content>{reply.text}</content>{update}"
        body = {"model": client.view.model, "messages": client.view.show(client.items)}
        answer = await self.service.post(body, self.session)
        receipt = answer.headers.get("x-jacquard-receipt", "")
        assert receipt, f"no turn: {dict(answer.headers)}"
        session = receipt.split("/sessions/")[1].split("/")[0]
        self.found = self.found or session
        client.items.append(reply)
        self.log.append(f"call:{answer.headers.get('x-jacquard-alignment')}")
        assert session == self.found, "the conversation went on in another session"
        state, facts = await self.service.state(session), await self.service.facts(session)
        assert state == COINS + client.gain, f"the state is {state - COINS}, not {client.gain}"
        assert facts == client.facts, f"on the path are {facts}, not {client.facts}"

    async def step(self, client: Client, name: str) -> None:
        """Do one thing with a client's history, its view, or the service."""
        items, random = client.items, self.random
        self.log.append(name)
        # If all is one message, nothing shows where the card ends and an unknown first message begins, and a chat of one exchange
        # is known by its reply alone.
        first = (1 if len(items) > 2 else 2) if client.view.merge == "single" else 0
        visible = [at for at in self._visible(client) if at >= first]
        if name == "edit" and visible:
            at = random.choice(visible)
            client.former.append([*items])
            items[at] = self.author.edited(items[at])
        elif name == "edit back" and client.former:
            former = client.former.pop()
            changed = {at for at, (old, new) in enumerate(zip(former, items, strict=False)) if old != new}
            # Nobody learns of an edit of what is not shown. What was deleted or undone since does not come back with it.
            if len(former) <= len(items) and len(changed) == 1 and changed.issubset(visible):
                client.items = [*former, *items[len(former) :]]
        elif name == "undo" and len(items) > 4:
            client.items = items[: -random.choice((2, 2, 4))]
        elif name in ("swipe", "swipe back") and (len(items) > 2 or client is self.clients[0]):
            old = items.pop()
            await self.answer(client)
            if name == "swipe back":
                client.items[-1] = old
        elif name == "delete":
            self._delete(client)
        elif name == "branch" and len(self.clients) < 2 and len(items) > 4 and not self._is_cut(client):
            at = random.randrange(2, len(items), 2)
            self.clients.append(Client(items=items[:at], view=View()))
        elif name == "side call":
            await self._call_aside(client)
        elif name == "model":
            client.view.model = random.choice(("m", "n", "o"))
        elif name == "restart":
            await self.service.stop()
            await self.service.start()
        elif name == "view":
            client.view = self._view()
            self.log.append(f"{self.last_view}:view")

    def _is_cut(self, client: Client) -> bool:
        return bool(client.view.last) and len(client.items) + 1 > client.view.last + client.view.pinned

    def _visible(self, client: Client) -> list[int]:
        """Return the places of messages that the next call shows, and that tell themselves apart."""
        view, count = client.view, len(client.items)
        start = max(count + 2 - view.last, 0) if view.last else 0
        return [at for at in range(count) if client.items[at].fact and (at >= start or at < view.pinned)]

    def _delete(self, client: Client) -> None:
        """Delete a message or an exchange of the newer half, in a history that is shown whole."""
        count = len(client.items)
        places = [at for at in range(max(4, count // 2), count - 2) if client.items[at].fact]
        if self._is_cut(client) or client.view.merge or not places:
            return
        at = self.random.choice(places)
        size = 2 if client.items[at].is_user and self.random.random() < 0.6 else 1
        if all(each.fact for each in client.items[at : at + size + 1]):
            del client.items[at : at + size]

    async def _call_aside(self, client: Client) -> None:
        """Ask for a title, as clients do in the background."""
        asked = {"role": "user", "content": "### Task:\nGenerate a concise, 3-5 word title with an emoji."}
        self.say[0] = "A title"
        answer = await self.service.post(
            {"model": "m", "messages": [*client.view.show(client.items), asked]}, self.session
        )
        assert "x-jacquard-pass" in answer.headers


async def _play(number: int, log: list[Walk]) -> None:
    say = [""]
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedServer(lambda request: f"text:{say[0]}") as server,
    ):
        service = Service(Path(folder), server)
        await service.start()
        walk = Walk(number, service, say)
        log.append(walk)
        try:
            await walk.run()
        except AssertionError as error:
            raise AssertionError(f"{error} after {walk.log}") from None
        finally:
            await service.stop()


def check(number: int) -> None:
    """Walk one walk."""
    anyio.run(_play, number, [])


@pytest.mark.parametrize("number", range(SHORT))
def test_state_and_memory_are_those_of_the_true_history(number):
    check(number)


WALKS = LongForm(count=10_000, check=check, chunk=50)


def _table(count: int, first: int) -> None:
    """Print how many walks do each thing, and how many of them have a finding."""
    done, bad, shown = Counter[str](), Counter[str](), 0
    for number in range(first, first + count):
        walks: list[Walk] = []
        try:
            anyio.run(_play, number, walks)
            fails = False
        except Exception as error:
            fails, shown = True, shown + 1
            print(number, f"{type(error).__name__}: {error}"[:700], flush=True)
        kinds = {*walks[0].kinds}
        done.update(kinds)
        bad.update(kinds if fails else ())
    for kind, walked in sorted(done.items()):
        print(f"{kind:14} {walked:6} {bad[kind]:6}")
    print(f"{'all':14} {count:6} {shown:6}")


if __name__ == "__main__":
    _table(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
