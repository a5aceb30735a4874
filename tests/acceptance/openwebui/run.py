"""Plays chats in Open WebUI with the proxy as its server, by the calls that its page makes, and prints what holds.

`tests/acceptance/openwebui.sh` installs it and calls this.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx

from jacquard.testing.server import ScriptedServer
from tests.acceptance.proxy.run import Check, free_port, print_checks, running, serving

TURNS = 10
PLAIN = {
    "WEBUI_AUTH": "False",
    "WEBUI_SECRET_KEY": "acceptance",
    "OPENAI_API_KEY": "sk-player",
    "ENABLE_OLLAMA_API": "False",
    "ENABLE_FORWARD_USER_INFO_HEADERS": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "False",
    "OFFLINE_MODE": "True",
    "HF_HUB_OFFLINE": "1",
    "RAG_EMBEDDING_ENGINE": "openai",
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "true",
    "SCARF_NO_ANALYTICS": "true",
}


class Chat:
    """A chat of Open WebUI."""

    def __init__(self, web: httpx.Client) -> None:
        self._web, self._newest = web, ""
        history = {"messages": {}, "currentId": None}
        made = web.post("/api/v1/chats/new", json={"chat": {"title": "", "models": ["scripted"], "history": history}})
        self.chat_id = str(made.raise_for_status().json()["id"])

    def say(self, text: str) -> str:
        """Say something; return what the page gets."""
        said, reply = str(uuid.uuid4()), str(uuid.uuid4())
        message = {
            "id": said,
            "role": "user",
            "content": text,
            "parentId": self._newest or None,
            "childrenIds": [reply],
        }
        body = {
            "model": "scripted",
            "stream": False,
            "chat_id": self.chat_id,
            "id": reply,
            "parent_id": self._newest or None,
        }
        body |= {"user_message": {**message, "timestamp": 1}, "messages": [{"role": "user", "content": text}]}
        self._newest = reply
        answer = self._web.post("/api/chat/completions", json=body).raise_for_status().json()
        return str(answer["choices"][0]["message"]["content"])


def play(web: httpx.Client, server: ScriptedServer, proxy: str) -> Iterator[Check]:
    """Yield what is to hold of two chats and of a title."""
    signed = web.post("/api/v1/auths/signin", json={"email": "", "password": ""}).raise_for_status().json()
    web.headers["Authorization"] = f"Bearer {signed['token']}"
    names = [each["id"] for each in web.get("/api/models").json()["data"]]
    yield "the models are those of the model server", names == ["scripted"], str(names)
    one, other = Chat(web), Chat(web)
    said = []
    for number in range(1, TURNS + 1):
        told = f"The lens number {number} lies below step {number} of the tower."
        said += [told, one.say(told)]
    told = "Where does lens number 3 lie, below which step of the tower?"
    other.say(told)
    last = str(server.requests[-1].body["messages"])
    yield "another chat of the same person knows nothing of it", "lies below step" not in last, last[-300:]
    asked = len(server.requests)
    body = {"model": "scripted", "chat_id": one.chat_id, "messages": [{"role": "user", "content": said[0]}]}
    title = web.post("/api/v1/tasks/title/completions", json=body)
    yield "a title is asked for", title.status_code == 200 and len(server.requests) == asked + 1, title.text[:200]
    sessions = httpx.get(f"{proxy}/api/v1/sessions").json()["items"]
    yield (
        "each chat is one session, by its own id",
        sorted(sessions) == sorted([one.chat_id, other.chat_id]),
        str(sessions),
    )
    turns = httpx.get(f"{proxy}/api/v1/sessions/{one.chat_id}/turns?limit=100").json()["items"]
    turns.sort(key=lambda turn: turn["depth"])
    stored = [each["content"] for turn in turns for each in turn["messages"]]
    yield "what is stored is what was said, and the title is no turn", stored == said, str(stored)
    keys = {each.headers.get("authorization") for each in server.requests}
    yield "the player's key goes to the model server", keys == {"Bearer sk-player"}, str(keys)


def main() -> int:
    """Print the table; return 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="the environment with Open WebUI")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="jacquard-acceptance-"))
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [str(told.venv / "bin/open-webui"), "serve", "--host", "127.0.0.1", "--port", str(port)]
    with (
        ScriptedServer(lambda request: f"text:Noted, number {request.number}.") as server,
        serving(folder, server.base_url) as proxy,
    ):
        environment = {**os.environ, **PLAIN, "DATA_DIR": str(folder / "data"), "OPENAI_API_BASE_URL": f"{proxy}/v1"}
        (folder / "data").mkdir()
        with (
            running(command, f"{address}/health", folder / "openwebui.log", env=environment),
            httpx.Client(base_url=address, timeout=300) as web,
        ):
            checks = [(f"Open WebUI: {name}", *rest) for name, *rest in play(web, server, proxy)]
    return print_checks(checks, folder)


if __name__ == "__main__":
    sys.exit(main())
