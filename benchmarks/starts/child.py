"""One fresh process: opens a store, takes turns, and prints as JSON what each step took and which packages it had imported by then.

`python -m benchmarks.starts.child BEGAN ORDER`: the clock of the parent when it started this process, and the order as JSON.
"""

from __future__ import annotations

import json
import sys
from time import monotonic, process_time
from typing import Any

HEAVY = (
    "lancedb",
    "lance",
    "pyarrow",
    "numpy",
    "onnxruntime",
    "tokenizers",
    "torch",
    "litellm",
    "pydantic",
    "jinja2",
    "psycopg",
)
REPLY = "<content>Yes, that is how I remember it, 我也这么记得。</content>"


async def play(began: float, order: dict[str, Any]) -> dict[str, Any]:
    """Take the turns of an order; return the figures."""
    started, worked = monotonic(), process_time()
    from jacquard import open_runtime

    imported, import_worked = monotonic(), process_time() - worked
    modules = len(sys.modules)
    turns: list[dict[str, Any]] = []
    async with open_runtime(order["store"], embedder=order["embedder"], bare=True) as runtime:
        opened = monotonic()
        for text in order["questions"]:
            asked, worked = monotonic(), process_time()
            prepared = await runtime.engine.prepare_turn(order["session"], text)
            done = monotonic()
            receipt = prepared.report
            turns.append(
                {
                    "wall_ms": (done - asked) * 1000,
                    "processor_ms": (process_time() - worked) * 1000,
                    "since_start_ms": (done - began) * 1000,
                    "memories": sum(each.chosen for each in receipt.stream_b.candidates),
                    "candidates": len(receipt.stream_b.candidates),
                    "degradations": [str(each.code) for each in receipt.degradations],
                    "path": str(receipt.stream_b.path),
                    "timings_ms": {name: float(value) for name, value in prepared.report.timings_ms.items()},
                    "imported": [name for name in HEAVY if name in sys.modules],
                }
            )
            await runtime.engine.commit_assistant_message(order["session"], REPLY, turn_id=prepared.turn_id)
            await runtime.engine.settle(order["settle_seconds"])
        closing = monotonic()
    return {
        "python_ms": (started - began) * 1000,
        "import_ms": (imported - started) * 1000,
        "import_processor_ms": import_worked * 1000,
        "modules": modules,
        "open_ms": (opened - imported) * 1000,
        "close_ms": (monotonic() - closing) * 1000,
        "turns": turns,
    }


def main() -> None:
    """Run the order and print the figures."""
    import anyio

    from evals.reporting.machine import peak_memory_mb

    figures = anyio.run(play, float(sys.argv[1]), json.loads(sys.argv[2]))
    print(json.dumps({**figures, "peak_memory_mb": peak_memory_mb()}))


if __name__ == "__main__":
    main()
