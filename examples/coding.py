"""A coding agent: it reads and writes files of a folder, runs the tests, and remembers what they said.

python examples/coding.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from model import open_model

from jacquard import RuntimeConfig, open_runtime
from mnemosyne import ToolCall

CODE = "def spent(count, limit):\n    return count < limit & True\n"
MENDED = "def spent(count, limit):\n    return count >= limit\n"
TESTS = "from limits import spent\nassert spent(3, 3) and not spent(2, 3), 'a bucket is spent at its limit'\nprint('2 passed')\n"
TEXT = {"type": "string"}
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": fields, "required": list(fields)}},
    }
    for name, fields in (("read_file", {"name": TEXT}), ("write_file", {"name": TEXT, "text": TEXT}), ("run_tests", {}))
]
INPUTS = ("The tests of limits.py fail. Mend it.", "What was wrong in the line?")
SCRIPT = (
    'tool:read_file {"name": "limits.py"} && run_tests {}',
    f"tool:write_file {json.dumps({'name': 'limits.py', 'text': MENDED})}",
    "tool:run_tests {}",
    "text:Mended: `spent` is true from the limit on. 2 passed.",
    "text:`count < limit & True` compared with `limit & True`, and the wrong way round.",
)


async def use(folder: Path, tool: str, given: dict[str, str]) -> str:
    """Do what the model asks for, with the files of one folder alone."""
    name = Path(given.get("name", "limits.py")).name
    if tool == "read_file":
        return (folder / name).read_text(encoding="utf-8")
    if tool == "write_file":
        (folder / name).write_text(given["text"], encoding="utf-8")
        return f"{name} is written."
    done = await anyio.run_process([sys.executable, "test_limits.py"], cwd=folder, check=False)
    return (done.stdout + done.stderr).decode()[-2_000:]


async def work(inputs: tuple[str, ...], folder: Path) -> None:
    """Answer each input, with as many calls of tools as the model asks for."""
    (folder / "limits.py").write_text(CODE, encoding="utf-8")
    (folder / "test_limits.py").write_text(TESTS, encoding="utf-8")
    config = RuntimeConfig(profile="coding")
    async with open_model(*SCRIPT) as model, open_runtime(folder / "memory", config=config) as runtime:
        engine = runtime.engine
        await runtime.ensure_session("limits")
        for said in inputs:
            turn = await engine.prepare_turn("limits", said)
            tail: list[dict[str, Any]] = []
            answer = await model.ask(turn.to_openai(), TOOLS)
            while answer.tool_calls:
                tail.append(answer.model_dump(exclude_none=True))
                for call in answer.tool_calls:
                    given = json.loads(call.function.arguments)
                    result = await use(folder, call.function.name, given)
                    tail.append({"role": "tool", "tool_call_id": call.id, "content": result})
                    made = ToolCall(tool_call_id=call.id, tool=call.function.name, args_digest=given)
                    await engine.record_tool_call("limits", made, result=result)
                answer = await model.ask(await engine.assemble("limits", turn.turn_id, tail), TOOLS)
            await engine.commit_assistant_message("limits", answer.content or "")
            print(f"> {said}\n{answer.content}\n")


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        anyio.run(work, tuple(sys.argv[1:]) or INPUTS, Path(made))
