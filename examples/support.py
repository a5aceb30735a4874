"""A support agent with tools and documents: it answers from the help pages and from what its tools return.

python examples/support.py
"""

from __future__ import annotations

import json
import sys
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from model import open_model

from jacquard import RuntimeConfig, open_runtime
from mnemosyne import EvidenceSource, EvidenceType, SourceKind, ToolCall

PAGES = {
    "help:returns": "Returns are free within 30 days. After that, only broken goods are taken back.",
    "help:delivery": "Parcels leave on working days before 15:00. Lamps are sent in two boxes.",
}
ORDERS = {"A1": {"order": "A1", "goods": "lamp <brass>", "status": "sent", "boxes": "1 of 2 & 1 open"}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_order",
            "description": "Look up an order by its number.",
            "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
        },
    }
]
INPUTS = ("Where is my order A1?", "Can I still return it after six weeks?")
SCRIPT = (
    'tool:find_order {"order": "A1"}',
    "text:One of two boxes is on its way; the other is still open.",
    "text:Only if it is broken: returns are free within 30 days.",
)


def find_order(order: str) -> str:
    """Return what is known of an order, as JSON."""
    return json.dumps(ORDERS.get(order, {"error": "unknown order"}))


async def serve(inputs: tuple[str, ...], folder: str) -> None:
    """Answer each input from the help pages and the tools."""
    config = RuntimeConfig(profile="support")
    async with open_model(*SCRIPT) as model, open_runtime(folder, config=config) as runtime:
        engine = runtime.engine
        await runtime.ensure_session("ticket")
        pages = engine.ingestor_of("ticket")
        for uri, text in PAGES.items():
            source = EvidenceSource(kind=SourceKind.RAG, name=uri.partition(":")[2], uri=uri)
            await pages.ingest(text, source, EvidenceType.RAG_DOC)
        for said in inputs:
            turn = await engine.prepare_turn("ticket", said)
            tail: list[dict[str, Any]] = []
            answer = await model.ask(turn.to_openai(), TOOLS)
            while answer.tool_calls:
                tail.append(answer.model_dump(exclude_none=True))
                for call in answer.tool_calls:
                    given = json.loads(call.function.arguments)
                    result = find_order(**given)
                    tail.append({"role": "tool", "tool_call_id": call.id, "content": result})
                    made = ToolCall(tool_call_id=call.id, tool=call.function.name, args_digest=given)
                    await engine.record_tool_call("ticket", made, result=result)
                answer = await model.ask(await engine.assemble("ticket", turn.turn_id, tail), TOOLS)
            await engine.commit_assistant_message("ticket", answer.content or "")
            print(f"> {said}\n{answer.content}\n")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        anyio.run(serve, tuple(sys.argv[1:]) or INPUTS, folder)
