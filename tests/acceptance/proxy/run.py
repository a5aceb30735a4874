"""Runs other programs against the proxy, with a scripted model server behind it, and prints what holds of what they show.

`tests/acceptance/proxy.sh` fetches the programs and calls it; `--help` lists what it needs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from jacquard.testing.server import ScriptedRequest, ScriptedServer

HERE = Path(__file__).parent
FACT = "The silver key lies under the third step of the mill."
PASSWORD = "heliotrope"
SCENES = ("whole", "strict", "group")
CONTEXT_TOKENS = "2200"
FILLER = "The moss is soft here, the light falls green through the leaves, and far away a stream speaks to itself. " * 3
Check = tuple[str, bool, str]


def answer_client(request: ScriptedRequest) -> str:
    """Return the step of a call of the `openai` package."""
    said = [message.text for message in request.messages if message.role == "user"][-1]
    if said.startswith("use the tool") and request.messages[-1].role != "tool":
        return 'tool:weather {"city": "Oslo"}'
    steps = {
        "fail with 429": "status:429 retry-after=7",
        "fail with 500": "status:500",
        "go on slowly": "pause:0.1 text:" + "and so it went on, " * 60,
    }
    return steps.get(said, "text:It rains in Oslo.")


def answer_player(request: ScriptedRequest) -> str:
    """Return the step of a call of SillyTavern."""
    said = [message.text for message in request.messages if message.role == "user"]
    if said and said[-1] == "Where do you keep the silver key?":
        return f"text:{FACT} {FILLER}"
    return f"text:Reply {request.number}. {FILLER}"


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextmanager
def running(command: list[str], address: str, log: Path, **options: Any) -> Iterator[None]:
    """Run a server until it answers at `address`; RuntimeError with the end of its log where it does not."""
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, **options)
    try:
        until = time.monotonic() + 900
        while True:
            try:
                httpx.get(address, timeout=5)
                break
            except httpx.HTTPError:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{command[:3]} does not answer: {log.read_text()[-1000:]}") from None
                time.sleep(0.5)
        yield
    finally:
        process.terminate()
        process.wait(120)


@contextmanager
def serving(folder: Path, upstream: str) -> Iterator[str]:
    """Run `jacquard operate serve` with a store in the folder; give its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "jacquard", "operate", "serve", "--port", str(port), "--embedder", "none"]
    command += ["--store", str(folder / "store"), "--upstream", upstream]
    with running(command, f"{address}/healthz", folder / "service.log"):
        yield address


