"""The calls that the docs show pass `mypy --strict`, with the types of clients; a wrong argument does not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]
VALUES = {
    "evidence.md",
    "evidence-parts.md",
    "filament.md",
    "state-ops.md",
    "state-rules.md",
    "replies.md",
    "erasure.md",
}
"""Pages that show values one by one: they look into what may be None, and use a name again for another value."""

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ANTHROPIC = """
from collections.abc import Iterable
from typing import Literal, Required, TypedDict

class CacheControl(TypedDict, total=False):
    type: Required[Literal["ephemeral"]]

class TextBlock(TypedDict, total=False):
    text: Required[str]
    type: Required[Literal["text"]]
    cache_control: CacheControl | None

class MessageParam(TypedDict):
    content: str | Iterable[TextBlock]
    role: Literal["user", "assistant"]

class Messages:
    def create(
        self, *, model: str, max_tokens: int, messages: Iterable[MessageParam], system: str | Iterable[TextBlock] = ""
    ) -> str: ...

class Anthropic:
    messages: Messages
"""
"""The types of `messages.create`, as the package has them."""

CALLS = """
from anthropic_client import Anthropic
from litellm import completion
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion

from jacquard import PreparedTurn, open_runtime
from jacquard.client import RemoteEngine
from jacquard.sync import create_context_engine, open_engine, open_runtime as open_blocking
from mnemosyne import MemoryStore


async def call_every_client(client: AsyncOpenAI, other: Anthropic, remote: RemoteEngine) -> None:
    async with open_runtime("saves", world="forest", embedder="none") as runtime:
        turn = await runtime.engine.prepare_turn("s", "Hello.")
        answer: ChatCompletion = await client.chat.completions.create(model="m", messages=turn.messages)
        await client.chat.completions.create(model="m", messages=turn.to_openai())
        messages = await runtime.engine.assemble("s", turn.turn_id, [answer.choices[0].message.model_dump()])
        await client.chat.completions.create(model="m", messages=messages)
        completion(model="m", messages=[*turn.messages])
        other.messages.create(model="m", max_tokens=100, **turn.to_anthropic())
        await runtime.engine.commit_assistant_message("s", answer.choices[0].message.content or "")
        role: str = turn.messages[0].role + turn.messages[0]["content"]


def call_without_a_loop(client: OpenAI) -> None:
    with open_blocking("saves", world="forest", embedder="none") as runtime:
        runtime.ensure_session("s")
        turn: PreparedTurn = runtime.engine.prepare_turn("s", "Hello.")
        client.chat.completions.create(model="m", messages=turn.messages)
    with open_engine("saves") as (engine, opened):
        engine.run(opened.sync)
    with create_context_engine(MemoryStore()) as engine:
        engine.tasks("s")
"""
WRONG = """
from jacquard.sync import create_context_engine, open_engine, open_runtime
from mnemosyne import MemoryStore

open_engine("saves", wrld="forest")
open_runtime("saves", wrld="forest")
create_context_engine("saves")
with open_runtime("saves") as runtime:
    runtime.ensure_session(index=True)
    runtime.engine.prepare_turn("s", 3)
with open_engine("saves") as (engine, opened):
    engine.tasks()
"""


def check(*files):
    run = [sys.executable, "-m", "mypy", "--strict", *map(str, files)]
    return subprocess.run(run, capture_output=True, text=True, cwd=ROOT).stdout


def test_the_calls_of_the_docs_pass_a_strict_check(tmp_path):
    (tmp_path / "anthropic_client.pyi").write_text(ANTHROPIC, encoding="utf-8")
    (tmp_path / "calls.py").write_text(CALLS, encoding="utf-8")
    for number, page in enumerate(page for page in PAGES if page.name not in VALUES):
        blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
        (tmp_path / f"{page.name.partition('.')[0]}_{number}.py").write_text("\n".join(blocks), encoding="utf-8")
    assert check(*tmp_path.glob("*.py*")).startswith("Success")


def test_a_wrong_argument_of_the_synchronous_face_is_found(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    lines = WRONG.splitlines()
    found = {
        lines[int(number) - 1].strip() for number in re.findall(r"wrong\.py:(\d+): error", check(tmp_path / "wrong.py"))
    }
    wrong = [line.strip() for line in lines if "(" in line and not line.startswith("with")]
    assert found == {*wrong}