def run_node(script: str, **environment: str) -> list[dict[str, Any]]:
    """Run a script of this folder; return what it prints, one value a line. RuntimeError where it fails."""
    done = subprocess.run(
        ["node", str(HERE / script)], env={**os.environ, **environment}, capture_output=True, text=True, timeout=1_800
    )
    if done.returncode:
        raise RuntimeError(f"{script}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def check_client(folder: Path, packages: Path) -> list[Check]:
    """Check the `openai` package."""
    release = json.loads((packages / "node_modules/openai/package.json").read_text())["version"]
    with ScriptedServer(answer_client) as server, serving(folder, server.base_url) as address:
        found = run_node("openai_client.mjs", PACKAGES=str(packages), PROXY=address, OPENAI_RELEASE=release)
        checks = [(each["check"], each["holds"], each["detail"]) for each in found]
        until = time.monotonic() + 20
        while not server.cancelled and time.monotonic() < until:
            time.sleep(0.1)
        checks.append((f"openai {release}: the cancelled stream ends at the model server", bool(server.cancelled), ""))
    return checks


def check_sillytavern(folder: Path, packages: Path, chromium: str, scene: str) -> list[Check]:
    """Check a scene in SillyTavern's page."""
    package = packages / "node_modules/sillytavern"
    release = json.loads((package / "package.json").read_text())["version"]
    port = free_port()
    tavern = f"http://127.0.0.1:{port}"
    shutil.copy(package / "default/config.yaml", folder / "config.yaml")
    command = ["node", "server.js", "--port", str(port), "--dataRoot", str(folder / "data")]
    command += ["--configPath", str(folder / "config.yaml"), "--browserLaunchEnabled", "false"]
    with (
        ScriptedServer(answer_player) as server,
        serving(folder, server.base_url) as address,
        running(command, tavern, folder / "sillytavern.log", cwd=package),
    ):
        steps = run_node(
            "sillytavern.mjs",
            PACKAGES=str(packages),
            PROXY=address,
            SILLYTAVERN=tavern,
            CHROMIUM=chromium,
            SCREENSHOT=str(folder / "page.png"),
            SCENE=scene,
            CONTEXT_TOKENS=CONTEXT_TOKENS,
        )
        shown = {each["step"]: each["shown"] for each in steps}
        found = list({"whole": judge, "strict": judge_strict, "group": judge_group}[scene](shown, server, address))
    (folder / "upstream.json").write_text(
        json.dumps([dict(each.body) for each in server.requests], ensure_ascii=False, indent=1)
    )
    return [
        (f"SillyTavern {release}, {scene}: {name}", bool(holds), "" if holds else detail)
        for name, holds, detail in found
    ]


def judge(shown: dict[str, list[str]], server: ScriptedServer, address: str) -> Iterator[Check]:
    """Yield what is to hold of a chat that was played: what the page showed, what the model was sent, what is stored."""
    sessions = httpx.get(f"{address}/api/v1/sessions").json()["items"]
    yield "the whole chat is one session", len(sessions) == 1, str(sessions)
    turns = httpx.get(f"{address}/api/v1/sessions/{sessions[0]}/turns?limit=100").json()["items"]
    turns.sort(key=lambda turn: turn["depth"])
    said = [each["content"].strip() for turn in turns for each in turn["messages"]]
    page = [each.strip() for each in shown["message 41"]]
    yield "what is stored is what the page shows", said == page, f"{len(said)} stored, {len(page)} shown"
    last = server.requests[-1].body["messages"]
    theirs = [each["content"] for each in last if each["role"] in ("user", "assistant")]
    ours = "\n".join(each["content"] for each in last if each["role"] == "system")
    yield "the chat has 40 messages when the question is asked", len(page) == 41, str(len(page))
    yield "the page leaves message 3 out of its prompt", FACT not in "\n".join(theirs), ""
    yield "message 3 is recalled at message 40", FACT.removesuffix(".") in ours, ours[-600:]
    yield "a deleted message is gone", PASSWORD not in json.dumps([each for each in last if each["role"] != "user"]), ""
    one, other = shown["swiped back"][-1], shown["swiped"][-1]
    branches = httpx.get(f"{address}/api/v1/sessions/{sessions[0]}/branches").json()
    heads = branches["items"] if isinstance(branches, dict) else branches
    held = [
        message["content"].strip()
        for head in heads
        for turn in httpx.get(
            f"{address}/api/v1/sessions/{sessions[0]}/turns", params={"branch": head["branch_id"], "limit": 100}
        ).json()["items"]
        for message in turn["messages"]
    ]
    yield "a swipe is a branch; both replies are kept", one != other and {one, other} <= set(held), f"{one} {other}"
    quiet = {"quiet prompt": "haiku", "impersonation": "from the point of view of User", "summary": "Summarize"}
    for step, words in quiet.items():
        asked = [each for each in server.requests if words in each.messages[-1].text or words in each.messages[0].text]
        yield f"{step}: the model is asked", len(asked) >= 1, ""
        yield f"{step}: no turn", not any(words in each for each in held), ""
    grown = shown["continued"][-1]
    yield "a continued reply is stored whole", grown in said and grown != shown["summary"][-1], grown
    keys = {each.headers.get("authorization") for each in server.requests}
    yield "the player's key goes to the model server", keys == {"Bearer sk-player"}, str(keys)


def judge_strict(shown: dict[str, list[str]], server: ScriptedServer, address: str) -> Iterator[Check]:
    """Yield what is to hold of 40 turns under strict prompt processing with an author's note."""
    yield from judge_stored(shown["end"], address)
    ours = "What follows is remembered"
    last = [each for each in server.requests[-1].body["messages"] if ours not in str(each["content"])]
    yield "the author's note is in the prompt once", json.dumps(last).count("The night is cold") == 1, str(last)[-600:]
    roles = [each["role"] for each in last]
    turns = all(one != other for one, other in pairwise(roles))
    yield "the client's roles take turns", turns and roles[0] == "system", str(roles)
    text = json.dumps(server.requests[-1].body["messages"])
    yield "the first turn is recalled in the fortieth", FACT in text, ""


def judge_group(shown: dict[str, list[str]], server: ScriptedServer, address: str) -> Iterator[Check]:
    """Yield what is to hold of a group of two."""
    yield from judge_stored(shown["end"], address, may_miss=1)
    yield "each message is answered by both", len(server.requests) == 10, str(len(server.requests))


def judge_stored(page: list[str], address: str, may_miss: int = 0) -> Iterator[Check]:
    """Yield whether the chat is one session that has what the page shows; `may_miss` newest messages come with the next call."""
    sessions = httpx.get(f"{address}/api/v1/sessions").json()["items"]
    yield "the whole chat is one session", len(sessions) == 1, str(sessions)
    turns = httpx.get(f"{address}/api/v1/sessions/{sessions[0]}/turns?limit=200").json()["items"]
    turns.sort(key=lambda turn: turn["depth"])
    said = [each["content"].strip() for turn in turns for each in turn["messages"]]
    told = [each.strip() for each in page]
    # In a group the page sends replies with the speaker's name.
    said = [each.removeprefix("Seraphina: ").removeprefix("Bram: ") for each in said]
    # Strict processing begins with words of the user, where a character has the first word.
    said = said[1:] if said[1:2] == told[:1] else said
    is_same = said in (told[: len(told) - missing] for missing in range(may_miss + 1))
    yield (
        "what is stored is what the page shows",
        is_same,
        f"{len(said)} stored, {len(told)} shown: {said[-4:]} {told[-4:]}",
    )


def print_checks(checks: Iterable[Check], folder: Path) -> int:
    """Print a table of checks, each as it comes; return 1 if one does not hold."""
    found = []
    for name, holds, detail in checks:
        print(f"{'holds' if holds else 'FAILS':6} {name}{f'  ({detail})' if detail and not holds else ''}", flush=True)
        found.append(holds)
    print(f"{sum(found)} of {len(found)} hold; logs are in {folder}")
    return int(not all(found))


def main() -> int:
    """Print the table; return 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True, help="the folder with the npm packages")
    parser.add_argument("--chromium", default="", help="the browser; without it the page is not driven")
    parser.add_argument("--folder", type=Path, help="where stores, logs and the screenshot go (a new one)")
    parser.add_argument("--scene", action="append", choices=SCENES, help="only this scene in SillyTavern's page")
    told = parser.parse_args()
    folder = told.folder or Path(tempfile.mkdtemp(prefix="jacquard-acceptance-"))
    checks: list[Check] = []
    for name in ("client", *SCENES):
        (folder / name).mkdir(parents=True, exist_ok=True)
    checks += check_client(folder / "client", told.packages / "client")
    for scene in told.scene or SCENES if told.chromium else ():
        checks += check_sillytavern(folder / scene, told.packages / "sillytavern", told.chromium, scene)
    return print_checks(checks, folder)


if __name__ == "__main__":
    sys.exit(main())
